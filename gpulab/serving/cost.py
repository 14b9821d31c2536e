"""How long a step of a serving engine takes: five coefficients, whole picoseconds.

    t = a + hypot(w, g * T) + e * KV + c * W

T tokens are computed in the step (new prompt tokens and one a decoding job), KV cached tokens are read by
the decodes, and W is the prompts' attention work, the sum of chunk * (cached + chunk / 2). hypot is the bend
between reading the weights (w) and computing (g a token). The form is a smooth roofline; measured kernels
of A100, H100 and RTX boards fit it with a few per cent of error (see ``gpulab/serving/models``).
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from gpulab.errors import SpecFault

_FOLDER = Path(__file__).with_name("models")
_WHOLE = (
    *("constant_ps", "weights_ps", "token_ps", "cached_token_ps", "square_token_ps", "host_ns"),
    *("kv_blocks", "block_tokens", "kv_bytes_per_token", "most_tokens", "most_cached_tokens"),
    "window_tokens",
)
_MAY_LACK = {"window_tokens": 0, "badge": "", "date": ""}
_TEXTS = ("model", "gpu", "source", "badge", "date")


@final
@dataclass(frozen=True, slots=True)
class StepCost:
    """A model on a GPU: what a step costs, and how many KV blocks there are.

    Attributes:
        constant_ps, weights_ps, token_ps, cached_token_ps, square_token_ps: a, w, g, e and c of the form,
            the last two a cached token and a token squared.
        host_ns: time of the host before each step, in which the device waits.
        kv_blocks, block_tokens: the pool of KV blocks. kv_bytes_per_token: what one token keeps.
        most_tokens, most_cached_tokens: the range of T and KV of the measurements; beyond it a step is
            *extrapolated*.
        window_tokens: the model's context, the most tokens that prompt and answer may have; 0: not stated.
        source: where the coefficients come from. badge, date: how good they are, when was measured.
    """

    model: str
    gpu: str
    constant_ps: int
    weights_ps: int
    token_ps: int
    cached_token_ps: int
    square_token_ps: int
    host_ns: int
    kv_blocks: int
    block_tokens: int
    kv_bytes_per_token: int
    most_tokens: int
    most_cached_tokens: int
    source: str
    badge: str = ""
    date: str = ""
    window_tokens: int = 0

    @property
    def longest_tokens(self) -> int:
        """The most tokens of a request, prompt and answer: the window, or what the whole pool holds if that is less."""
        pool = self.kv_blocks * self.block_tokens + 1  # the last token's KV is never kept
        return min(self.window_tokens or pool, pool)

    @property
    def host_ps(self) -> int:
        return self.host_ns * 1000

    def step_ps(self, tokens: int, cached_tokens: int, twice_work: int = 0) -> int:
        """Picoseconds of one step, the host's part left out. ``twice_work`` is 2 W, a whole number."""
        return (
            self.constant_ps
            + math.isqrt(self.weights_ps * self.weights_ps + (self.token_ps * tokens) ** 2)
            + self.cached_token_ps * cached_tokens
            + self.square_token_ps * twice_work // 2
        )

    def decode_ps(self, jobs: int, cached_tokens: int) -> tuple[int, int]:
        """First step and growth a step, in picoseconds, of ``jobs`` that decode and read ``cached_tokens``."""
        return self.step_ps(jobs, cached_tokens), self.cached_token_ps * jobs

    def alone_decode_ps(self, cached_tokens: int, steps: int) -> int:
        """``steps`` decode steps of one job that has ``cached_tokens`` before the first, by itself."""
        first, growth = self.decode_ps(1, cached_tokens)
        return steps * first + growth * (steps * (steps - 1) // 2)

    def steps_beyond(self, tokens: int, cached_tokens: int, jobs: int, steps: int) -> int:
        """How many of ``steps`` in a row, the last ones, are larger than what was measured.

        Each computes ``tokens``; the first reads ``cached_tokens``, each later one ``jobs`` more.
        """
        if tokens > self.most_tokens or cached_tokens > self.most_cached_tokens:
            return steps
        if cached_tokens + (steps - 1) * jobs <= self.most_cached_tokens:
            return 0
        return steps - 1 - (self.most_cached_tokens - cached_tokens) // jobs


def stated(parts: Mapping[str, int]) -> StepCost:
    """A step that costs what ``parts`` say, fields of ``StepCost``, and nothing else; room for all that comes."""
    none = dict.fromkeys(("constant_ps", "weights_ps", "token_ps", "cached_token_ps", "square_token_ps"), 0)
    limits = {"kv_blocks": 10_000, "block_tokens": 16, "most_tokens": 10**6, "most_cached_tokens": 10**9}
    named = {"model": "stated", "gpu": "stated", "source": "the row it is for"}
    return StepCost(**{**named, "host_ns": 0, "kv_bytes_per_token": 0, **limits, **none, **parts})


def opt_13b() -> StepCost:
    """OPT-13B on one A100-80 under vLLM, as DistServe's simulator has it (OSDI 2024), in our form.

    Published in ms: a prefill of n tokens 22.05 + 0.14051 n + 8.08e-6 n², a decode step of B jobs 23.48 + 5.93e-4 KV
    + 0.0607 B, 66,144 tokens of KV. What does not carry over: our form has one price a token, so 32 decodes take
    36.3 ms instead of 34.9.
    """
    prices = {"token_ps": 140_510_000, "cached_token_ps": 593_000, "square_token_ps": 2 * 8_080}
    always = {"constant_ps": 22_050_000_000, "weights_ps": 23_480_000_000 - 22_050_000_000}
    return stated({**always, **prices, "kv_blocks": 66_144 // 16})


def names() -> tuple[str, ...]:
    """The names of the pairs of model and GPU that ship."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name: str | Path) -> StepCost:
    """The pair called ``name``, or the one that a TOML file describes.

    Raises:
        SpecFault: no such name or file, or a field that is missing, of the wrong kind or negative.
    """
    path = Path(name) if str(name).endswith(".toml") else _FOLDER / f"{name}.toml"
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise SpecFault(
            f"There is no {name!s}; there are: {', '.join(names())}, or give a .toml file."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise SpecFault(f"{path} is no TOML file: {wrong}") from None
    fields = {**_MAY_LACK, **found}
    for field in (*_WHOLE, *_TEXTS):
        kind = int if field in _WHOLE else str
        value = fields.get(field)
        if type(value) is not kind or (kind is int and value < 0):
            raise SpecFault(
                f"{path}: {field} is {value!r}; a {'whole number of 0 or more' if kind is int else 'text'} is needed."
            )
    return StepCost(**{field: fields[field] for field in (*_WHOLE, *_TEXTS)})
