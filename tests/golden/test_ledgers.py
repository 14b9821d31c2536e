"""Ledgers that must not change by a byte: one that a person can read, and the digest of a real hour.

The hour is replayed in processes of their own, with other hash seeds and on every Python that is here, with
nothing but the standard library: equal inputs give byte-equal ledgers everywhere.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpulab.memory.arena import FirstFit
from gpulab.memory.replay import ByteClaim, replay
from gpulab.report.account import Account, Terms
from gpulab.telemetry.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
SMALL = Path(__file__).with_name("first_fit.ledger")
TRACE = (
    ByteClaim(0, 700, 40, "chat"),
    ByteClaim(5, 1024, 10, "code"),
    ByteClaim(8, 1500, 50, "chat"),
    ByteClaim(9, 1300, 20, "batch"),
    ByteClaim(16, 512, 6, "code"),
    ByteClaim(17, 9000, 5, "batch"),
    ByteClaim(41, 300, 0, "chat"),
    ByteClaim(60, 4096, 2, "batch"),
)

# The Azure conversation hour, 128 KiB a token (Llama 3 8B), 400 steps a second, first fit in 12 GiB.
HOUR = "126398e91fa0141c174a56342015390836f2ef8fac16e110ee300e7d499617ac"
HOUR_TERMS = (
    *(45157976617676439552000, 19550578472714240000000, 0),
    *(209939011554377728000, 494994190666694656000, 24902464942741127168000),
)
REPLAY = """
import sys
for name in ("numpy", "sortedcontainers", "pooch", "rich", "typer", "pynvml", "altair"):
    sys.modules[name] = None  # importing one of them fails from here on
from dataclasses import astuple
from gpulab.datasets import load
from gpulab.memory.arena import FirstFit
from gpulab.memory.replay import claims_from, replay
from gpulab.report.account import Account
claims = claims_from(load("azure-conv-2023"), bytes_per_token=131_072, step_ns=2_500_000)
ledger = replay(claims, FirstFit(12 * 2**30))
print(ledger.digest(), *astuple(Account(ledger)()))
"""


def golden_lines() -> list[str]:
    """The facts of the small ledger, without the prose beside them."""
    return [line.split("  #")[0].rstrip() for line in SMALL.read_text(encoding="utf-8").splitlines()]


def test_the_small_ledger_is_short_and_says_a_word_where_one_is_needed():
    lines = SMALL.read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 40
    assert all("  #" in line for line in lines)


def test_a_replay_writes_the_small_ledger_to_the_byte():
    assert list(replay(TRACE, FirstFit(4096)).lines()) == golden_lines()


def test_the_small_ledger_is_read_back_and_its_account_is_what_its_prose_says(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text("\n".join(golden_lines()) + "\n", encoding="utf-8")
    ledger = Ledger.from_jsonl(path)
    account = Account(ledger)

    assert ledger == replay(TRACE, FirstFit(4096))
    assert account.at(0) == Terms(4096, 700, 324, 0, 0, 3072)
    assert account.at(9) == Terms(4096, 3224, 360, 0, 0, 512)
    assert account.at(15) == Terms(4096, 2200, 360, 1536, 0, 0)
    assert account.at(16) == Terms(4096, 2200, 360, 0, 512, 1024)
    assert account.at(60) == Terms(4096, 4096, 0, 0, 0, 0)
    assert account() == Terms(62 * 4096, 150_504, 19_480, 1_536, 12_288, 70_144)


def version_of(python: str) -> tuple[int, ...]:
    """What ``python`` is, ``()`` if it does not start (a shim for a version that is not chosen)."""
    code = "import sys; print(*sys.version_info[:3])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, env=bare("0"))
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else ()


def bare(hash_seed: str) -> dict[str, str]:
    """An environment in which a Python finds gpulab in this checkout, and nothing of the environment of the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "GPULAB", "PYENV_V"))
    }
    return {**kept, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def pythons() -> dict[tuple[int, ...], str]:
    """Every Python from 3.11 on that starts here, by its version; this one among them."""
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 16)]
    pyenv = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    found = {version_of(python): python for python in [*filter(None, names), *map(str, pyenv)]}
    found[tuple(sys.version_info[:3])] = sys.executable
    return {version: python for version, python in found.items() if version >= (3, 11)}


def hour_by(python: str, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", REPLAY], capture_output=True, text=True, check=False, env=bare(hash_seed)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


EXPECTED = [HOUR, *map(str, HOUR_TERMS)]


@pytest.mark.parametrize("hash_seed", ["1", "31337"])
def test_the_hour_is_the_same_in_every_process(hash_seed):
    assert hour_by(sys.executable, hash_seed) == EXPECTED


def test_the_hour_is_the_same_on_every_python_there_is_here(record_property):
    here = pythons()
    record_property("pythons", [".".join(map(str, version)) for version in here])

    assert {version: hour_by(python, "7") for version, python in here.items()} == dict.fromkeys(
        here, EXPECTED
    )
