"""What can be said of a written answer without judging it: its length, and words that nobody explained.

Prose gets its marks from a person (nbgrader's form grader), by the rubric beside the lab's notebook.
"""

import re

LENGTHS = {
    "01.sentence": (80, 150),
    "07.memo": (250, 400),
}  # words, fewest and most; one entry a written answer

# Words that somebody outside the field would stop at, as patterns at the start of a word.
TECHNICAL = (
    "TTFT",
    "TPOT",
    "SLO",
    "SM",
    "MIG",
    "MPS",
    "HBM",
    "KV(?: cache)?",
    "goodput",
    "throughput",
    "latenc",
    "utili[sz]ation",
    "occupanc",
    "prefill",
    "decod",
    "batch",
    "preempt",
    "evict",
    "fragment",
    "strand",
    "quota",
    "alloc",
    "schedul",
    "placement",
    "contention",
    "FIFO",
    "throttl",
    "replica",
    "tensor",
    "arena",
    "extent",
    "backpressure",
)
_MARKS = r"(?:that is|i\.e\.|means?|meaning|in other words|namely)"
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n{2,}")


def words_of(text: str) -> int:
    """The number of words in ``text``."""
    return len(re.findall(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W_]+)*", text))


def unexplained(text: str) -> list[str]:
    """The technical words of ``text``, in order, whose first sentence does not say what they mean.

    A word counts as explained when its sentence goes on behind it with brackets, a colon, a dash, *that is*,
    *means*, or *is* or *are* with *a*, *an*, *the* or *how*; or when it stands itself in brackets or after *called*.
    That is a look at the form only: a person reads the rest.
    """
    found = []
    for pattern in TECHNICAL:
        short = pattern[:2].isupper()  # an abbreviation: as it stands, or with an s
        word = re.compile(rf"\b{pattern}{'s?' if short else '[a-z]*'}\b", 0 if short else re.IGNORECASE)
        first = next((s for s in _SENTENCES.split(text) if word.search(s)), None)
        if first is not None and not _explained(first, word):
            place = word.search(text)
            found.append((place.start(), place[0]))
    return [name for _, name in sorted(found)]


def looked_over(exercise: str, text: object) -> list[str]:
    """What is to be said of the form of a written answer, a line each; it never says how good it is.

    Raises:
        ValueError: ``exercise`` is no written answer.
    """
    if exercise not in LENGTHS:
        raise ValueError(f"{exercise!r} is no written answer; there are: {', '.join(LENGTHS)}.")
    if not isinstance(text, str) or not text.strip():
        return [f"{exercise}: not written yet."]
    least, most = LENGTHS[exercise]
    count = words_of(text)
    fits = "as asked" if least <= count <= most else f"asked are {least} to {most}"
    lines = [f"{exercise}: {count} words, {fits}."]
    names = unexplained(text)
    if names:
        lines.append(f"Used at first without a word on what they mean: {', '.join(names)}.")
    return [*lines, "A person reads and marks it; this looks at the form alone."]


def _explained(sentence: str, word: re.Pattern) -> bool:
    place = word.search(sentence)
    behind, before = sentence[place.end() :], sentence[: place.start()]
    said = (
        rf"\W{{0,2}}\s*(?:\(|:|\N{{EN DASH}}|\N{{EM DASH}}|- |,?\s*{_MARKS}\b|(?:is|are) (?:an?|the|how)\b)"
    )
    return bool(re.match(said, behind)) or bool(re.search(r"(?:\(|\bcalled\W{1,2})$", before))
