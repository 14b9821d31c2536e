"""The requests of 04.deadline: chat is short and patient, code long and urgent, night long and in no hurry."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from autograder.checks.lengths import GAPS, quantile
from gpulab.units import MS

TENANTS = ("chat", "code", "night")
_PARTS = {  # percent of the requests
    "mixed": (42, 42, 16),
    "chat": (95, 4, 1),
    "code": (50, 48, 2),
    "night": (60, 12, 28),
}
_TOKENS = {"chat": (200, 800), "code": (2_000, 5_000), "night": (3_000, 8_000)}


class Prompt(NamedTuple):
    """A request before the server of prompts: ``prompt_ns`` until its first token, ``answer_ns`` for the rest elsewhere."""

    id: int
    tenant: str
    arrival_ns: int
    prompt_tokens: int
    prompt_ns: int
    deadline_ns: int  # of its first token
    answer_ns: int

    @property
    def owner(self) -> str:
        return f"{self.tenant}-{self.id}"


@dataclass(frozen=True, slots=True)
class Crowd:
    """Requests in order of arrival, and until how long after it one may be turned away."""

    prompts: tuple[Prompt, ...]
    notice_ns: int

    def text(self) -> str:
        """The task in words."""
        lines = [f"a request may be turned away until {self.notice_ns / MS:g} ms after its arrival"]
        lines += [
            f"{p.arrival_ns / MS:>8,.1f} ms  {p.owner}: {p.prompt_tokens:,} tokens, {p.prompt_ns / MS:,.1f} ms to compute, "
            f"first token promised at {p.deadline_ns / MS:,.1f} ms"
            for p in self.prompts
        ]
        return "\n".join(lines)


def drawn(draw: Random, notice_ns: int, count: int, load_percent: int, kind: str = "mixed") -> Crowd:
    """``count`` requests whose prompts take ``load_percent`` of the time; ``kind``: whose prompts take most of it."""
    fixed_ns, token_ns = MS * draw.randrange(6, 13), 1_000 * draw.randrange(40, 81)
    who = draw.choices(TENANTS, _PARTS[kind], k=count)
    tokens = [draw.randrange(*_TOKENS[tenant]) for tenant in who]
    work = [fixed_ns + token_ns * n for n in tokens]
    mean_ns, now_ns, prompts = sum(work) * 100 // (load_percent * count), 0, []
    for number, (tenant, n, prompt_ns) in enumerate(zip(who, tokens, work, strict=True)):
        now_ns += mean_ns * quantile(draw, GAPS) // 1000 + 1
        deadline_ns = now_ns + _promised(draw, tenant, prompt_ns)
        answer_ns = MS * draw.randrange(300, 4_000)
        prompts.append(Prompt(number, tenant, now_ns, n, prompt_ns, deadline_ns, answer_ns))
    return Crowd(tuple(prompts), notice_ns)


def _promised(draw: Random, tenant: str, prompt_ns: int) -> int:
    """From the arrival to the promised first token."""
    if tenant == "chat":
        return MS * draw.randrange(300, 2_000)
    if tenant == "code":
        return prompt_ns * draw.randrange(110, 250) // 100 + 80 * MS
    return prompt_ns + MS * draw.randrange(600, 3_000)
