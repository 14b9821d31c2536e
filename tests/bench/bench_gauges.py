"""Both gauges and the numbers of a run of 20,000 requests; the account takes under 1 s."""

import json
from functools import partial

from gpulab.report.account import Account
from gpulab.report.audit import audit
from gpulab.report.metrics import summarize
from gpulab.report.waiting import Waiting
from tests.fakes.serving import Lottery


def cases() -> dict:
    found = {}
    for name, spread in (("", 12_000), (", thousands waiting", 1_000)):
        sizes = {"capacity": 40_000, "tokens": 400, "step": 2_000, "most_jobs": 64, "block": 128}
        ledger = Lottery("bench", 20_000, spread=spread, calm=True, **sizes).run()
        rows = [json.loads(line) for line in ledger.lines()]
        found |= {
            # The yardstick: the same facts through Python's own JSON encoder, one line each.
            f"write {len(ledger):,} facts as JSON{name}": lambda rows=rows: [json.dumps(row) for row in rows],
            f"account (bar: 1 s){name}": partial(Account, ledger),
            f"waiting{name}": partial(Waiting, ledger),
            f"account by tenant{name}": lambda ledger=ledger: Account(ledger).by_tenant(),
            f"ten causes{name}": lambda ledger=ledger: Account(ledger).causes(),
            f"summary{name}": partial(summarize, ledger),
            f"audit{name}": partial(audit, ledger),
        }
    return found
