"""The sheet of 00.read: four numbers that stand in the learner's own ledger."""

from dataclasses import asdict

from sheets import Sheet, Wrong

from autograder.checks import exercises


def story(course, learner):
    return exercises()["00.read"].puzzle(course, learner)


def right(course, learner):
    return asdict(story(course, learner).keys())


def led_by(tag):
    def fields(course, learner):
        wrong = story(course, learner).guesses()[tag]
        return right(course, learner) | {name: values[0] for name, values in wrong.items()}

    return fields


def wrong(tag, share, question):
    return Wrong(led_by(tag), share, share, tag, question)


SHEETS = [
    Sheet(
        "00.read",
        right,
        {
            "final-not-peak": wrong("final-not-peak", 0.75, "held at the end"),
            "sum-of-allocs": wrong("sum-of-allocs", 0.75, "already freed at #"),
            "overlap-twice": wrong("overlap-twice", 0.75, "counted twice"),
            "serial-thinking": wrong("serial-thinking", 0.75, "side by side"),
            "launch-is-end": wrong("launch-is-end", 0.5, "handed over, not when it ended"),
            "same-stream-only": wrong("same-stream-only", 0.75, "earlier on the same stream"),
        },
        constants=(
            *(
                {"peak_bytes": 38797312, "overlap_ns": 0, "waited_for": n, "last_copy": m}
                for n, m in ((30, 43), (34, 44), (34, 45), (37, 45), (33, 46))
            ),
            dict.fromkeys(("peak_bytes", "overlap_ns", "waited_for", "last_copy"), 0),
            dict.fromkeys(("peak_bytes", "overlap_ns", "waited_for", "last_copy"), True),
        ),
    )
]
