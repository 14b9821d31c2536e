"""What an instructor hands out: a wheel, released notebooks, data, a page that says how to begin. No solutions.

The wheel leaves out ``autograder.references`` and holds records of what they did on public inputs in their place; sources of labs, their instructor's pages, tests and the course's
secret stay behind. The repository itself holds the answers, and says so; this is the other door.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from autograder import recorded, release
from autograder.course import Course
from autograder.grading import read_files, write_files
from autograder.places import Places

_ROOT = Path(__file__).resolve().parents[1]
_DATE = "315532800"  # 1980, the first that a zip can hold: equal sources give an equal wheel
_LEFT_OUT = ("__pycache__", "references", ".ipynb_checkpoints", "README.md")

_BEGIN = """\
# {title}

Labs on GPU allocation and scheduling for AI serving. A laptop will do; no GPU is needed.

1. Unpack this folder somewhere of your own and open a terminal in it. Python 3.11 or newer must be there.
2. Make a place for the packages and fill it (once; a few hundred megabytes come from the network):

       python3 -m venv .venv
       .venv/bin/pip install -r requirements.txt
       .venv/bin/pip install --no-deps {wheel}

   On Windows write `.venv\\Scripts\\pip` in place of `.venv/bin/pip`.
3. Start:

       .venv/bin/jupyter lab

4. Open {first} and write your name into the first code cell; your own tasks are drawn for it. `course.json` beside
   each notebook says which course this is: keep it there.
5. Hand in the notebook, as your instructor says.

The labs: {labs}.

**Beside the reference.** `check` says what your code is worth. Where it goes another way than the reference, a cell below it
tells, run by run, on the same public inputs:

    from autograder.recorded import compare
    compare("02.first-fit", MyAllocator)      # the exercise, and what you hand to check

The wheel holds what the reference answered there and what it earned, not the reference. Another answer is not always a worse one.
"""


def build(folder: Path, say: Callable[[str], None]) -> Path:
    """The kit in ``folder``, which is made anew, and a zip of it beside it; the path of the zip.

    Raises:
        RuntimeError: the wheel could not be built; the text says why. NbgraderFailed: a release could not.
    """
    places = Places.found()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say("building the wheel ...")
    wheel = _wheel(folder)
    for lab in places.lab_names():
        write_files(folder / lab, read_files(release.build(lab, progress=say)))
    data = {
        name: content for name, content in read_files(_ROOT / "datasets").items() if not name.endswith(".py")
    }
    write_files(
        folder / "datasets", {name: content for name, content in data.items() if "__pycache__" not in name}
    )
    shutil.copyfile(_ROOT / ".ci" / "lock.txt", folder / "requirements.txt")
    labs = places.lab_names()
    text = _BEGIN.format(
        title="gpulab", wheel=wheel, first=f"`{labs[0]}/{labs[0]}.ipynb`", labs=", ".join(labs)
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
    packed = _packed(folder)
    say(f"{packed}: {packed.stat().st_size / 1e6:.1f} MB, {len(labs)} labs")
    return packed


def _wheel(folder: Path) -> str:
    """Build the wheel of this package into ``folder``, without what learners must not have; its name."""
    tree = folder / ".build"
    for package in ("gpulab", "autograder"):
        shutil.copytree(_ROOT / package, tree / package, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(_ROOT / name, tree / name)
    recorded.write(tree / "autograder" / "records", Course.load(Places.found().course))
    # setuptools itself, as pip would call it, but without a network: it is in this environment.
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(folder.resolve())!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        env=_plain_environment(),
    )
    shutil.rmtree(tree)
    made = sorted(path.name for path in folder.glob("*.whl"))
    if done.returncode or not made:
        raise RuntimeError(
            f"the wheel could not be built: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    return made[0]


def _plain_environment() -> dict[str, str]:
    """The environment without the caller's own Python path (the copy is what is packed), and with a date of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"SOURCE_DATE_EPOCH": _DATE}


def _packed(folder: Path) -> Path:
    """A zip of ``folder``; equal folders give equal bytes."""
    packed = folder.with_suffix(".zip")
    with contextlib.suppress(FileNotFoundError):
        packed.unlink()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in read_files(folder).items():
            out.writestr(zipfile.ZipInfo(f"{folder.name}/{name}"), content, zipfile.ZIP_DEFLATED)
    return packed
