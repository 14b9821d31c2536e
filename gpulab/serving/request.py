"""A request as it reaches a service, and a trace of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from gpulab.errors import TraceFault, shown
from gpulab.units import whole


@dataclass(frozen=True, slots=True)
class Request:
    """When it came, what it brought, and what it was promised.

    Attributes:
        id: its number, unique in a trace. output_tokens: how many it will make; no policy is told.
        most_tokens: the most it may make, as its client said; 0: it did not say, so up to the model's window.
        tenant, slo: who sent it, and the class of its promise.
        prefix: ids of the full blocks of its prompt that others may share, in order.
        patience_ns: its client gives up this long after arrival if no token came; 0: never.
        aborted_ns: its client hangs up this long after arrival; 0: never.
        predicted_tokens: somebody's guess of ``output_tokens``; 0: none.
        first_token_ns: promised time to the first token; 0: no promise.
    """

    id: int
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    most_tokens: int = 0
    tenant: str = ""
    slo: str = ""
    prefix: tuple[int, ...] = ()
    patience_ns: int = 0
    aborted_ns: int = 0
    predicted_tokens: int = 0
    first_token_ns: int = 0

    @property
    def owner(self) -> str:
        """The name under which it claims."""
        return f"{self.tenant or 'request'} {self.id}"


_WHOLE = (
    *("id", "arrival_ns", "prompt_tokens", "output_tokens", "most_tokens"),
    *("patience_ns", "aborted_ns", "predicted_tokens", "first_token_ns"),
)


@final
class Trace:
    """Requests in order of arrival, each checked.

    Raises:
        TraceFault: a length that is missing, negative or no whole number, an arrival before the one in
            front of it, a number that two requests have. ``good`` holds the requests that are whole.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        self.requests: tuple[Request, ...] = tuple(requests)
        rows, seen, last = [], set(), 0
        for line, request in enumerate(self.requests):
            wrong = _wrong(request) or _misplaced(request, seen, last)
            if wrong:
                rows.append((line, *wrong))
                continue
            seen.add(request.id)
            last = request.arrival_ns
        if rows:
            line, column, value = rows[0]
            bad = {row[0] for row in rows}
            raise TraceFault(
                f"{len(rows):,} of {len(self.requests):,} requests are broken; first the one at place {line}: "
                f"{column} is {shown(value)}. Lengths are whole numbers (a prompt has 1 token or more, an "
                f"output 1 or more), arrivals never run back, each id occurs once, tenants are texts, "
                f"and a prefix is a tuple of different ids, one a full block of the prompt.",
                rows=rows,
                good=[request for n, request in enumerate(self.requests) if n not in bad],
            )

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    def __getitem__(self, index: int) -> Request:
        return self.requests[index]


def _wrong(request: Request) -> tuple[str, object] | None:
    """The first field of ``request`` that is not what it must be, and its value."""
    for name in _WHOLE:
        value = getattr(request, name)
        if whole(value) is None or value < (1 if name in ("prompt_tokens", "output_tokens") else 0):
            return name, value
    if request.most_tokens and request.most_tokens < request.output_tokens:
        return "most_tokens", request.most_tokens
    for name in ("tenant", "slo"):
        if type(getattr(request, name)) is not str:
            return name, getattr(request, name)
    ids = request.prefix
    if type(ids) is not tuple or len(ids) > request.prompt_tokens or len(set(ids)) < len(ids):
        return "prefix", ids
    return None


def _misplaced(request: Request, seen: set[int], last: int) -> tuple[str, object] | None:
    if request.id in seen:
        return "id", request.id
    return ("arrival_ns", request.arrival_ns) if request.arrival_ns < last else None
