"""Print the digest of the recorded hour's ledger. Run by Pythons that have nothing installed."""

import sys

from gpulab.datasets import load
from gpulab.memory.arena import FirstFit
from gpulab.memory.replay import claims_from, replay
from gpulab.units import GiB

claims = claims_from(load("azure-conv-2023"), bytes_per_token=131_072, step_ns=2_500_000)
print(replay(claims, FirstFit(12 * GiB)).digest())
foreign = {name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"gpulab", "__main__"}
assert not foreign, f"a ledger is written without {foreign}"
