"""The sandbox: any client's kernel goes into it, it fails closed, and nothing outlives whoever started it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from autograder import sandbox_system, sandbox_tree, sandbox_walls, sandbox_zygote
from autograder.execute import JudgedExecute
from autograder.sandbox import BUBBLEWRAP, NAMESPACES, Limits, NoSandbox, SandboxFailed
from autograder.sandbox_warm import Warm, warm

REPO = Path(__file__).resolve().parents[2]
GROUP = "jupyter_client.kernel_provisioners"

# The child takes no lock that another thread could hold; Python 3.12 warns of every fork beside threads.
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class Plain(JudgedExecute):
    """JudgedExecute of notebooks without exercises, before no judge."""

    path, heard = "", True

    def load_course(self):
        return None

    def write_card(self, folder, course) -> None:
        pass

    def exercises(self):
        return ()

    def open_sitting(self, course, student):
        return self

    def expect(self, root: int) -> None:
        self.root = root

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def short():
    """A folder whose path is short enough for sockets, which pytest's own need not be."""
    with tempfile.TemporaryDirectory(prefix="short-") as folder:
        yield Path(folder)


def run(*sources: str, folder: Path, **settings) -> list:
    """The outputs of each of ``sources`` after one sandboxed run."""
    nb = new_notebook(cells=[new_code_cell(source) for source in sources])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    resources = {"nbgrader": {"student": "ann"}, "metadata": {"path": str(folder)}}
    Plain(**settings).preprocess(nb, resources)
    return [cell.outputs for cell in nb.cells]


def gone(*pids: int) -> bool:
    """Have all of ``pids`` ended, within the time a busy machine needs?"""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- any client ---------------------------------------------------------------------------------------


