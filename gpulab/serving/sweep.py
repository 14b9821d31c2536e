"""Many runs: services times traces, through any executor, each once: a journal remembers those that are done.

The results are those of the points, in their order, however many work at them and whoever is done first.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from gpulab.errors import PolicyFault
from gpulab.serving.demand import digest
from gpulab.serving.request import Trace
from gpulab.serving.service import Ran, Service

Measure = Callable[[Ran], dict]
_VERSION = 2  # of what a point's key stands for


@final
@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep. ``name`` is for its reader."""

    name: str
    service: Service
    trace: Trace


def _silent(done: int, of: int) -> None:
    """Nobody is told."""


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """How runs are done.

    Attributes:
        executor: where; here, one by one, when there is none.
        journal: a JSON Lines file, a line for each run that is done. A sweep that was cut off goes on behind it:
            points whose service, trace and measure are in it are not run again.
        tell: is told how many are done, of how many.
    """

    executor: Executor | None = None
    journal: Path | None = None
    tell: Callable[[int, int], None] = _silent

    def run(self, points: Sequence[Point], measure: Measure) -> list[dict]:
        """A result for each point, in their order: ``name``, ``digest`` of its ledgers, ``fault`` (a text or None), and
        what ``measure`` made of the run: plain numbers under names.

        ``measure``: a function or callable value that can be pickled; its ``repr`` belongs to what is remembered.
        """
        known = _remembered(self.journal)
        digests = {id(trace): digest(trace) for trace in {id(p.trace): p.trace for p in points}.values()}
        keys = [_key(point, digests[id(point.trace)], measure) for point in points]
        left = {key: point for key, point in zip(keys, points, strict=True) if key not in known}
        self.tell(len(points) - len(left), len(points))
        for done, (key, result) in enumerate(_played(left, measure, self.executor), 1):
            known[key] = result
            if self.journal is not None:
                with open(self.journal, "a", encoding="utf-8", newline="\n") as out:
                    out.write(json.dumps({"key": key, "result": result}) + "\n")
            self.tell(len(points) - len(left) + done, len(points))
        return [{"name": point.name, **known[key]} for key, point in zip(keys, points, strict=True)]


def judged(result: dict) -> None:
    """Nothing, when ``result`` says how many of how many requests kept their promise.

    Raises:
        PolicyFault: its policy could not be made, so no request came. ValueError: nothing was promised.
    """
    if result["fault"] and not result.get("requests"):
        raise PolicyFault(result["fault"], law="policy")
    if not result.get("requests") or result.get("kept") is None:
        raise ValueError(
            "Nothing was promised, so nothing can be kept; give the promise (--slo ttft=1s,tpot=50ms)."
        )


def _played(
    left: dict[str, Point], measure: Measure, executor: Executor | None
) -> Iterator[tuple[str, dict]]:
    """Key and result of each point, as they are done."""
    if executor is None:
        for key, point in left.items():
            yield key, _play(point.service, point.trace, measure)
        return
    futures: dict[Future, str] = {
        executor.submit(_play, point.service, point.trace, measure): key for key, point in left.items()
    }
    try:
        for done in as_completed(futures):
            yield futures[done], done.result()
    finally:
        for future in futures:
            future.cancel()


def _play(service: Service, trace: Trace, measure: Measure) -> dict:
    ran = service.run(trace)
    sha = hashlib.sha256("".join(ledger.digest() for ledger in ran.ledgers).encode()).hexdigest()
    fault = None if ran.fault is None else str(ran.fault)
    return {"digest": sha, "fault": fault, "extrapolated": ran.extrapolated, **measure(ran)}


def _key(point: Point, trace: str, measure: Measure) -> str:
    """What a result depends on, as one number: a policy in a file is what the file says now."""
    service = asdict(point.service)
    policy = point.service.policy
    file = Path(policy.rpartition(":")[0]) if isinstance(policy, str) else None
    service["policy"] = [policy if isinstance(policy, str) else repr(policy)]
    if file is not None and file.is_file():
        service["policy"].append(hashlib.sha256(file.read_bytes()).hexdigest())
    said = json.dumps([_VERSION, service, trace, repr(measure)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _remembered(journal: Path | None) -> dict[str, dict]:
    """What a journal has; a line that was cut off is none."""
    found: dict[str, dict] = {}
    if journal is not None and journal.is_file():
        text = journal.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            with open(journal, "a", encoding="utf-8", newline="\n") as out:
                out.write("\n")
        for line in text.splitlines():
            try:
                row = json.loads(line)
                found[row["key"]] = dict(row["result"])
            except (ValueError, KeyError, TypeError):
                continue
    return found
