"""What 04.rank says: a rule and a question for each misconception, hints, blocks."""

_LEFT = "Whoever has the fewest tokens left goes first; a second of waiting counts like age_tokens tokens less to make."
_LIMIT = "Nobody waits longer than 3 times the longest wait in order of arrival, on the same requests."
_MISSING = "A missing guess counts as usual_tokens: it stands between the shortest and the longest known."
SENTENCES = {
    "not-ordered": (
        "Ranks can be compared: all are numbers, or all are tuples of the same kinds.",
        "What do you return for a job that looks different from the first one?",
    ),
    "unsteady": (
        "The same job has the same rank whenever it is asked.",
        "What does your rank read besides its job?",
    ),
    "one-rank-for-all": ("A rank puts jobs in an order.", "What distinguishes two jobs that wait?"),
    "reversed": (_LEFT, "The lowest rank goes first: which sign has a long answer in yours?"),
    "shortest-prompt": (
        _LEFT,
        "A prompt token takes a two-hundredth of the time of an output token. Which of the two "
        "does a job have to wait for?",
    ),
    "counts-prompts": (
        _LEFT,
        "A prompt of 2,000 tokens takes as long as 10 tokens of output. Does it in your rank?",
    ),
    "arrival-only": (_LEFT, "Yours is the order of arrival in every decision. What else is known of a job?"),
    "guess-ignored": (
        _LEFT,
        "These two differ only in the length that was guessed. Which one blocks the other for longer?",
    ),
    "no-aging": (
        _LIMIT,
        "New short jobs keep coming. What in your rank makes a job that has waited long go before them?",
    ),
    "ages-too-little": (_LIMIT, "By how much must the waiting count so that this job's turn comes in time?"),
    "ages-too-much": (
        _LEFT,
        "A short job that came a moment later stands behind a long one. How many tokens is that moment worth?",
    ),
    "total-not-remaining": (
        "Of two jobs that are equal but for `generated`, the one with more done goes first.",
        "How many tokens has each of them still to make?",
    ),
    "none-first": (_MISSING, "0 means that nobody guessed. How long is an answer of which nothing is known?"),
    "none-last": (
        _MISSING,
        "Is an answer of which nothing is known longer than the longest that was guessed?",
    ),
    "usual-typed": (
        "A missing guess counts as rules.usual_tokens, whatever that is in this course.",
        "One of these was not guessed. How long is it in your rank, and where does that number come from?",
    ),
    "other-order": (
        _LEFT,
        "Take two jobs that wait: how many tokens has each left, and how much longer has one waited?",
    ),
}
HINTS = (
    "Look at the lanes in order of arrival: which thick bar do most thin ones stand behind, and how long is it?",
    "# 1. how many tokens is this answer long? (0: nobody guessed)\n"
    "# 2. how many of them are still to be made? never below 0\n"
    "# 3. two jobs, now: left minus age_tokens for each second waited; waited = now - arrival\n"
    "# 4. now is the same for both: what is left of 3 when you leave it out?",
    'blocks("04.rank") gives lines to put in order, with two that do not belong.',
)
BLOCKS = (
    {
        "a": "guess = job.predicted_tokens",
        "b": "if guess == 0: guess = rules.usual_tokens",
        "c": "left = guess - job.generated",
        "d": "left = job.prompt_tokens + guess - job.generated",
        "e": "if left < 0: left = 0",
        "f": "came_s = job.arrival_ns / 1e9",
        "g": "return left + rules.age_tokens * came_s",
        "h": "return left - rules.age_tokens * came_s",
    },
    "abcefg",
)
