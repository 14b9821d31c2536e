"""What 04.fair says: one rule and one question a misconception, the hints, the blocks."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback

# tag -> (the rule in a sentence, the question)
RULES = {
    "no-lift": (
        "Who comes back from idling is lifted to the lowest counter of those who wait, less the credit: nobody saves up more.",
        "{other} was away, came back and was served again and again while {client} waited. How much may it have saved up?",
    ),
    "no-credit": (
        "Who comes back from idling is lifted to the lowest counter of those who wait, less the credit.",
        "{client} was away and comes back. How far below the lowest may its counter be, and where do you put it?",
    ),
    "forgets-debt": (
        "Who comes back from idling is lifted, never lowered: what was served before the pause still counts.",
        "{other} had more than its share, paused for a moment and was served before {client}. Where did its debt go?",
    ),
    "starts-anew": (
        "Who comes back from idling keeps what it owes, and may have saved up the credit.",
        "Where do you put a counter that was above the lowest before the pause, and one that was far below it?",
    ),
    "not-to-lowest": (
        "Who comes back from idling is lifted to the lowest counter of those who wait, less the credit.",
        "{client} came to others whose counters were far apart. Which of them is the lowest, and to what did you lift?",
    ),
    "reset-on-idle": (
        "A counter stays what it is while its client has nothing waiting.",
        "The counter of {other} fell when its last request got a seat. What did it owe {client} then?",
    ),
    "counts-requests": (
        "Service is tokens, not requests.",
        "{other} and {client} may have the same number of requests: how many tokens had each?",
    ),
    "input-only": (
        "Service counts the tokens of the answer, too.",
        "Who asks for long answers is served free. How many tokens did the requests of {other} make?",
    ),
    "output-only": (
        "Service counts the tokens of the prompt, too.",
        "Who sends long prompts is served free. How many prompt tokens did {other} bring?",
    ),
    "no-shares": (
        "A counter is service over share: share 2 may have twice as much.",
        "Which shares do {other} and {client} have, and where do they come into your counters?",
    ),
    "share-upside-down": (
        "A counter is service over share: with a larger share it grows more slowly.",
        "Who has the larger share, {other} or {client}, and whose counter grows faster for a token?",
    ),
    "first-come": (
        "The client with the lowest counter is next, not the one who has waited longest.",
        "{other} was first in line and has had more than {client}. What does the line not know?",
    ),
    "uneven": (
        "The seat goes to the lowest counter; nobody is served who is more than one batch above it.",
        "Which counter is the lowest among those who wait here, and what do yours say?",
    ),
    "idle": (
        "While somebody waits no seat stays empty.",
        "A seat was free and somebody waited. On which path does `pick` name nobody?",
    ),
    "not-waiting": (
        "`pick` names one of those who wait.",
        "Who can be served that has sent nothing, or nothing that still waits?",
    ),
    "type": ("`pick` answers a client's name.", "What does your method return on this path?"),
    "not-solved": (
        "The three methods are yours to write.",
        "What must you remember of a client to say who has had least?",
    ),
}

HINTS = (
    "Add up, for each client, the tokens it was served when the run ended, over its share. Who got too much, and what did the "
    "line of requests not know?",
    "# served: the client's counter grows by (input * input_percent + output * output_percent) / 100, over its share\n"
    "# arrived: did it have nothing waiting until now? then its counter is at least the lowest of those who wait, less credit\n"
    "#   one request more of it waits\n"
    "# pick: of those who wait, the one with the lowest counter; one request less of it waits",
    'blocks("04.fair") gives the lines of the three methods to put in order, with two that do not belong.',
)

BLOCKS = (
    {
        "a": "served: service = (input * input_percent + output * output_percent) / 100",
        "b": "        counter[client] += service / shares[client]",
        "c": "        counter[client] += service * shares[client]",
        "d": "arrived: if nothing of client waits, and something of others does:",
        "e": "             counter[client] = max(counter[client], lowest counter of those others - credit)",
        "f": "             counter[client] = lowest counter of those others - credit",
        "g": "         waits[client] += 1",
        "h": "pick: client = the one of waiting_clients with the lowest counter",
        "i": "      waits[client] -= 1; return client",
    },
    "abdeghi",
)


def feedback(outcome: Outcome, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    event, picture, numbers = "before the first `pick`, when your object was made", None, outcome.numbers
    named = {"other": "client A", "client": "client B"}
    if where:
        named |= {name: numbers[name] for name in named if name in numbers}
    if where and "step" in numbers:
        event = f"step {numbers['step']}, pick({numbers['waiting']})"
    elif where and numbers.get("method") not in (None, "new"):
        event = f"`{numbers['method']}`, {len(outcome.ledger):,} events into the run"
    if where and outcome.event >= 0:
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import lanes

    return lanes(
        outcome.ledger, by="request", title="Requests: thin while they wait, thick while they are served"
    )
