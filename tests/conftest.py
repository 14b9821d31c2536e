"""What every test run shares: the fixed Hypothesis profile, sizes, shares, no skips.

``GPULAB_NO_SKIP=1`` makes a skipped or expected-to-fail test an error of the run (``.ci/run`` sets it).
``GPULAB_SOAK=1`` multiplies every ``scale(n)`` and the number of Hypothesis examples by ten, and the run
writes ``tests/soak-report.md``.
"""

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest

SOAK = os.environ.get("GPULAB_SOAK") == "1"
NO_SKIP = os.environ.get("GPULAB_NO_SKIP") == "1"
TESTS = Path(__file__).parent

# Which share of the run a test belongs to; the first prefix that fits wins.
GROUPS = (
    ("rooms/test_setup", "clone and commands"),
    ("rooms/test_lab_command", "clone and commands"),
    ("labs/test_release", "releases"),
    ("labs/test_nbgrader", "releases"),
    ("labs/", "lab sources"),
    ("graders/", "mutants"),
    ("hostile/", "hostile"),
    ("browser/", "browser"),
    ("", "package"),
)

hypothesis.settings.register_profile(
    "gpulab",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=1000 if SOAK else 100,
)
hypothesis.settings.load_profile("gpulab")


@pytest.fixture
def scale(request):
    """A function from the size that ``make test`` runs to the size of this run (ten times it in a soak)."""

    def size(count: int) -> int:
        wanted = count * 10 if SOAK else count
        request.node.user_properties.append(("size", wanted))
        return wanted

    return size


class Kernel:
    """A learner's process with the judge's address, as grading starts it; runs code as cells do."""

    LOOP = (
        "import contextlib, io, json, sys, traceback\n"
        "names = {}\n"
        "for line in sys.stdin:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        "        try:\n"
        "            exec(compile(json.loads(line), 'cell', 'exec'), names)\n"
        "        except BaseException:\n"
        "            traceback.print_exc(file=shown)\n"
        "    print(json.dumps(shown.getvalue()), flush=True)\n"
    )

    def __init__(self, address: str) -> None:
        environment = {**os.environ, "GPULAB_JUDGE": address}
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.LOOP],
            cwd=TESTS.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str) -> str:
        """What ``code`` printed or raised; '' when the process ended instead."""
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '""')

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def kernel():
    """Starts a ``Kernel`` for the address of a judge; all are ended with the test."""
    started = []

    def start(address: str) -> Kernel:
        started.append(Kernel(address))
        return started[-1]

    yield start
    for one in started:
        one.close()


def group_of(node_id: str) -> str:
    """The share that the test ``node_id`` belongs to."""
    path = node_id.removeprefix("tests/")
    return next(group for prefix, group in GROUPS if path.startswith(prefix))


class Tally:
    """Counts what a run did, from the reports that reach this process (all of them, also with workers)."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: defaultdict[str, set] = defaultdict(set)
        self.stepped_aside: list[str] = []
        self.rows: list[tuple[str, str, str]] = []

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[group_of(report.nodeid)] += report.duration
        self.tests[group_of(report.nodeid)].add(report.nodeid)
        if report.skipped or hasattr(report, "wasxfail"):
            self.stepped_aside.append(report.nodeid)
        if report.when == "call":
            sizes = [f"{value:,}" for name, value in report.user_properties if name == "size"]
            self.rows.append((report.nodeid, ", ".join(sizes) or "profile", report.outcome))

    def pytest_collectreport(self, report) -> None:
        if report.skipped:
            self.stepped_aside.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session) -> None:
        is_worker = hasattr(session.config, "workerinput")
        if NO_SKIP and self.stepped_aside and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if SOAK and not is_worker and whole_soak(session.config.option):
            write_soak_report(self.rows, session.exitstatus)

    def pytest_terminal_summary(self, terminalreporter, config) -> None:
        workers = getattr(config.option, "numprocesses", None) or 1
        terminalreporter.section("shares")
        terminalreporter.write_line(f"{'group':<20}{'tests':>7}{'seconds':>10}   (wall, {workers} workers)")
        for group in dict.fromkeys(name for _, name in GROUPS):
            if self.tests[group]:
                wall = self.seconds[group] / workers
                terminalreporter.write_line(f"{group:<20}{len(self.tests[group]):>7}{wall:>10.1f}")
        if NO_SKIP and self.stepped_aside:
            terminalreporter.write_line("Not run, and GPULAB_NO_SKIP=1 makes that an error:", red=True)
            for node_id in sorted(set(self.stepped_aside)):
                terminalreporter.write_line(f"  {node_id}")


def whole_soak(option) -> bool:
    """Is this all of `make soak`? A run of one test, or one that only collects, would empty the report."""
    return option.markexpr == "soak" and not option.keyword and not option.collectonly


def write_soak_report(rows: list[tuple[str, str, str]], status: int) -> None:
    """Write ``tests/soak-report.md``: what ran, how large, how it ended, on what."""
    lines = [
        "# Soak report",
        "",
        "Written by `make soak`: each test below at ten times the size of `make test` (*size*: what it asked",
        "`scale` for; *profile*: ten times the Hypothesis examples).",
        "",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"exit status {int(status)}.",
        "",
        "| test | size | result |",
        "|---|---|---|",
        *(f"| {name} | {sizes} | {outcome} |" for name, sizes, outcome in sorted(rows)),
    ]
    (TESTS / "soak-report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def pytest_configure(config) -> None:
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # started with "&": what we start would ignore it, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Tally(), "gpulab-tally")


def pytest_collection_modifyitems(items) -> None:
    """An address in a test's id differs between workers: xdist would then run nothing at all."""
    odd = [item.nodeid for item in items if re.search(r"0x[0-9a-f]{6,}", item.nodeid)]
    if odd:
        raise pytest.UsageError(f"give these parameters ids of their own: {', '.join(odd[:5])}")
