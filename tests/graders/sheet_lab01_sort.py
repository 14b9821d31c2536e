"""The sheet of 01.sort: twelve situations, and who takes one question for another."""

from sheets import Sheet, Wrong

from autograder.checks import exercises


def right(course, learner):
    return exercises()["01.sort"].puzzle(course, learner).key()


def taking(**for_what):
    """Who answers ``for_what[q]`` to each situation that belongs to q (``q7m``: to those of memory only)."""

    def fields(course, learner):
        sheet = exercises()["01.sort"].puzzle(course, learner)
        answers = sheet.key()
        for name, item in zip(answers, sheet.items, strict=True):
            given, memory = answers[name][0], "m" if item.situation.of_memory else ""
            answers[name][0] = for_what.get(given + memory, for_what.get(given, given))
        return answers

    return fields


def wrong(tag, question, **for_what):
    return Wrong(taking(**for_what), 0.6, 0.81, tag, question)


SHEETS = [
    Sheet(
        "01.sort",
        right,
        {
            "waiting-is-scheduling": wrong("waiting-is-scheduling", "at the door", q4="q2", q2="q4"),
            "batching-is-scheduling": wrong("batching-is-scheduling", "go together", q5="q2", q2="q5"),
            "routing-is-placement": wrong("routing-is-placement", "What is chosen", q6="q3", q3="q6"),
            "scaling-is-allocation": wrong("scaling-is-allocation", "how much there is", q7="q1"),
            "oom-is-allocation": wrong("oom-is-allocation", "any way of granting", q7m="q1", q3="q1"),
            "everything-is-ours": wrong("everything-is-ours", "wait for", q8="q2"),
        },
        constants=tuple({f"s{n}": [f"q{q}", 0] for n in range(1, 13)} for q in range(1, 9)),
    )
]
