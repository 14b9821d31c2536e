"""The Azure conversation hour, 19,366 claims: replay, ledger and account together take under 2 s."""

import json
from functools import partial

from gpulab.datasets import load
from gpulab.memory.arena import BestFit, Bump, FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.memory.replay import claims_from, replay
from gpulab.report.account import Account, Terms
from gpulab.report.audit import audit
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB


def cases() -> dict:
    claims = claims_from(load("azure-conv-2023"), bytes_per_token=131_072, step_ns=2_500_000)
    ledger = replay(claims, FirstFit(12 * GiB))
    rows = [json.loads(line) for line in ledger.lines()]
    return {
        # The yardstick: the same facts through Python's own JSON encoder, one line each.
        "write the same facts as JSON": lambda: [json.dumps(row) for row in rows],
        "replay, ledger and account (bar: 2 s)": lambda: accounted(played(FirstFit, claims)),
        "replay, first fit": partial(played, FirstFit, claims),
        "replay, best fit": partial(played, BestFit, claims),
        "replay, bump": partial(played, Bump, claims),
        "replay, CuPy's pool": partial(played, CuPyPool, claims),
        "account": partial(accounted, ledger),
        "audit": partial(audit, ledger),
        "digest": ledger.digest,
        "read and check the data file": partial(load, "azure-conv-2023"),
    }


def played(kind: type, claims: list) -> Ledger:
    return replay(claims, kind(12 * GiB))


def accounted(ledger: Ledger) -> Terms:
    return Account(ledger)()
