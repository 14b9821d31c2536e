"""What feedback on 02.pool says: one rule and one question a misconception."""

from autograder.checks.played import Outcome, told
from autograder.verdict import Feedback
from gpulab.units import format_bytes

_TIME = "What lies free in the pool is used again where it may be; the device is asked when nothing fits."
_STRANDED = "At most {limit} % of the granted bytes may be stranded."
_TAKE = "`take` names a free chunk that holds the claim."
# tag -> (the rule in a sentence, the question)
RULES = {
    "exact-size-only": (_TIME, "{near} lay free when {wanted} were asked. Could one serve the other?"),
    "own-stream-only": (
        _TIME,
        "{near} lay free when {wanted} were asked, freed on the other stream. Who told you that it is done with them?",
    ),
    "frees-at-once": (
        _TIME,
        "This free goes to the device, and the host waits until it is idle. Which claim could have used the chunk next?",
    ),
    "slow": (
        _TIME,
        "Which of the four takes most of your time: hits, growths, frees or waits? Which of your rules leads there?",
    ),
    "any-bigger": (_STRANDED, "{asked} are asked and {held} are held. What is the rest doing?"),
    "power-of-two": (
        _STRANDED,
        "{percent} % of the granted bytes are stranded. How large is your largest step?",
    ),
    "coarse-steps": (
        _STRANDED,
        "{percent} % of the granted bytes are stranded. Which sizes lie just above one of your steps?",
    ),
    "never-trims": (
        "`trim` is asked before a claim is refused: free chunks can go back to the device.",
        "Refused, and {cached} lay free in the pool. Who could still use them there?",
    ),
    "refused": (
        "A claim that the device can hold is not refused.",
        "{wanted} were asked of the device. How many did the claim need?",
    ),
    "other-stream-race": (
        "A chunk that was freed on another stream may be taken once that stream has come to the free.",
        "Stream {stream} still reads it for {later}. Which call tells you that it is done?",
    ),
    "over-limit": (
        'At most `self.rules["cache_bytes"]` may lie free in the pool after a free.',
        "Which chunks can `give` hand back, and how many of them must go?",
    ),
    "held-twice": (_TAKE, "Somebody holds that chunk. When did it leave your list of free ones?"),
    "too-small": (
        "A chunk holds its claim, and the device gives multiples of 512 B.",
        "How many bytes did `grown` say that this chunk has?",
    ),
    "unknown-chunk": (
        "Chunks are known by their ids, each once, until they go back.",
        "You named a chunk that is not there, or named one twice. When did it go back to the device?",
    ),
    "type": (
        '`take` answers ["chunk", id] or ["grow", bytes]; `give` and `trim` answer a list of ids, [] for none.',
        "What does your method return on this path?",
    ),
    "not-solved": (
        "`take`, `give` and `trim` are yours to write.",
        "What is free in the pool before the first claim?",
    ),
}


def feedback(outcome: Outcome, rules: dict, where: str) -> Feedback:
    """The feedback of one outcome; ``where`` says what the picture shows, '' that nothing may be shown."""
    words = ("near", "wanted", "asked", "held", "cached", "stream", "later", "percent")
    named = {word: outcome.numbers.get(word, "?") if where else "some" for word in words}
    named["limit"] = rules["stranded_percent"]
    event, picture = "before the first claim, when your object was made", None
    if where and outcome.event >= 0 and outcome.ledger is not None:
        event = f"#{outcome.event}"
        if outcome.numbers.get("size"):
            event += f", a tensor of {format_bytes(outcome.numbers['size'])}"
        picture = _picture(outcome)
    return told(outcome, RULES, where, event=event, picture=picture, named=named)


def _picture(outcome: Outcome) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(outcome.ledger, title="Your answers, up to the first fault", mark=[outcome.event])
