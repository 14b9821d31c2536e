"""Lab 03, page: the KV cache in blocks."""

from autograder.checks.lab03.block_pool import BlockPoolExercise
from autograder.checks.lab03.block_size import BlockSize
from autograder.checks.lab03.block_table import BlockTableExercise
from autograder.checks.lab03.kv_bytes import KvBytes
from autograder.checks.lab03.prefix_trace import PrefixTrace
from autograder.checks.lab03.share import ShareExercise
from autograder.checks.lab03.waste import Waste
from autograder.judge import Exercise


def exercises() -> list[Exercise]:
    """The exercises of this lab in their order."""
    return [
        KvBytes(),
        Waste(),
        BlockPoolExercise(),
        BlockTableExercise(),
        ShareExercise(),
        PrefixTrace(),
        BlockSize(),
    ]
