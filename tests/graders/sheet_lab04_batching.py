"""The sheet of 04.batching: the reference, the stub, each misconception, and adapters around gpulab."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab04.batching import speedup
from autograder.references.lab04_batching import refill
from autograder.verdict import Commitments

EXERCISE = "04.batching"


def staying(running, finished):
    return [job for job in running if job not in finished]


def waits_for_batch(running, waiting, slots, finished):
    return staying(running, finished) or waiting[:slots]


def refills_at_half(running, waiting, slots, finished):
    batch = staying(running, finished)
    return refill(running, waiting, slots, finished) if 2 * len(batch) <= slots else batch


def one_too_many(running, waiting, slots, finished):
    return refill(running, waiting, slots + 1, finished)


def never_delivers(running, waiting, slots, finished):
    return running + waiting[: slots - len(running)]


def starts_afresh(running, waiting, slots, finished):
    """Who waits comes first; who ran has had its turn."""
    return (waiting + staying(running, finished))[:slots]


def newest_first(running, waiting, slots, finished):
    batch = staying(running, finished)
    free = slots - len(batch)
    return batch + (waiting[-free:] if free else [])


def slot_left(running, waiting, slots, finished):
    return refill(running, waiting, slots - 1, finished)


def only_the_finished(running, waiting, slots, finished):
    """A slot for a slot: nobody is let in where nobody ended."""
    batch = staying(running, finished)
    return batch + waiting[: len(finished)] if running else waiting[:slots]


def all_of_them(running, waiting, slots, finished):
    return list(dict.fromkeys(staying(running, finished) + waiting))


def stub(running, waiting, slots, finished):
    raise NotImplementedError("yours to write")


def nothing(running, waiting, slots, finished):
    return []


def the_same(running, waiting, slots, finished):
    return running


def fitting_only(running, waiting, slots, finished):
    """As a shipped policy lets in a batch: first come first, when the last one is over."""
    return waiting[:slots] if not staying(running, finished) else staying(running, finished)


def said(course, learner):
    exercise = exercises()[EXERCISE]
    cause, events = exercise.key(course, learner)
    slots = exercise.puzzle(course, learner).slots
    return Commitments(
        learner,
        {"speedup": 2},
        {"cause": cause, "events": sorted(events)[:1]},
        {"speedup": round(speedup(slots), 2)},
    )


BATCHING = Sheet(
    EXERCISE,
    refill,
    {
        "waits-for-batch": Wrong(waits_for_batch, 0.30, 0.30, "waits-for-batch", "stood empty"),
        "refills-at-half": Wrong(refills_at_half, 0.30, 0.30, "refills-at-half", "call it full"),
        "slot-left": Wrong(slot_left, 0.30, 0.30, "slot-left"),
        "only-the-finished": Wrong(only_the_finished, 0.30, 0.70, "slot-for-slot"),
        "one-too-many": Wrong(one_too_many, 0.0, 0.20, "one-too-many"),
        "all-of-them": Wrong(all_of_them, 0.0, 0.20, "one-too-many"),
        "drops-finished": Wrong(never_delivers, 0.0, 0.20, "drops-finished", "get the answer"),
        "starts-afresh": Wrong(starts_afresh, 0.0, 0.20, "puts-out"),
        "newest-first": Wrong(newest_first, 0.0, 0.20, "newest-first"),
    },
    said=said,
    stub=stub,
    constants=(nothing, the_same),
    shortcuts=(fitting_only,),
)

SHEETS = [BATCHING]
