"""Make ``.venv`` ready for this repository: the environment, the locked packages, gpulab itself.

Run as ``python3 .ci/prepare.py`` (make does). Does nothing when nothing has changed, says something at
least every two seconds while it works, and needs only a Python: uv is used where it is installed.
``--tests`` also installs the CUDA compiler that the tests of the kernels load (``.ci/lock-tests.txt``); learners
and Binder never get it. ``--lock`` instead writes both locks anew from ``pyproject.toml`` (needs uv).

This file also runs on Pythons that are too old for gpulab, in order to say so.
"""

import collections
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time

NEEDED = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCK = os.path.join(ROOT, ".ci", "lock.txt")
TESTS_LOCK = os.path.join(ROOT, ".ci", "lock-tests.txt")
PROJECT = os.path.join(ROOT, "pyproject.toml")
VENV = os.path.join(ROOT, ".venv")
READY = os.path.join(VENV, ".ready")
READY_TESTS = os.path.join(VENV, ".ready-tests")
PYTHON = os.path.join(VENV, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
BEAT_S = 1.9
EXTRAS = ("lab", "grade", "test")
# What only the tests need: the compiler of the kernels, and what fits a cost model (the extra ``fit``).
FOR_TESTS = "nvidia-cuda-nvrtc>=13; sys_platform == 'linux'\nscipy>=1.13\npyarrow>=16\ndistributed>=2024.8\n"


def main():
    """0 when ``.venv`` is ready; else a status, after one sentence that says what to do."""
    if sys.argv[1:] == ["--lock"]:
        return write_lock()
    status = follow_up(state(LOCK, PROJECT), READY, steps)
    if status == 0 and "--tests" in sys.argv[1:]:
        status = follow_up(state(LOCK, PROJECT, TESTS_LOCK), READY_TESTS, tests_steps)
    return status


def follow_up(wanted, stamp, needed):
    """Do what ``needed(uv)`` says unless ``stamp`` holds ``wanted`` already; 0 when all went well."""
    if read(stamp) == wanted and os.path.exists(PYTHON):
        return 0
    uv = find_uv()
    for words, command in needed(uv):
        if command is None:
            say(words)
            return 1
        say(words + " ...")
        status, lines = run(command)
        if status:
            say("\n".join([*list(lines), f"{words} failed with status {status}; the reason is above."]))
            if "venv" in command or "ensurepip" in command:
                say(
                    "This Python cannot make environments. On Debian and Ubuntu: apt-get install python3-venv"
                )
            return status
    with open(stamp, "w") as file:
        file.write(wanted)
    say("Ready.")
    return 0


def state(*files):
    """A digest of ``files``, which the environment is made from; where it lies is part of it."""
    parts = [ROOT.encode()]
    for path in files:
        with open(path, "rb") as file:
            parts.append(file.read())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def steps(uv):
    """The commands that are needed, one at a time: ``(words, command)``; no command: stop with the words."""
    if not usable(PYTHON):
        base = find_python()
        if base is None and not uv:
            yield too_old(), None
            return
        # Only a folder that is an environment is ever replaced.
        if os.path.exists(os.path.join(VENV, "pyvenv.cfg")):
            shutil.rmtree(VENV)
        if uv:
            yield "Making .venv with uv", [uv, "venv", "--quiet", "--python", base or ">=3.11", VENV]
        else:
            yield "Making .venv", [base, "-m", "venv", VENV]
    pip = installer(uv)
    if not uv and subprocess.call([PYTHON, "-c", "import pip"], stderr=subprocess.DEVNULL):
        yield "Adding pip to .venv", [PYTHON, "-m", "ensurepip"]
    count = sum(line[:1].isalnum() for line in (read(LOCK) or "").splitlines())
    yield f"Installing {count} locked packages", [*pip, "--require-hashes", "-r", LOCK]
    # setuptools is one of the locked packages, so building gpulab downloads nothing more.
    yield "Installing gpulab", [*pip, "--no-deps", "--no-build-isolation", "-e", ROOT]


def installer(uv):
    """The words that install something into ``.venv``."""
    if uv:
        return [uv, "pip", "install", "--python", PYTHON]
    # Compiling takes most of the time otherwise; Python compiles what is used when it is used.
    options = ["--disable-pip-version-check", "--progress-bar", "off", "--no-compile"]
    return [PYTHON, "-m", "pip", "install", *options]


def tests_steps(uv):
    """The command that adds what only the tests need."""
    yield (
        "Installing what the tests need: the CUDA compiler, SciPy, PyArrow",
        [*installer(uv), "--require-hashes", "-r", TESTS_LOCK],
    )


def run(command):
    """``(exit status, last lines)`` of ``command``; every two seconds a line says that it is alive."""
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    lines = collections.deque(maxlen=20)
    done = threading.Event()
    threads = [
        threading.Thread(target=follow, args=(process.stdout, lines), daemon=True),
        threading.Thread(target=heartbeat, args=(done, lines), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        return process.wait(), lines
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return 130, ["Stopped; the next call goes on from here."]
    finally:
        done.set()
        for thread in threads:
            thread.join(5)
        process.stdout.close()


def follow(output, lines):
    """Keep the last lines of ``output`` as they come."""
    for line in output:
        if line.strip():
            lines.append(line.decode("utf-8", "replace").rstrip())


def heartbeat(done, lines):
    """A line every two seconds: how long, how many packages are there, the last thing the installer said."""
    packages = os.path.join(
        VENV, *(("Lib",) if os.name == "nt" else ("lib", "*")), "site-packages", "*.dist-info"
    )
    start = time.time()
    while not done.wait(BEAT_S):
        there = len(glob.glob(packages))
        last = list(lines)[-1].strip()[:80] if lines else ""
        say(f"  {time.time() - start:3.0f} s  {there:3} packages  {last}")


def find_uv():
    """A uv that runs, or None. ``UV=`` in the environment (or ``make UV=``) says: not uv."""
    name = os.environ.get("UV", "uv")
    path = shutil.which(name) if name else None
    works = path and not subprocess.call(
        [path, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return path if works else None


def find_python():
    """This interpreter if it is new enough, else the first on PATH that is, else None."""
    names = ["python3." + str(minor) for minor in range(14, NEEDED[1] - 1, -1)]
    return next(
        (path for path in [sys.executable] + [shutil.which(name) for name in names] if usable(path)), None
    )


def usable(path):
    """Whether ``path`` is a Python that runs and is new enough."""
    if not path or not os.path.exists(path):
        return False
    code = f"import sys; sys.exit(sys.version_info < {NEEDED!r})"
    return subprocess.call([path, "-c", code], stderr=subprocess.DEVNULL) == 0


def too_old():
    """The sentence for a machine whose Pythons are all too old."""
    needed, found = (".".join(map(str, numbers[:2])) for numbers in (NEEDED, sys.version_info))
    return (
        f"gpulab needs Python {needed} or newer, but {sys.executable} is {found} and no newer one is on PATH: "
        "install one and say  make lab PYTHON=/path/to/python3.12"
    )


def write_lock():
    """Write the lock for every platform and Python; no address is in it, hashes are."""
    uv = find_uv()
    if not uv:
        say("Writing the lock needs uv: install it, e.g. with  pip install uv")
        return 1
    options = "--universal --python-version 3.11 --upgrade --quiet --generate-hashes"
    options += " --no-header --no-annotate --no-emit-index-url --no-emit-find-links"
    command = [uv, "pip", "compile", *options.split()]
    for extra in EXTRAS:
        command += ["--extra", extra]
    status = subprocess.call([*command, "pyproject.toml", "-o", LOCK], cwd=ROOT)
    tests = [uv, "pip", "compile", *options.split(), "-c", LOCK, "-", "-o", TESTS_LOCK]
    status = status or subprocess.run(tests, input=FOR_TESTS, text=True, cwd=ROOT, check=False).returncode
    say(
        f"{LOCK} and {TESTS_LOCK} written."
        if status == 0
        else f"uv could not write the lock (status {status})."
    )
    return status


def read(path):
    """The text of a file, or None."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return None


def say(words):
    """One line, at once."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
