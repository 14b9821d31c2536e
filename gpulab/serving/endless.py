"""What would go on for ever, told with the request it concerns and how long it has been here."""

from gpulab.errors import PolicyFault
from gpulab.serving.answers import fault
from gpulab.serving.jobs import Job

# Far beyond what a policy that gets anywhere does: a minute of waking each 50 ms is 1,200 times.
MOST_WAKES = 10_000
MOST_EVICTIONS = 1_000


def stuck(job: Job, now_ns: int, state_of_all: str, woken: int = 0) -> PolicyFault:
    """The error when nothing will ever happen again, or only the policy's own waking, though ``job`` is here."""
    waited = now_ns - job.request.arrival_ns
    why = (
        f"the policy woke {woken:,} times in a row and nothing came of it"
        if woken
        else "nothing else will happen"
    )
    return fault(
        f"request {job.id} is {job.state}, {waited:,} ns after it arrived, {why}, and the policy serves nobody "
        f"({state_of_all})",
        "starvation",
        now_ns,
        {"request": job.id, "waited_ns": waited},
    )


def count_eviction(job: Job, now_ns: int) -> None:
    """``job`` is put out once more. ``PolicyFault`` when that happened too often since its last token."""
    job.fruitless = job.fruitless + 1 if job.generated == job.made else 1
    job.made = job.generated
    if job.fruitless <= MOST_EVICTIONS:
        return
    waited = now_ns - job.request.arrival_ns
    raise fault(
        f"preempt names request {job.id}, which was put out {MOST_EVICTIONS:,} times and has made no token since, "
        f"{waited:,} ns after it arrived. Let a job that was put out go on for at least a token",
        "starvation",
        now_ns,
        {"request": job.id, "waited_ns": waited},
    )
