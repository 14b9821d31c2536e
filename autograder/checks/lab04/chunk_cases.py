"""The runs of 04.chunk: chats that decode already, and bursts of prompts, on a board and with promises drawn."""

from dataclasses import dataclass, replace
from random import Random

from gpulab.serving.cost import StepCost, opt_13b, stated
from gpulab.serving.request import Request
from gpulab.units import MS

PARTS = ("constant_ps", "weights_ps", "token_ps", "cached_token_ps", "square_token_ps")  # of a step's price
CHAT, CODE = "chat", "code"
BLOCK = 16
LOOSE = 1 << 20  # blocks that never run out
HEAVY = 16  # percent of a lone prompt's chunk that there is room for beside all chats
FILL = (
    66,
    80,
)  # percent of what the steps have room for in the promised time: what the first burst brings, and others
BOARDS = (  # percent of OPT-13B's price a token, and the gap in ms that is promised there; one case after the other
    (65, (70, 101)),
    (30, (90, 121)),
    (95, (60, 81)),
    (45, (90, 121)),
    (140, (60, 81)),
)
LASTING, LONG = 2, 12  # chats that stay to the end, for so many times the promised time
SHORT_STEP = 80  # a step is expected to take so many percent of the promised gap


@dataclass(frozen=True, slots=True)
class Load:
    """Who comes when, the price of a step, and what is promised: a gap between tokens, a time to the first one.

    The requests of tenant *chat* come at 0: the judge computes their prompts in one step, before anybody is asked.
    """

    parts: dict[str, int]
    gap_ns: int
    first_token_ns: int
    kv_blocks: int
    requests: tuple[Request, ...]

    @property
    def cost(self) -> StepCost:
        return stated({**self.parts, "kv_blocks": self.kv_blocks, "block_tokens": BLOCK})

    @property
    def settings(self) -> dict:
        """What the learner's object is made with."""
        return {"cost": self.parts, "gap_ns": self.gap_ns, "first_token_ns": self.first_token_ns}

    def text(self) -> str:
        """The task in words."""
        price = ", ".join(f"{name} {value:,}" for name, value in self.parts.items())
        lines = [
            f"promised: {self.gap_ns / MS:g} ms between tokens, the first one after {self.first_token_ns / MS:,g} ms",
            f"a step costs: {price}; {self.kv_blocks:,} blocks of {BLOCK} tokens",
        ]
        lines += [
            f"{r.arrival_ns / MS:>9,.1f} ms  {r.tenant} {r.id}: {r.prompt_tokens:,} tokens, makes {r.output_tokens}"
            for r in self.requests
        ]
        return "\n".join(lines)


def board(draw: Random, number: int) -> dict[str, int]:
    """The price of a step of a 13B model: around OPT-13B's on an A100-80 (F7), on a board of another speed.

    A long context is read more slowly than there: its published price is for contexts of 2,048 tokens at most.
    """
    compute = BOARDS[number % len(BOARDS)][0] * draw.randrange(90, 111) // 100
    memory, context = draw.randrange(60, 131), draw.randrange(130, 261)
    percent = {"token_ps": compute, "square_token_ps": compute, "cached_token_ps": context}
    whole = opt_13b()
    return {name: getattr(whole, name) * percent.get(name, memory) // 100 for name in PARTS}


def room(cost: StepCost, gap_ns: int, decoding: int, cached: int, computed: int = 0) -> int:
    """The longest chunk of one prompt, ``computed`` tokens of which are there, with which a step keeps the gap."""
    low, high = 0, 1 << 14
    while low < high:
        middle = (low + high + 1) // 2
        work = middle * (2 * computed + middle)
        if cost.step_ps(decoding + middle, cached, work) <= gap_ns * 1000:
            low = middle
        else:
            high = middle - 1
    return low


def drawn(draw: Random, number: int, *, chats: int = 5, bursts: int = 3, most: int = 8) -> Load:
    """Chats with contexts so long that little room is left beside them, and bursts: among them, and when most left.

    A burst brings less than what steps that just keep the gap have room for in the time promised.
    """
    parts = board(draw, number)
    gap_ns = draw.randrange(*BOARDS[number % len(BOARDS)][1]) * MS
    first_token_ns = draw.randrange(12, 21) * 100 * MS
    cost, chats = stated(parts), draw.randrange(chats - 1, chats + 3)
    beside = room(cost, gap_ns, 4, 0) * HEAVY // 100
    context = _context(cost, gap_ns, chats, beside) // chats
    steps = 100 * first_token_ns // (SHORT_STEP * gap_ns)  # in the time promised
    lengths = [context * draw.randrange(80, 121) // 100 for _ in range(chats)]
    stays = [steps * (100 + 50 * name // chats) // 100 for name in range(chats - LASTING)]
    stays += [steps * LONG] * LASTING
    requests = [_request(n, 0, lengths[n], stays[n], CHAT) for n in range(chats)]
    at = cost.step_ps(sum(lengths), 0, sum(length * length for length in lengths)) // 1000
    for burst in range(bursts):
        count = draw.randrange(6, most + 1) if burst else draw.randrange(4, 6)
        chunk = beside if burst == 0 else room(cost, gap_ns, 10, 3_000 + LASTING * context, 500)
        size = chunk * first_token_ns // gap_ns * FILL[burst > 0] // 100 // count
        at += 50 * MS
        for _ in range(count):
            prompt = max(40, size * draw.randrange(80, 121) // 100)
            output = steps * draw.randrange(60, 130) // 100
            requests.append(_request(100 + len(requests) - chats, at, prompt, output, CODE))
            at += first_token_ns // (2 * count)
        at += first_token_ns * draw.randrange(60, 101) // 100
    return Load(parts, gap_ns, first_token_ns, LOOSE, tuple(requests))


def _request(number: int, at_ns: int, prompt: int, output: int, tenant: str) -> Request:
    """A request whose client says how long its answer may get: that much is reserved, not the model's window."""
    return Request(number, at_ns, prompt, output, most_tokens=output, tenant=tenant)


def small(draw: Random, number: int = 2) -> Load:
    """A load of fewer than 20 requests, for practice and feedback."""
    return drawn(draw, number, chats=4, bursts=2, most=6)


def tiny(draw: Random) -> Load:
    """Two chats and two prompts."""
    whole = small(draw)
    chats = [request for request in whole.requests if request.tenant == CHAT]
    codes = [request for request in whole.requests if request.tenant == CODE]
    return replace(whole, requests=(*chats[:2], *codes[:2]))


def _context(cost: StepCost, gap_ns: int, chats: int, beside: int) -> int:
    """Cached tokens of ``chats`` decodes beside which a step that keeps the gap has room for ``beside``."""
    free_ps = gap_ns * 1000 - cost.step_ps(chats + beside, 0, beside * beside)
    return max(0, free_ps // cost.cached_token_ps)
