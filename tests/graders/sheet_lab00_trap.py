"""The sheet of 00.trap: six readings of two counters, and which of them tells."""

from sheets import Sheet, Wrong

from autograder.checks import exercises


def fields_of(readings, tells="sm_active"):
    return {"util": readings.util, "sm_active_permille": readings.sm_active_permille, "tells": tells}


def right(course, learner):
    return fields_of(exercises()["00.trap"].puzzle(course, learner).run()[1])


def led_by(tag):
    def fields(course, learner):
        return fields_of(exercises()["00.trap"].puzzle(course, learner).guesses()[tag][0])

    return fields


def wrong(tag, question, highest=0.75, lowest=0.0):
    return Wrong(led_by(tag), lowest, highest, tag, question)


SHEETS = [
    Sheet(
        "00.trap",
        right,
        {
            "util-is-sm-share": wrong("util-is-sm-share", "*any* kernel", lowest=0.625),
            "spinner-fills": wrong("spinner-fills", "One block sits on one SM", highest=0.625, lowest=0.375),
            "whole-run-average": wrong("whole-run-average", "What ran inside it", 0.5),
            "occupancy-for-active": wrong("occupancy-for-active", "Count SMs", 0.375, 0.375),
            "bytes-for-memory-util": wrong("bytes-for-memory-util", "Held bytes", 0.75, 0.625),
            "idle-forgotten": wrong("idle-forgotten", "nothing ran", 0.5, 0.125),
        },
        constants=tuple(
            {"util": [100, 100, 100], "sm_active_permille": sm, "tells": tells}
            for sm in ([7, 7, 7], [9, 9, 9], [17, 17, 17], [25, 25, 25], [1000, 1000, 1000], [0, 0, 0])
            for tells in ("sm_active", "util")
        ),
    )
]
