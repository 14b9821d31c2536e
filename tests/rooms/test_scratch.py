"""Temporary folders of ours: gone with their end, or with the next run after ``kill -9``; nobody else's are touched."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autograder.scratch import Scratch, clear_left_over

MAKER = """
import subprocess, sys
from autograder.scratch import Scratch
kept = Scratch()
(kept.path / "held").write_text("x")
kept.path.chmod(0o1700)  # as Jupyter does it to the folder of a kernel's sockets
subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(kept.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def maker(place):
    """A process of its own with a folder of its own, and a child that outlives it."""
    environment = os.environ | {"TMPDIR": str(place), "PYTHONPATH": str(Path(__file__).parents[2])}
    made = subprocess.Popen(
        [sys.executable, "-c", MAKER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield made, Path(made.stdout.readline().strip())
    os.killpg(made.pid, 9)
    made.communicate()


def test_a_folder_is_there_for_the_block_and_for_nobody_else_and_gone_afterwards(place):
    with Scratch() as folder:
        (folder / "below").mkdir()
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        assert clear_left_over() == []
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_not_a_moment_before(place, maker):
    process, folder = maker
    assert clear_left_over() == []
    assert (folder / "held").read_text() == "x"
    process.kill()
    process.wait()
    assert clear_left_over() == [folder.name]
    assert list(place.iterdir()) == []


def test_what_only_looks_like_ours_stays(place):
    names = ["gpulab-tmp-", "gpulab-tmp-Abcdefgh", "gpulab-tmp-abcdefghi", "gpulab-bench-abcdefgh", "other"]
    for name in [*names, "gpulab-tmp-opentoal"]:
        (place / name).mkdir(mode=0o700)
    (place / "gpulab-tmp-opentoal").chmod(0o755)
    (place / "gpulab-tmp-aplainfi").write_text("x")
    (place / "gpulab-tmp-linktoot").symlink_to(place / "other")
    before = sorted(place.iterdir())
    assert clear_left_over() == []
    assert sorted(place.iterdir()) == before


def test_another_users_folder_stays(place, monkeypatch):
    (place / "gpulab-tmp-abcdefgh").mkdir(mode=0o700)
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert clear_left_over() == []
    assert clear_left_over() == ["gpulab-tmp-abcdefgh"]


def test_a_folder_taken_for_left_over_before_it_was_locked_is_made_again(place, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def make_and_lose(**named):
        made.append(make(**named))
        if len(made) == 1:
            assert clear_left_over() == [Path(made[0]).name]
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with Scratch() as folder:
        assert (str(folder), len(made), folder.is_dir()) == (made[1], 2, True)


def test_where_there_are_no_locks_nothing_is_removed(place, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError("no locks here")

    (place / "gpulab-tmp-abcdefgh").mkdir(mode=0o700)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with Scratch():
        assert clear_left_over() == []
    assert [path.name for path in place.iterdir()] == ["gpulab-tmp-abcdefgh"]
