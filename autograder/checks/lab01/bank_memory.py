"""Situations of 01.sort about bytes, cards and where things are."""

from autograder.checks.lab01.situations import Case, Situation

MEMORY = (
    Situation(
        "room for the longest",
        "The chat gives every conversation room for {most:,} tokens when it begins, whatever its length. The card "
        "has room for {room:,} tokens and is full. All conversations, those who wait included, really have "
        "{exact:,} tokens.",
        {"most": (4000, 8000, 500), "room": (60_000, 120_000, 1000), "exact": (20_000, 200_000, 500)},
        (
            Case(
                "q1", "exact <= room", "Granted as they grow, all of them fit: each holds more than it uses."
            ),
            Case("q7", "room < exact", "Even with nothing held in vain they do not fit on what is there."),
        ),
        of_memory=True,
    ),
    Situation(
        "smallest and all",
        "{free:,} blocks of the card are free. {many} requests wait; the smallest needs {smallest:,} blocks, all of "
        "them together {wanted:,}. The running ones hold {unfilled:,} blocks that they have not filled.",
        {
            "free": (20, 200, 1),
            "many": (3, 9, 1),
            "smallest": (5, 300, 1),
            "wanted": (150, 900, 1),
            "unfilled": (100, 500, 1),
        },
        (
            Case("q2", "smallest <= free < wanted", "Somebody can start, not everybody: the order decides."),
            Case(
                "q1", "free < smallest <= unfilled", "Nobody fits, while more than that is held and not used."
            ),
        ),
        given=("smallest < wanted", "reach < wanted"),
        sums={"reach": ("free", "unfilled")},
        of_memory=True,
    ),
    Situation(
        "first card in the list",
        "The code assistant's new model needs {need} GB on one card and is always tried on card A first. A has "
        "{free_a} GB free, B {free_b} GB; C would have {freed_c} GB if the experiment that ended on Friday let go. It "
        "fails to load.",
        {"need": (20, 60, 1), "free_a": (5, 30, 1), "free_b": (10, 70, 1), "freed_c": (25, 75, 1)},
        (
            Case("q3", "free_a < need <= free_b", "Another card takes it as it is."),
            Case("q1", "free_b < need <= freed_c", "It fits once the experiment gives back what it holds."),
        ),
        given=("free_a < need", "free_b < freed_c"),
        of_memory=True,
    ),
    Situation(
        "in one machine",
        "The summary job needs {need} cards of one machine. Machine A has {free_a} free ones, B {free_b}, so "
        "{in_all} in all; jobs of one card each have been put wherever one was free. The summary job waits.",
        {"need": (3, 9, 1), "free_a": (1, 5, 1), "free_b": (1, 4, 1)},
        (
            Case(
                "q3", "need <= in_all", "There are enough cards, spread so that no machine has them together."
            ),
            Case("q7", "in_all < need", "However the small jobs are moved, there are not enough free cards."),
        ),
        given=("free_a < need", "free_b < need"),
        sums={"in_all": ("free_a", "free_b")},
        of_memory=True,
    ),
    Situation(
        "loads, or does not",
        "The new model's weights are {weights} GB; the card has {card} GB and nothing else is on it. While it loads, "
        "pieces that nobody uses any more stay held; with them it comes to {peak} GB. It fails with *out of memory*.",
        {"weights": (20, 160, 2), "card": (24, 80, 8), "temporary": (8, 40, 2)},
        (
            Case("q7", "card < weights", "The weights alone exceed the card: no way of granting helps."),
            Case("q1", "weights <= card < peak", "It fits if the pieces go back when nobody uses them."),
        ),
        sums={"peak": ("weights", "temporary")},
        of_memory=True,
    ),
    Situation(
        "side by side",
        "A card is cut into slices. A service needs {need} slices next to each other; {free} are free, the longest "
        "run of free ones is {longest}. It is refused.",
        {"need": (2, 6, 1), "free": (1, 6, 1), "longest": (1, 4, 1)},
        (
            Case("q1", "longest < need <= free", "Enough is free, and who sits where keeps it apart."),
            Case("q7", "free < need", "Fewer slices are free than it needs, however they lie."),
        ),
        given=("longest <= free", "longest < need"),
        of_memory=True,
    ),
    Situation(
        "each on its own card",
        "Small models sit on all cards, one each, so that every card has {rest} GB left. The code assistant's model "
        "needs {need} GB; an empty card has {card} GB, and all small models would fit on one card together.",
        {"rest": (20, 50, 1), "need": (30, 110, 1), "card": (64, 80, 8)},
        (
            Case("q3", "rest < need <= card", "Put together, the small ones leave a card free."),
            Case("q7", "card < need", "One card is too small for it however the small ones are put."),
        ),
        given=("rest < need",),
        of_memory=True,
    ),
    Situation(
        "left behind",
        "After each answer a little memory stays held that belongs to nobody, {left} GB by now. The card says *out of "
        "memory*: the {running} conversations that run need {live} GB of its {card} GB, and one more comes.",
        {"left": (20, 60, 1), "running": (3, 9, 1), "live": (8, 19, 1)},
        (Case("q1", "live < left < card", "What runs needs less than what has ended and not given back."),),
        sums={"card": ("left", "live")},
        of_memory=True,
    ),
    Situation(
        "the same text twice",
        "Chat and code assistant each hold their own copy of the same house rules, {copy:,} blocks. {free:,} blocks "
        "are free; the next conversation needs {need:,}, and held once the rules would leave {shared:,} free.",
        {"copy": (60, 200, 1), "free": (10, 100, 1), "need": (40, 250, 1)},
        (Case("q1", "free < need <= shared", "Two hold what one could hold for both."),),
        sums={"shared": ("free", "copy")},
        of_memory=True,
    ),
    Situation(
        "an hour of tests",
        "At nine a developer took a whole card for an hour of tests. It is {clock} o'clock, the card has been busy "
        "{busy} % of the time since ten, and colleagues wait. All other cards are busy for 95 % of the time.",
        {"clock": (13, 17, 1), "busy": (0, 99, 1)},
        (
            Case("q1", "busy < 10", "It is held and not used: nobody said until when."),
            Case("q7", "90 < busy", "All of them work, this one too: there are too few."),
        ),
    ),
    Situation(
        "rules at the front",
        "Every question to the chat begins with the same {rules:,} blocks of house rules, and today's time of day "
        "stands in front of them; they are read in full each time. {free:,} blocks are free to keep them.",
        {"rules": (40, 90, 1), "free": (10, 300, 1)},
        (
            Case("q8", "rules <= free", "There is room to keep them; what they are recognised by changes."),
            Case("q1", "free < rules", "There is no room to keep them: others hold it."),
        ),
    ),
    Situation(
        "everybody may grow",
        "The running conversations may still grow by {grow:,} blocks in all, {free:,} are free. Another one is let in "
        "with {first} blocks. Ten minutes later nobody can go on.",
        {"grow": (200, 600, 1), "free": (50, 190, 1), "first": (5, 20, 1)},
        (
            Case(
                ("q4", "q1"),
                "free < grow",
                "What was promised exceeds what is free: one more should not have come in.",
            ),
        ),
        of_memory=True,
    ),
    Situation(
        "two on one card",
        "Chat and summary job share card A; the chat's words come every {together} ms, alone they came every {alone} "
        "ms. Card B is empty. The promise is {promise} ms.",
        {"together": (30, 120, 1), "alone": (15, 45, 1), "promise": (30, 90, 1)},
        (
            Case("q3", "alone <= promise < together", "On the other card the promise holds."),
            Case("q8", "together <= promise", "The promise holds as it is."),
        ),
        given=("alone < together",),
    ),
    Situation(
        "halves far apart",
        "The two halves of the code assistant's model sit in different machines and exchange {size} MB each step: "
        "{far} ms. In one machine it would be {near} ms, and machine B has both cards free. A step may take "
        "{promise} ms in all.",
        {"size": (20, 80, 1), "far": (20, 90, 1), "near": (1, 9, 1), "promise": (10, 60, 1)},
        (
            Case("q3", "near < promise < far", "Put into one machine, the halves keep the promise."),
            Case("q8", "far < promise", "Even far apart there is time left."),
        ),
        given=("near < promise",),
    ),
    Situation(
        "no card has it yet",
        "A customer's model is asked for. It is loaded on {copies} of {cards} cards; {free} of all cards have room "
        "for one more model, and those that have it loaded could take this request. It has to go somewhere.",
        {"copies": (0, 4, 1), "cards": (8, 16, 1), "free": (2, 6, 1)},
        (
            Case("q3", "copies < 1", "It has no place yet: one must be found."),
            Case("q6", "1 < copies", "It has a place on several: one of them is chosen."),
        ),
    ),
)
