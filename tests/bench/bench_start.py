"""How long a Python takes to start with gpulab in it."""

import subprocess
import sys
from functools import partial


def cases() -> dict:
    return {
        "import nothing": partial(python, "-c", ""),
        "import gpulab": partial(python, "-c", "import gpulab"),
        "gpulab --help": partial(python, "-m", "gpulab", "--help"),
        "import altair": partial(python, "-c", "import altair"),
        "import altair, without the slow grammar": partial(
            python, "-c", "from gpulab.startup import skip_slow_grammar; skip_slow_grammar(); import altair"
        ),
    }


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
