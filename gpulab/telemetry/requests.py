"""The facts of requests that are served: read them from ``events``, with all the others.

A *request* has a number and an ``owner``, the name under which it alone claims. It waits from ``Arrived`` or
``Preempted`` until a claim of its owner is granted, is served from then on, and ends once: ``Finished`` or
``Dropped``. A request that is served is a *job*. Claims that its owner makes while it is served change nothing of that.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Arrived:
    """A request of ``tenant`` came to the door. ``owner`` is the name under which it, and nobody else, claims.

    It brings ``prompt_tokens`` and makes at most ``output_tokens``.
    """

    time_ns: int
    request: int
    owner: str
    tenant: str
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Reused:
    """The KV of ``tokens`` of the job's tokens was found (a prefix that another one left) and is not computed.

    Its last token is never among them: computing that one makes the next (vLLM, v1).
    """

    time_ns: int
    request: int
    tokens: int


@dataclass(slots=True)
class Stepped:
    """A *stretch* is over: ``steps`` steps in a row, from ``start_ns`` on, in which the same jobs made a token each.

    ``resource`` is where these jobs claim. ``jobs`` of them, all that were ready, made one token a step; 0 means
    that the step computed prompts only. ``kv_tokens`` is what they held when it began. The first ``host_ns`` of
    each step the device waits for its host. ``time_ns`` is the end of the last step. What the stretch brought
    about (``Prefilled``, ``Finished``, ``Preempted``) is written after it.
    """

    time_ns: int
    resource: str
    start_ns: int
    steps: int
    jobs: int
    kv_tokens: int
    base_ps: int
    slope_ps: int
    host_ns: int

    def end_of(self, step: int) -> int:
        """When step ``step``, counted from 1, is over; ``start_ns`` for 0. The first takes ``base_ps``, each
        later one ``slope_ps`` more: the definition, so a loop over steps and one over stretches agree."""
        return self.start_ns + (step * self.base_ps + self.slope_ps * (step * (step - 1) // 2)) // 1000


@dataclass(slots=True)
class Extrapolated:
    """Of the stretch of ``resource`` that is just over, the last ``steps`` steps were larger than what was measured.

    Their times are the formula's, beyond the range in which it was held to measurements. ``tokens`` are computed in
    each of them, ``kv_tokens`` are read in the last one.
    """

    time_ns: int
    resource: str
    steps: int
    tokens: int
    kv_tokens: int


@dataclass(slots=True)
class Prefilled:
    """``tokens`` more of the job's tokens were computed in the step that ends now.

    With the last of them comes the job's next token: its first one, or, after it was preempted, the one after those it had.
    """

    time_ns: int
    request: int
    tokens: int


@dataclass(slots=True)
class Preempted:
    """The job waits again. The KV of ``kept_tokens`` of its tokens is kept elsewhere; 0: all are computed again."""

    time_ns: int
    request: int
    kept_tokens: int


@dataclass(slots=True)
class Restored:
    """All of the job's KV that was kept elsewhere, ``tokens``, is back where it is served: it goes on from here.

    Until then it is served, holds its blocks and makes nothing.
    """

    time_ns: int
    request: int
    tokens: int


@dataclass(slots=True)
class Finished:
    """The job made its last token, the ``output_tokens``-th.

    ``alone_ns`` is what its work takes by itself: its own chunks and steps at batch 1, with the tokens that it
    really reused, the host's time left out.
    """

    time_ns: int
    request: int
    output_tokens: int
    alone_ns: int


@dataclass(slots=True)
class Dropped:
    """The request ended without its answer; ``reason`` is ``rejected``, ``timed out`` or ``aborted``."""

    time_ns: int
    request: int
    reason: str


@dataclass(slots=True)
class Answered:
    """The answer of a finished request reached its client. Without it: when it finished."""

    time_ns: int
    request: int
