"""gpulab/startup.py: what a process leaves out of its heavy imports."""

import subprocess
import sys

from gpulab.startup import skip_slow_grammar


def modules_after(code: str) -> set[str]:
    """The modules that are really loaded in a new Python after ``code``."""
    listing = "; import sys; print(*(name for name, module in sys.modules.items() if module is not None))"
    done = subprocess.run([sys.executable, "-c", code + listing], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_altair_loads_without_the_grammar_after_skip_slow_grammar():
    loaded = modules_after("from gpulab.startup import skip_slow_grammar; skip_slow_grammar(); import altair")
    assert "altair" in loaded
    assert "lark" not in loaded


def test_altair_alone_would_load_the_grammar():
    """If this fails, jsonschema no longer needs the step, and it can go."""
    assert "lark" in modules_after("import altair")


def test_it_says_whether_the_grammar_stays_out(monkeypatch):
    monkeypatch.delitem(sys.modules, "rfc3987_syntax", raising=False)
    assert skip_slow_grammar() is True
    assert skip_slow_grammar() is True
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", sys)
    assert skip_slow_grammar() is False
    assert sys.modules["rfc3987_syntax"] is sys


def test_this_test_run_has_not_loaded_the_grammar():
    assert sys.modules.get("rfc3987_syntax") is None
