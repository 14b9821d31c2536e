"""Print the digest of the recorded hour's ledger and its account. Run by Pythons that have nothing installed."""

import sys
from dataclasses import astuple

from gpulab.datasets import load
from gpulab.memory.arena import FirstFit
from gpulab.memory.replay import claims_from, replay
from gpulab.report.account import Account
from gpulab.units import GiB

claims = claims_from(load("azure-conv-2023"), bytes_per_token=131_072, step_ns=2_500_000)
ledger = replay(claims, FirstFit(12 * GiB))
print(ledger.digest(), *astuple(Account(ledger)()))
foreign = {name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"gpulab", "__main__"}
assert not foreign, f"a ledger is written without {foreign}"
