"""Situations of 01.sort about replicas, about how much there is, and about causes that no decision on devices explains."""

from autograder.checks.lab01.situations import Case, Situation

ELSEWHERE = (
    Situation(
        "copies in turn",
        "Three copies of the chat's model are loaded, each with {seats} seats. Conversations go to the copies in turn; "
        "since Monday A has had {in_a} at once, B and C {in_b} each, and at A people wait.",
        {"seats": (8, 24, 1), "in_a": (8, 60, 1), "in_b": (2, 40, 1)},
        (
            Case("q6", "in_b < seats <= in_a", "B and C had seats that A's people could have had."),
            Case("q7", "seats <= in_b", "All three have been full since Monday."),
        ),
        given=("in_b < in_a", "seats <= in_a"),
    ),
    Situation(
        "the second turn",
        "A long conversation was with copy A; its next turn goes to copy B, which reads it all again and answers after "
        "{again} ms. A would have answered after {kept} ms. Both have free seats; the promise is {promise} ms.",
        {"again": (300, 3000, 50), "kept": (100, 400, 10), "promise": (300, 1500, 100)},
        (
            Case("q6", "kept <= promise < again", "Both could do it; only A could do it in time."),
            Case("q8", "again <= promise", "Either keeps the promise."),
        ),
        given=("kept < again",),
    ),
    Situation(
        "an older card",
        "Two copies of the model take messages alike. The one on the new card answers in {fast} ms and has seats free; "
        "the one on the old card takes {slow} ms. The promise is {promise} ms.",
        {"fast": (100, 400, 10), "slow": (200, 1200, 10), "promise": (300, 900, 50)},
        (
            Case("q6", "fast <= promise < slow", "The new card's copy has a seat and is in time."),
            Case("q8", "slow <= promise", "Both are in time."),
        ),
        given=("fast < slow",),
    ),
    Situation(
        "names from A to M",
        "Customers whose names begin with A to M go to copy 1, all others to copy 2. At copy 1 {waiting} people wait; "
        "copy 2 has {free} free seats.",
        {"waiting": (5, 40, 1), "free": (0, 20, 1)},
        (
            Case("q6", "2 < free", "Those who wait could sit at copy 2."),
            Case("q7", "free < 1", "Neither copy has a seat."),
        ),
    ),
    Situation(
        "restarted",
        "Copy C was restarted and takes {down} s to load. Every third message still goes to it and waits; A and B "
        "have {free} free seats, and {per_minute} messages a minute come to C.",
        {"down": (40, 120, 1), "free": (0, 30, 1), "per_minute": (10, 60, 1)},
        (
            Case("q6", "2 < free", "A and B could take C's messages meanwhile."),
            Case("q7", "free < 1", "A and B have no seat to give: two copies are too few."),
        ),
    ),
    Situation(
        "work for so many cards",
        "From nine to five there is work for {work} cards; {have} are there. Answers come {late} ms late, and the "
        "company's proxy keeps each of them for {proxy} ms.",
        {"work": (3, 16, 1), "have": (4, 10, 1), "late": (200, 900, 10), "proxy": (20, 1500, 10)},
        (
            Case("q7", "have < work", "There is more work than cards."),
            Case("q8", "late <= proxy", "The cards keep up; the proxy alone explains the delay."),
        ),
    ),
    Situation(
        "nights",
        "At night {work} cards would do for all that comes; {have} are switched on. Each costs {price} euros a night.",
        {"work": (1, 6, 1), "have": (8, 20, 1), "price": (20, 60, 1)},
        (Case("q7", "work < have", "Every promise holds with fewer."),),
    ),
    Situation(
        "March",
        "All {have} cards do useful work for {busy} % of the day, and no promise is missed. From March on twice as much "
        "will come, which takes {need} cards even when nothing is wasted.",
        {"have": (4, 10, 1), "busy": (80, 95, 1), "need": (8, 20, 1)},
        (Case("q7", "have < need", "No way of sharing what is there makes it more."),),
    ),
    Situation(
        "slower since last week",
        "A step takes {slow} ms, a week ago it was {usual} ms. It works on {now_together} conversations together, then "
        "on {then_together}; the card's clock is {now_mhz:,} MHz, then it was {then_mhz:,} MHz.",
        {
            "slow": (40, 90, 1),
            "usual": (20, 39, 1),
            "now_together": (16, 64, 16),
            "then_together": (16, 64, 16),
            "now_mhz": (900, 1800, 300),
            "then_mhz": (1800, 1800, 300),
        },
        (
            Case(
                "q8",
                "now_mhz < then_mhz and now_together <= then_together",
                "The same step on a slower clock: the board is too hot or short of power.",
            ),
            Case(
                "q5",
                "then_together < now_together and then_mhz <= now_mhz",
                "More conversations in a step make the step longer.",
            ),
        ),
    ),
    Situation(
        "fewer bits",
        "Since the model went from {before} to {after} bits a weight, customers say that its answers are worse. They "
        "come within {took} ms, the promise is {promise} ms, and the cards are half empty.",
        {"before": (16, 16, 1), "after": (4, 8, 4), "took": (100, 500, 10), "promise": (500, 900, 50)},
        (Case("q8", "took <= promise", "Every promise about time holds: what changed is the model."),),
    ),
    Situation(
        "from the store",
        "An answer takes {whole} ms. For {fetch} ms of it the chat waits for documents from the store, before anything "
        "is handed to a card; the cards have free seats all the time and need {card} ms.",
        {"fetch": (400, 2000, 10), "card": (50, 350, 10)},
        (Case("q8", "card < fetch", "Most of the time passes before any card is asked."),),
        sums={"whole": ("fetch", "card")},
    ),
    Situation(
        "a busy counter",
        "The dashboard says that the card was busy for {busy} % of the last hour, and the board asks for a change. Only "
        "{waits} of {requests:,} requests waited at all, none of them longer than {longest} ms; the promise is "
        "{promise} ms.",
        {
            "busy": (90, 100, 1),
            "waits": (3, 30, 1),
            "requests": (4000, 9000, 100),
            "longest": (20, 190, 10),
            "promise": (200, 900, 100),
        },
        (Case("q8", "longest < promise", "The counter is high and nobody goes short."),),
    ),
)