def test_the_entry_point_puts_any_clients_kernel_into_the_sandbox_unchanged(tmp_path, short, monkeypatch):
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"][GROUP].items()
    factory = KernelProvisionerFactory.instance()
    monkeypatch.setitem(factory.provisioners, name, EntryPoint(name, value, GROUP))
    monkeypatch.setattr(factory, "default_provisioner_name", name)
    runtime = short / "runtime"
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    (tmp_path / "data.txt").write_text("mine")
    nb = new_notebook(
        cells=[new_code_cell("import os; print(os.getpid(), os.getcwd(), open('data.txt').read())")]
    )
    NotebookClient(nb, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert nb.cells[0].outputs[0].text == "1 /notebook mine\n"
    assert list(runtime.iterdir()) == []


def test_a_path_too_long_for_a_socket_is_a_failure_that_says_what_to_do(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(SandboxFailed, match="set TMPDIR to a shorter folder"):
        run("1", folder=tmp_path)


def test_an_interrupt_ends_the_cell_and_the_kernel_goes_on(tmp_path):
    first, second = run("import time\ntime.sleep(60)", "print('on')", folder=tmp_path, timeout=1)
    assert first[-2].ename == "CellTimeoutError"
    assert first[-1].text == "It went on after 1 s, and was stopped.\n"
    assert second[0].text == "on\n"


# -- ways in, and none ---------------------------------------------------------------------------------


def test_bubblewrap_serves_where_namespaces_are_refused(tmp_path):
    (tmp_path / "data.txt").write_text("mine")
    source = (
        "import os, socket\n"
        "print(os.getpid(), os.getcwd(), open('data.txt').read())\n"
        "open('data.txt', 'w').write('changed')\n"
        f"print(os.path.exists({str(REPO / 'tests')!r}), os.listdir({str(REPO / 'autograder' / 'references')!r}))\n"
        "for path in ('/hostile-mark', '/dev/hostile-mark', os.__file__):\n"
        "    try:\n"
        "        open(path, 'a')\n"
        "    except OSError as refused:\n"
        "        print('refused')\n"
        "print(socket.socket().connect_ex(('9.9.9.9', 53)) != 0)"
    )
    (outputs,) = run(source, folder=tmp_path, ways=[BUBBLEWRAP])
    assert outputs[0].text == "1 /notebook mine\nFalse []\nrefused\nrefused\nrefused\nTrue\n"
    assert (tmp_path / "data.txt").read_text() == "mine"


def test_in_bubblewrap_too_a_kernel_that_takes_too_much_is_ended_whole(tmp_path):
    bomb = (
        "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(60)"
    )
    first, second = run(bomb, "1", folder=tmp_path, ways=[BUBBLEWRAP], limits={"processes": 40})
    # Root's processes are not counted by the kernel, so the sandbox counts and ends; others meet the limit.
    stopped = "".join(first[0].traceback) + second[0].get("ename", "")
    told = "".join(output.get("text", "") for output in first)
    assert "more than 40 processes" in stopped or "a notebook may have 40 processes" in told
    assert list(sandbox_tree.processes(warm((BUBBLEWRAP,)).pid)) == [warm((BUBBLEWRAP,)).pid]


def test_without_a_sandbox_nothing_is_run_and_the_sentence_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(NoSandbox, match="no learner's code was run") as refusal:
        run("open('ran', 'w')", folder=tmp_path, ways=[])
    for help_ in ("user namespaces", "apt-get install bubblewrap", "docker run", "--unsafe-no-sandbox"):
        assert help_ in str(refusal.value)
    assert not (tmp_path / "ran").exists()
    for system, word in (("darwin", "macOS"), ("win32", "Windows")):
        monkeypatch.setattr(sys, "platform", system)
        with pytest.raises(NoSandbox, match=f"this is {word}.*\n.*docker run"):
            Warm()


@FORKS
def test_each_way_that_is_refused_is_named_with_its_reason(monkeypatch):
    def refuse(flags: int) -> None:
        raise PermissionError("unshare: not here")

    monkeypatch.setattr(sandbox_system, "unshare", refuse)
    monkeypatch.setenv("PATH", "")
    assert sandbox_zygote.find_way([NAMESPACES, BUBBLEWRAP]) == (
        "",
        ["namespaces: PermissionError: unshare: not here", "bubblewrap: not installed"],
    )


@FORKS
def test_an_ordinary_user_gets_the_same_walls_as_root(tmp_path):
    """In a process of its own that gives up root, where the tests are root's; the paths it may not read are left out."""
    own = Path(tempfile.mkdtemp())  # not below tmp_path, which is root's alone
    (own / "mine").write_text("mine")
    # A Python of its own: a package that others have loaded here may not bear a fork without its files.
    program = Path(__file__).with_name("ordinary_user.py")
    done = subprocess.run(
        [sys.executable, program, own],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(own)
    told = json.loads(done.stdout or '"nothing"')
    none = {name: "0" * 16 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert told == none | {
        "pid": 1,
        "Uid": "1000",
        "NoNewPrivs": "1",
        "to its own file": "Read-only file system",
        "root": ["bin", "dev", "etc", "lib", "lib64", "notebook", "proc", "tmp", "usr"],
    }


@pytest.mark.parametrize("way", [NAMESPACES, BUBBLEWRAP])
def test_a_course_folder_among_the_data_that_all_can_read_is_not_seen(tmp_path, monkeypatch, way):
    data = tmp_path / "data"
    folder = data / "course" / "autograded" / "ann"
    folder.mkdir(parents=True)
    (data / "trace.csv").write_text("1,2")
    (data / "course" / "secret").write_text("secret")
    (folder / "mine").write_text("mine")
    monkeypatch.setenv("GPULAB_DATA", str(data))
    monkeypatch.setenv("GPULAB_COURSE", str(data / "course"))
    source = "import os; d = os.environ['GPULAB_DATA']; print(sorted(os.listdir(d)), os.listdir(d + '/course'), os.listdir())"
    (outputs,) = run(source, folder=folder, ways=[way])
    assert outputs[0].text == "['course', 'trace.csv'] [] ['mine']\n"


def test_a_kernel_has_every_check_in_memory_and_no_reference(tmp_path):
    source = """
    import sys
    here = set(sys.modules)
    from autograder.checks import exercises
    exercises()
    ours = [name for name in sys.modules if name.startswith(("gpulab", "autograder", "altair"))]
    print(sorted(set(ours) - here), [name for name in ours if "references" in name])
    """
    (outputs,) = run(textwrap.dedent(source), folder=tmp_path, ways=[NAMESPACES])
    assert outputs[0].text == "[] []\n"


def test_what_all_processes_of_a_notebook_take_is_watched_while_others_start_and_end(tmp_path):
    hog = """
    import os, time
    for _ in range(3):
        if os.fork() == 0:
            block = bytearray(300 * 2**20)
            for page in range(0, len(block), 4096):
                block[page] = 1
            time.sleep(20)
    time.sleep(10)
    print("held")
    """
    over = threading.Event()
    nothing = {"readable": [], "hidden": [], "folder": "/nowhere", "judge": "", "limits": {}}

    def others() -> None:
        while not over.wait(0.01):
            with pytest.raises(SandboxFailed, match="disk_bytes"):
                warm((NAMESPACES,)).launch(nothing, [])

    beside = threading.Thread(target=others)
    beside.start()
    try:
        limits = {"memory_bytes": 500 * 2**20}
        first, second = run(textwrap.dedent(hog), "1", folder=tmp_path, ways=[NAMESPACES], limits=limits)
    finally:
        over.set()
        beside.join()
    assert "because it and its processes took more than 500 MiB" in str(first), first
    assert "held" not in str(first) and second[0].ename == "NotRun"


# -- somebody dies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["warm", "kernel"])
def test_an_end_from_outside_is_a_failure_of_ours_and_the_next_run_goes_well(tmp_path, victim):
    class Killed(Plain):
        def expect(self, root: int) -> None:
            self.pid = root
            os.kill(warm().pid if victim == "warm" else root, signal.SIGKILL)

    nb = new_notebook(cells=[new_code_cell("import time; time.sleep(60)")])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    killed = Killed()
    with pytest.raises(SandboxFailed, match="ended from outside while cell 1"):
        killed.preprocess(nb, {"nbgrader": {"student": "ann"}, "metadata": {"path": str(tmp_path)}})
    assert gone(killed.pid)
    (outputs,) = run("print('on')", folder=tmp_path)
    assert outputs[0].text == "on\n"


@pytest.mark.parametrize("both", [False, True], ids=["alone", "with-the-warm-one"])
def test_when_the_process_that_grades_is_killed_nothing_of_it_lives_on(tmp_path, short, both):
    grading = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(REPO)!r})
        from gpulab.startup import skip_slow_grammar
        skip_slow_grammar()
        from pathlib import Path
        from tests.labs.test_sandbox import Plain, run, warm
        Plain.expect = lambda self, root: print(warm().pid, root, flush=True)
        lone = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\ntime.sleep(60)"
        run(lone, folder=Path({str(tmp_path)!r}))
        """
    )
    environment = {**os.environ, "TMPDIR": str(short)}  # a killed process leaves its folders
    process = subprocess.Popen(
        [sys.executable, "-c", grading], stdout=subprocess.PIPE, text=True, cwd=REPO, env=environment
    )
    with process:
        keeper, kernel = map(int, process.stdout.readline().split())
        tree = list(sandbox_tree.processes(keeper))
        if both:
            os.kill(process.pid, signal.SIGSTOP)  # so that it sees nothing
            os.kill(keeper, signal.SIGKILL)
        process.kill()
    assert {keeper, kernel} <= set(tree)
    assert gone(*tree)


# -- limits and the judge's ear -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text", "told"),
    [
        ("MemoryError", "", "Memory: a notebook may take 2,048 MiB"),
        ("_ArrayMemoryError", "Unable to allocate", "Memory: a notebook may take 2,048 MiB"),
        ("OSError", "[Errno 12] Cannot allocate memory", "Memory: a notebook may take 2,048 MiB"),
        (
            "BlockingIOError",
            "[Errno 11] Resource temporarily unavailable",
            "Processes: a notebook may have 96",
        ),
        ("RuntimeError", "can't start new thread", "Processes: a notebook may have 96"),
        ("OSError", "[Errno 27] File too large", "Files: one file may be 64 MiB long"),
        ("OSError", "[Errno 28] No space left on device", "Files: all together may take 256 MiB"),
        ("OSError", "[Errno 24] Too many open files: 'x'", "Files: one process may have 256 files open"),
        ("OSError", "[Errno 101] Network is unreachable", "Network: there is none"),
        ("gaierror", "[Errno -3] Temporary failure in name resolution", "Network: there is none"),
        ("ValueError", "no", ""),
        ("FileNotFoundError", "[Errno 2] No such file", ""),
    ],
)
def test_a_limit_is_told_in_plain_words_and_any_other_error_is_left_alone(error, text, told):
    said = Limits().told(error, text)
    assert said.startswith(told)
    assert bool(said) == bool(told)


@FORKS
def test_landlock_alone_keeps_what_is_not_allowed_out_of_reach(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "secret").write_text("secret")

    def refused(path: Path, mode: str) -> bool:
        try:
            path.open(mode).close()
        except PermissionError:
            return True
        return False

    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            sandbox_system.no_new_privileges()
            version = sandbox_system.landlock(["/usr"], [str(tmp_path / "mine")])
            tried = [
                (tmp_path / "mine" / "new", "w"),
                (Path("/usr/bin/env"), "rb"),
                (tmp_path / "secret", "r"),
            ]
            tried += [(tmp_path / "new", "w"), (Path("/usr/hostile-mark"), "w")]
            known = [False, False, *[version > 0] * 3]  # 0: this kernel has none, and says so
            code = (
                0
                if [refused(*one) for one in tried] == known and version == sandbox_system.landlock_abi()
                else 1
            )
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_kernel_runs_on_the_cores_of_whoever_grades(tmp_path):
    cores = os.sched_getaffinity(0)
    one = min(cores)
    try:
        os.sched_setaffinity(0, {one})
        (outputs,) = run("import os; print(os.sched_getaffinity(0))", folder=tmp_path)
    finally:
        os.sched_setaffinity(0, cores)
    assert outputs[0].text == f"{{{one}}}\n"


def test_a_process_belongs_to_whoever_it_came_of_and_to_no_one_else():
    grandchild = "import os, time\nif os.fork():\n    os.wait()\nelse:\n    print(os.getpid(), flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", grandchild], stdout=subprocess.PIPE, text=True) as child:
        pid = int(child.stdout.readline())
        assert sorted(sandbox_tree.processes(child.pid)) == sorted([child.pid, pid])
        assert sandbox_tree.belongs(pid, child.pid)
        assert sandbox_tree.belongs(pid, os.getpid())
        assert not sandbox_tree.belongs(os.getpid(), child.pid)
        os.kill(pid, signal.SIGKILL)
    assert not sandbox_tree.belongs(pid, child.pid)


def test_what_does_not_fit_or_is_no_plain_file_is_left_out_of_the_learners_folder(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    target.mkdir()
    (source / "small.txt").write_text("small")
    (source / "deep" / "large.bin").write_bytes(bytes(1000))
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(source / "socket"))
        left_out = sandbox_walls.copy_in(str(source), str(target), 100)
    assert sorted(left_out) == ["deep/large.bin", "pipe", "socket"]
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "deep",
        "link",
        "small.txt",
    ]
    assert (target / "link").is_symlink()


def test_sockets_count_as_memory(tmp_path):
    many = """
    import os, socket, time
    for _ in range(12):
        if os.fork() == 0:
            kept = [socket.socketpair() for _ in range(80)]
            time.sleep(20)
    time.sleep(4)
    print("held")
    """
    limits, few = {"memory_bytes": 400 * 2**20}, many.replace("80", "8").replace("sleep(4)", "sleep(0.5)")
    (held,) = run(textwrap.dedent(few), folder=tmp_path, ways=[NAMESPACES], limits=limits)
    assert "held" in str(held)
    (ended,) = run(textwrap.dedent(many), folder=tmp_path, ways=[NAMESPACES], limits=limits)
    assert "more than 400 MiB" in str(ended)
    assert sandbox_tree._in_sockets(os.getpid()) == 0
