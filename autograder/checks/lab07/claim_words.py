"""The words of 07.claims: what units and tenants may be called, a rule and a question for each fault, the hints."""

import re
from fractions import Fraction

# Unit of a result -> what it may be written in, and how much of it one of these is.
UNITS = {
    "ns": {
        **dict.fromkeys(("s", "sec", "second", "seconds"), 10**9),
        **dict.fromkeys(("min", "minute", "minutes"), 60 * 10**9),
        **dict.fromkeys(("ms", "millisecond", "milliseconds"), 10**6),
        **dict.fromkeys(("us", "µs", "microseconds"), 10**3),
        **dict.fromkeys(("ns", "nanoseconds"), 1),
    },
    "share": {
        **dict.fromkeys(("%", "percent", "per cent", "points", "pp", "percentage points"), Fraction(1, 100)),
        **dict.fromkeys(("times", "x"), 1),
    },
    "requests": dict.fromkeys(("requests", "promises"), 1),
}
SLOWEST = re.compile(r"one in (?:a hundred|100)|\bp9\d|\b9\d(?:\.\d+)?th\b|slowest|unluckiest", re.I)
NINETY = re.compile(r"\b9\d(?:\.\d+)? ?(?:%|percent|per cent)", re.I)  # of requests, or the value itself
# What a sentence may call a tenant.
NAMED = {
    "chat": re.compile(r"\bchats?\b|\bsupport|\bconversation", re.I),
    "code": re.compile(r"\bcode\b|\bassistant", re.I),
    "batch": re.compile(r"\bbatch|\bsummar|\bnightly\b|\bdocument|\bpaper|\bfolder", re.I),
}

# tag -> (the rule in a sentence, the question)
RULES = {
    "incomplete": (
        "A claim is a sentence, a query, a value and its unit.",
        "{id}: which of the four is not there, or not of its kind?",
    ),
    "no-query": (
        "A query is a list of steps that the ledger can answer.",
        "{id}: {why}. What does puzzle('07.claims').ask(query) say?",
    ),
    "same-twice": (
        "Five claims say five things.",
        "{id} asks what {other} asks. What else has the reader to know?",
    ),
    "wrong-gauge": (
        "{rule}",
        "{id} does not look there. Which table, run or column would it have to look at?",
    ),
    "best-tenant": (
        "Who loses is whoever keeps fewer promises under this rule than under the other one.",
        "The sentence says customers; the query looks at {tenant} alone. Who keeps fewer promises here than under the other rule?",
    ),
    "worst-not-loser": (
        "Who loses is whoever keeps fewer promises under this rule than under the other one.",
        "{tenant} keeps the fewest, and as few under the other rule. What did this rule take from it?",
    ),
    "says-another": (
        "A sentence and its query speak of the same tenant.",
        "{id}: the sentence names {named}. Whom does the query look at?",
    ),
    "window-apart": (
        "Two halves show the shift when all else is the same: run and tenant.",
        "{id}: what differs between the two sides beside the time?",
    ),
    "window": (
        "What came at the shift is seen by setting one half against the other.",
        "Minutes 0 to {minutes} mix both halves. What does the query give for each of them alone?",
    ),
    "mean-for-p99": (
        "A sentence about the slowest is about a percentile.",
        "The sentence says one in a hundred; the query averages. Which verb looks at the slowest?",
    ),
    "few-events": (
        "A claim rests on 20 events or more.",
        "{id} rests on {rows}. What would it be worth on another day?",
    ),
    "no-difference": (
        "A comparison says what differs.",
        "{id}: both sides give the same. What did the rule change, then?",
    ),
    "ms-for-s": (
        "A number means something with its own unit.",
        "What came out is {found}; you wrote {said}. Of which unit are there {value}?",
    ),
    "practice-run": (
        "A claim is about the judged run.",
        "{said}: true of your practice run, not of the judged one. Which run did you ask?",
    ),
    "wrong-value": (
        "The value is what the query gives, within 1 %.",
        "The query gives {found}, you wrote {said}. What lies between the two?",
    ),
    "constant": (
        "A claim tells this run from others.",
        "This query gives {found} for every run. Which decision could it speak for?",
    ),
}

# What each claim must look at, and how that is said.
KINDS = {
    "room": "room: where capacity went, from the table account (used, stranded, fragmented, unscheduled, spare).",
    "wait": "wait: where time went, from a column of the second gauge (alone_ns, slowed_ns, behind_ns, blocked_ns, outside_ns) of requests.",
    "loser": "loser: who loses, promises kept or time of one tenant's requests.",
    "other": 'other: the same question to "run" and to "other", joined by minus or per.',
    "host": "host: what the slower host did, from host_ns of Stepped or outside_ns of requests, one half against the other.",
}

HINTS = (
    "Ask one thing of each run first: puzzle('07.claims').ask([['rows', 'requests', 'run'], ['share', 'kept', 'is', 1]]). Then the "
    "same of one tenant, of one half, of the other run.",
    "# room: which of the five terms differs most between the two runs?\n"
    "# wait: whose time went where, after the shift?\n"
    "# loser: kept in run, minus kept in other, tenant by tenant\n"
    "# other: the number of the decision, in both runs\n"
    "# host: the same sum before and after shift_ns, between(0, shift_ns) and between(shift_ns, the end)",
    "A sentence about 'one in a hundred' needs percentile, 99. A value is written as ask shows it, with the unit behind it: "
    "0.031 s, 31 ms, 12.5 %. A claim that would hold on any day is worth nothing: ask variant('07.claims').task the same.",
)
