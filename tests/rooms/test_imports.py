"""Who imports whom, how much an import brings, and the house rules that a syntax tree can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpulab"
MODULES = sorted(PACKAGE.rglob("*.py"))
LEARNER_SIDE = "autograder.learner"

# architecture, section 3: each room may import the rooms before it.
ROOMS = ("telemetry", "memory", "device", "sharing", "serving")
GROUND = {"units", "errors", "startup", "cards", "datasets", "mixes", ""}
# Where a heavy or optional package may be imported, and only inside a function.
PLACES = {
    "cupy": {"device/cuda.py"},
    "pynvml": {"telemetry/nvml.py"},
    "altair": {"report/drawing.py"},
    "vl_convert": {"report/picture.py"},
    "ipywidgets": {"report/widgets.py"},
    "IPython": {"report/charts.py", "report/widgets.py"},
    "pooch": {"datasets.py"},
    "distributed": {"cli/sweeping.py"},
    "scipy": {"serving/fit.py"},
    "pyarrow": {"serving/tables.py"},
}
AT_THE_TOP = {"numpy"}
# Modules that exist on POSIX systems only: with one of them at the top, Windows cannot import the file.
POSIX_ONLY = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix", "syslog", "curses"}

MODULE_LINES, FUNCTION_LINES = 270, 45


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(module: str) -> str:
    """``'memory'`` for ``gpulab.memory.arena``, ``''`` for ``gpulab`` itself."""
    return ([*module.split("."), ""])[1]


def imports_of(path: Path) -> list[tuple[str, bool]]:
    """Each imported module, with True when the import runs as soon as the file is imported."""
    found = []

    def visit(node: ast.AST, at_import: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, at_import) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: imports are written in full"
                found.append((child.module, at_import))
                found.extend((f"{child.module}.{alias.name}", at_import) for alias in child.names)
            else:
                visit(child, at_import and not isinstance(child, ast.FunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text(encoding="utf-8")), True)
    return found


def may_import(room: str, other: str) -> bool:
    """Whether a file of ``room`` may import from room ``other``."""
    if other in GROUND or room in (other, "cli"):
        return True
    if room == "report":
        return other == "telemetry"
    return room in ROOMS and other in ROOMS and ROOMS.index(other) < ROOMS.index(room)


def broken_directions(room: str, path: Path) -> list[str]:
    wrong = []
    for module, _ in imports_of(path):
        if module.split(".")[0] == "autograder" and name_of(path) != "cli/lab.py":
            wrong.append(f"{name_of(path)} imports {module}")
        if module.split(".")[0] == "gpulab" and not may_import(room, room_of(module)):
            resolved = PACKAGE / room_of(module)
            if resolved.exists() or resolved.with_suffix(".py").exists():
                wrong.append(f"{name_of(path)} imports {module}")
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path):
    parts = path.relative_to(PACKAGE).parts
    room = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
    if room == "__main__":
        room = "cli"
    assert broken_directions(room, path) == []


def test_a_wrong_direction_would_be_seen(tmp_path):
    assert may_import("memory", "telemetry")
    assert may_import("report", "telemetry")
    assert not may_import("telemetry", "memory")
    assert not may_import("report", "memory")
    assert not may_import("memory", "report")
    assert not may_import("units", "telemetry")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_are_imported_late_and_in_their_place(path):
    for module, at_import in imports_of(path):
        top = module.split(".")[0]
        if top in sys.stdlib_module_names | AT_THE_TOP | {"gpulab"}:
            continue
        if top == "autograder":
            assert not at_import, f"{name_of(path)} imports {module} at once"
        elif top in PLACES:
            assert name_of(path) in PLACES[top], f"{name_of(path)} imports {top}"
            assert not at_import, f"{name_of(path)} imports {top} at once"
        elif top in {"typer", "rich"}:
            assert name_of(path).startswith("cli/"), f"{name_of(path)} imports {top}"
        else:
            assert top == "sortedcontainers", f"{name_of(path)} imports {top}"
            assert name_of(path).startswith("memory/")


def third_party_after(*modules: str) -> set[str]:
    """The packages outside gpulab and the standard library that a new Python has after these imports."""
    code = f"import sys; before = set(sys.modules); import {', '.join(modules)}; print(*(n for n in sys.modules if n not in before and sys.modules[n]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    tops = {name.split(".")[0] for name in done.stdout.split()}
    assert "gpulab" in tops
    return tops - sys.stdlib_module_names - {"gpulab"}


def test_import_gpulab_brings_numpy_and_the_standard_library_alone():
    assert third_party_after("gpulab") - {"numpy"} == set()


def test_all_rooms_together_bring_no_more_than_the_sorted_lists_of_memory():
    names = [name_of(path).removesuffix(".py").replace("/", ".") for path in MODULES]
    rooms = [name for name in names if not name.startswith(("cli", "__")) and not name.endswith("__init__")]
    assert third_party_after(*(f"gpulab.{name}" for name in rooms)) - {"numpy", "sortedcontainers"} == set()


def test_the_judge_loads_no_command():
    checks = sorted((ROOT / "autograder" / "checks").rglob("*.py"))
    seen = set().union(
        *(files_behind(".".join(file.relative_to(ROOT).with_suffix("").parts), set()) for file in checks)
    )
    assert PACKAGE / "serving" / "cost.py" in seen
    assert {file for file in seen if PACKAGE / "cli" in file.parents} == set()


def test_the_help_of_the_commands_loads_no_notebook_package():
    code = (
        "import sys, typer.testing; from gpulab.cli import app; "
        "print(typer.testing.CliRunner().invoke(app, ['--help']).exit_code); "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    status, loaded = done.stdout.splitlines()
    heavy = {"altair", "nbgrader", "nbformat", "jsonschema", "jupyterlab", "cupy", "pynvml", "pooch"}
    assert status == "0"
    assert heavy & set(loaded.split()) == set()


def files_behind(module: str, seen: set[Path]) -> set[Path]:
    """The files of this repository that importing ``module`` runs, itself included."""
    path = ROOT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file() or path in seen:
        return seen
    seen.add(path)
    for name, at_import in imports_of(path):
        if at_import and name and name.split(".")[0] in {"gpulab", "autograder"}:
            files_behind(name, seen)
    return seen


def test_nothing_that_a_learner_runs_needs_posix():
    files = set(MODULES) | files_behind(LEARNER_SIDE, set()) | files_behind("autograder.release", set())
    needed = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module, at_import in imports_of(path)
        if at_import and module.split(".")[0] in POSIX_ONLY
    }
    assert needed == set()


def test_a_posix_module_at_the_top_would_be_seen(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("import os\nif os.name:\n    import fcntl\n\ndef late():\n    import pwd\n")
    assert imports_of(file) == [("os", True), ("fcntl", True), ("pwd", False)]


# House rules (architecture, section 9), as far as a syntax tree shows them.


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_and_functions_stay_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MODULE_LINES
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    long = {
        f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno - f.lineno >= FUNCTION_LINES
    }
    assert long == {}


def house_rules_broken(path: Path, *, may_print: bool) -> list[str]:
    """What in ``path`` breaks a rule of the house, with its line."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Global):
            found.append(f"{line}: global")
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.strip("_").endswith(
            ("Base", "Manager", "Utils", "Impl", "Helper")
        ):
            found.append(f"{line}: the name {node.name}")
        if isinstance(node, ast.Import | ast.ImportFrom) and "atexit" in ast.unparse(node):
            found.append(f"{line}: atexit")
        if isinstance(node, ast.FunctionDef) and node.args.kwarg and not node.name.startswith("_"):
            passed = {f"**{node.args.kwarg.arg}"} & {
                f"**{ast.unparse(k.value)}"
                for call in ast.walk(node)
                if isinstance(call, ast.Call)
                for k in call.keywords
                if k.arg is None
            }
            found += [f"{line}: {name} passed through" for name in passed]
        if (
            isinstance(node, ast.Call)
            and not may_print
            and ast.unparse(node.func) in {"print", "warnings.warn"}
        ):
            found.append(f"{line}: {ast.unparse(node.func)}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_gpulab_keeps_the_house_rules_and_prints_nothing_outside_the_commands(path):
    assert house_rules_broken(path, may_print=name_of(path).startswith("cli/")) == []


def test_each_broken_house_rule_would_be_seen(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(
        "import atexit\nclass PoolManager: pass\ndef f(**kw):\n    global x\n    print(1)\n    return g(**kw)\n"
    )
    assert sorted(house_rules_broken(file, may_print=False)) == [
        "1: atexit",
        "2: the name PoolManager",
        "3: **kw passed through",
        "4: global",
        "5: print",
    ]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_says_what_the_caller_gets(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module"
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    silent = [n.name for n in nodes if not n.name.startswith("_") and not ast.get_docstring(n)]
    assert silent == []
