"""Equal inputs give equal bytes: in every process, on every Python, in every later version of this code.

A change of ``small.txt``, ``HOUR`` or ``SERVED`` changes what every stored ledger means. Make it only on purpose, and
say so in CHANGES.md.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from gpulab.memory.arena import FirstFit
from gpulab.memory.replay import ByteClaim, replay
from gpulab.report.account import Account, Terms
from gpulab.telemetry.ledger import Ledger

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SMALL = HERE / "small.txt"

# The Azure conversation hour through first fit in 12 GiB, 128 KiB a token, 2.5 ms a step.
HOUR = (
    "126398e91fa0141c174a56342015390836f2ef8fac16e110ee300e7d499617ac",
    # capacity, used, stranded, fragmented, unscheduled, spare; in byte * ns
    *("45157976617676439552000", "19550578472714240000000", "0"),
    *("209939011554377728000", "494994190666694656000", "24902464942741127168000"),
)

# 150 recorded requests under the nine references, in the order of ``REFERENCES``: the first 16 digits of each ledger.
SERVED = (
    *("8f33c1bacbcdea05", "26b915d21e19e3c3", "7400d286cd506527"),
    *("99c3d6365a91e48a", "0cd2dd8c30bc9294", "e0e720f06263c0c6"),
    *("a37c32b729f1e256", "065d27a388d2d2e9", "4be7d1c4e2d62243"),
)

TRACE = (
    ByteClaim(0, 1500, 40, "a"),
    ByteClaim(0, 2048, 20, "b"),
    ByteClaim(5, 3000, 10, "c"),
    ByteClaim(5, 9000, 10, "d"),
    ByteClaim(6, 500, 10, "e"),
    ByteClaim(30, 1024, 0, "f"),
)


def small_lines() -> list[str]:
    """The golden ledger without the remarks beside its facts."""
    return [line.partition("  # ")[0].rstrip() for line in SMALL.read_text(encoding="utf-8").splitlines()]


@cache
def pythons() -> dict[str, str]:
    """Each other Python >= 3.11 on this machine by its version; a shim that starts none is left out."""
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 15)]
    names += map(str, sorted(Path.home().glob(".pyenv/versions/*/bin/python")))
    found = {}
    for name in filter(None, names):
        code = "import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys.version.split()[0])"
        done = subprocess.run([name, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            found.setdefault(done.stdout.strip(), name)
    return found


def the_hour(python: str, hash_seed: str) -> tuple[str, ...]:
    return printed("hour.py", python, hash_seed)


def printed(script: str, python: str, hash_seed: str) -> tuple[str, ...]:
    """What ``script`` prints in a new process that sees no installed package."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    env.pop("GPULAB_DATA", None)
    command = [python, "-S", "-B", str(HERE / script)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(done.stdout.split())


def test_a_small_run_is_written_as_it_was_when_somebody_read_it_line_by_line():
    assert list(replay(TRACE, FirstFit(4096)).lines()) == small_lines()


def test_the_small_ledger_is_read_back_as_what_was_written(tmp_path):
    path = tmp_path / "small.jsonl"
    path.write_text("\n".join(small_lines()) + "\n", encoding="utf-8")

    assert Ledger.from_jsonl(path) == replay(TRACE, FirstFit(4096))


def test_the_account_of_the_small_ledger_is_what_its_remarks_say():
    account = Account(replay(TRACE, FirstFit(4096)))

    assert account.at(0) == Terms(4096, 3548, 36, 0, 0, 512)
    assert account.at(5) == Terms(4096, 3548, 36, 0, 0, 512)
    assert account.at(6) == Terms(4096, 3548, 36, 0, 512, 0)  # e would fit, but nobody overtakes
    assert account.at(20) == Terms(4096, 1500, 36, 0, 512, 2048)
    assert account.at(40) == Terms(4096, 3500, 84, 0, 0, 512)
    assert account() == Terms(50 * 4096, 135_960, 2_280, 0, 27_648, 38_912)


def test_every_line_of_the_small_ledger_has_its_remark():
    lines = SMALL.read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 40
    assert all("  # " in line for line in lines)


def test_the_hour_is_the_same_in_two_processes_that_hash_text_differently():
    assert [the_hour(sys.executable, seed) for seed in ("1", "2")] == [HOUR, HOUR]


def test_the_hour_is_the_same_on_this_python_and_on_every_other_one_here():
    digests = {version: the_hour(python, "0") for version, python in pythons().items()}

    assert digests == dict.fromkeys(digests, HOUR)
    assert the_hour(sys.executable, "0") == HOUR


def test_served_runs_are_the_same_in_two_processes_that_hash_text_differently():
    assert [printed("served.py", sys.executable, seed) for seed in ("1", "2")] == [SERVED, SERVED]


def test_served_runs_are_the_same_on_this_python_and_on_every_other_one_here():
    digests = {version: printed("served.py", python, "0") for version, python in pythons().items()}

    assert digests == dict.fromkeys(digests, SERVED)
