"""The jobs of 04.victim: chats with long beginnings that many share, code with long prompts, and nightly summaries."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from gpulab.units import MS, format_ns

BLOCK_TOKENS = 16
ROUND_NS = BLOCK_TOKENS * 20 * MS  # in which each job that runs makes a block of tokens
_BEGINNINGS = {
    "chat": (3, (10, 30)),
    "code": (2, (2, 8)),
    "night": (1, (1, 3)),
}  # how many, and blocks of each
_PROMPTS = {"chat": (60, 250), "code": (150, 500), "night": (600, 1_400)}  # tokens behind the beginning
_OUTPUTS = {"chat": (60, 320), "code": (40, 240), "night": (60, 280)}
_LINK = (40, 100, 250, 700)
_WHO = (*("chat",) * 10, *("code",) * 7, *("night",) * 3)


class Asked(NamedTuple):
    """A request: ``prefix`` names its beginning of ``prefix_blocks`` full blocks, ``prompt_tokens`` come behind it."""

    id: int
    tenant: str
    arrival_ns: int
    prefix: str
    prefix_blocks: int
    prompt_tokens: int
    output_tokens: int
    copied: bool  # does a copy of what was asked lie on the host already?

    @property
    def owner(self) -> str:
        return f"{self.tenant}-{self.id}"


@dataclass(frozen=True, slots=True)
class Load:
    """Requests in order of arrival, a pool that is too small for them, and what losing KV costs."""

    requests: tuple[Asked, ...]
    blocks: int
    grace_tokens: int
    token_ns: int  # to compute a token again
    prompt_ns: int  # to begin a prompt
    swap_ns: int  # to begin a transfer
    block_ns: int  # to move a block
    link_percent: tuple[
        int, ...
    ]  # by round, over and over: what a transfer takes while others use the link, too
    pinched: int = 0  # of the first requests: these are laid as a trap (victim_pinch)

    def text(self) -> str:
        """The task in words."""
        again, begun, transfer, block = map(
            format_ns, (self.token_ns, self.prompt_ns, self.swap_ns, self.block_ns)
        )
        lines = [
            f"{self.blocks} blocks; computing again takes {begun} and {again} a token, a transfer {transfer} and {block} a block",
            f"{self.grace_tokens} tokens between two evictions of a job; in brackets: blocks of a beginning",
        ]
        lines += [
            f"{r.arrival_ns / MS:>8,.0f} ms  {r.owner}: {r.prefix} ({r.prefix_blocks}), then {r.prompt_tokens:,} tokens"
            for r in self.requests
        ]
        return "\n".join(lines)


def drawn(draw: Random, grace_tokens: int, count: int, blocks: int) -> Load:
    """``count`` requests that come faster than a pool of ``blocks`` serves them."""
    names = {
        f"{tenant} {letter}": draw.randrange(*sizes)
        for tenant, (many, sizes) in _BEGINNINGS.items()
        for letter in "abc"[:many]
    }
    requests, now_ns = [], 0
    for number in range(count):
        now_ns += ROUND_NS * draw.randrange(400) // 1_000
        tenant = draw.choice(_WHO)
        prefix = draw.choice([name for name in names if name.startswith(tenant)])
        whole = (
            tenant == "chat" and draw.randrange(4) == 0
        )  # asked just so before: the beginning is all of it
        prompt = 0 if whole else draw.randrange(*_PROMPTS[tenant])
        output = draw.randrange(*_OUTPUTS[tenant])
        copied = draw.randrange(4) == 0
        requests.append(Asked(number, tenant, now_ns, prefix, names[prefix], prompt, output, copied))
    costs = 1_000 * draw.randrange(50, 80), MS * draw.randrange(12, 19), MS * draw.randrange(8, 13)
    costs = *costs, 1_000 * draw.randrange(70, 131)
    link = tuple(draw.choice(_LINK) for _ in range(32))
    return Load(tuple(requests), blocks, grace_tokens, *costs, link)
