"""Situations of 01.sort about order, doors and units of work."""

from autograder.checks.lab01.situations import Case, Situation

TIME = (
    Situation(
        "long before short",
        "From eight to nine the card can do {able} minutes of work; what came adds up to {work} minutes. A report of "
        "{report} minutes, due at nine, went first, and {late} short messages, promised within a minute, were late.",
        {"able": (45, 60, 1), "work": (40, 90, 1), "report": (20, 35, 1), "late": (4, 9, 1)},
        (
            Case("q2", "work <= able", "There is time for all of it: the report can go after the messages."),
            Case("q7", "able < work", "In any order some of it is late: there is more work than card."),
        ),
        given=("report < work",),
    ),
    Situation(
        "a step for everyone",
        "At one o'clock the summary job began on the chat's card; it runs {job} minutes without a stop. The chat's "
        "messages of five past one need {need} blocks; {free} are free, and the job holds {possible} more that it does "
        "not use. They miss their promise of 10 s.",
        {"job": (20, 90, 1), "need": (20, 90, 1), "free": (5, 150, 1), "possible": (90, 200, 1)},
        (
            Case("q2", "need <= free", "Room is there; nothing but the order keeps them waiting."),
            Case("q1", "free < need <= possible", "The room they need is held by who does not use it."),
        ),
    ),
    Situation(
        "equal pay",
        "Chat and code assistant pay the same for one card. In the last hour the code assistant had something waiting "
        "in {asked} of 100 steps and got {got} of 100; the chat got all the others. Memory was free all the time.",
        {"asked": (10, 90, 1), "got": (5, 60, 1)},
        (
            Case("q8", "asked <= got", "It got every step it asked for."),
            Case("q2", "got < 40", "It had work and was passed over: who is next was decided against it."),
        ),
        given=("got <= asked",),
    ),
    Situation(
        "two reports",
        "Report A needs {work_a} minutes and is due in {due_a}; B needs {work_b} and is due in {due_b}. B came first "
        "and went first; A was late. One after the other they take {both} minutes.",
        {"work_a": (10, 25, 1), "due_a": (20, 40, 1), "work_b": (20, 50, 1), "due_b": (40, 120, 1)},
        (Case("q2", "both <= due_b", "A first, then B: both are in time."),),
        given=("work_a <= due_a", "due_a < both"),
        sums={"both": ("work_a", "work_b")},
    ),
    Situation(
        "idle and waited for",
        "The card is idle for {idle} % of the time. {waiting} requests wait for it, {free:,} of its blocks are free "
        "and a request needs {need}. Between two steps the program around it takes {host} ms to write the next list.",
        {
            "idle": (30, 70, 1),
            "waiting": (0, 12, 1),
            "free": (100, 900, 1),
            "need": (10, 60, 1),
            "host": (4, 30, 1),
        },
        (
            Case("q8", "waiting < 1", "Nothing waits for the card: it waits for the host."),
            Case("q2", "2 < waiting", "There is room and there is work, and nobody starts it."),
        ),
        given=("need <= free",),
    ),
    Situation(
        "messages behind a report",
        "One request at a time: a report of {report} s stands before {many} short messages. Without it the last "
        "message would be done after {clear} s; the promise is {promise} s. The report is not due before evening.",
        {"report": (60, 200, 1), "many": (10, 40, 1), "clear": (5, 90, 1), "promise": (10, 50, 1)},
        (
            Case("q2", "clear <= promise", "Let the messages go first."),
            Case("q7", "promise < clear", "Even with nothing before them the last message is late."),
        ),
        given=("promise < report",),
    ),
    Situation(
        "Friday's summary",
        "Friday's summary has waited {hours} hours: whenever its turn comes, shorter work has arrived. This week "
        "{work} hours of work came for a card that did nothing else for {able} hours.",
        {"hours": (20, 70, 1), "work": (60, 200, 1), "able": (90, 160, 1)},
        (
            Case("q2", "work <= able", "There was time for all of it: the order lets one wait for ever."),
            Case("q7", "able < work", "More work came than one card can do; somebody always waits."),
        ),
        given=("hours < work",),
    ),
    Situation(
        "more than can be done",
        "At noon {rate} requests a minute arrive; the cards finish {able}, and no further card can be had this week. "
        "Everyone is taken in, a report of {report} s may go before anything, and answers come after {wait} s.",
        {"rate": (50, 150, 1), "able": (70, 120, 1), "report": (40, 90, 1), "wait": (60, 300, 1)},
        (
            Case(
                "q4", "able < rate", "More comes than can be done in any order: some should hear no at once."
            ),
            Case("q2", "rate <= able", "All of it can be done: what waits long was passed by the report."),
        ),
    ),
    Situation(
        "one customer's script",
        "One customer's script sends {script} requests a second, all others {others}, which makes {total}; the cards do "
        "{able}, and no more can be bought. Answers are late; of their time {outside} % passes in the customer data base.",
        {"script": (10, 60, 1), "others": (20, 60, 1), "able": (40, 110, 1), "outside": (5, 95, 1)},
        (
            Case(
                "q4",
                "others <= able < total and outside < 30",
                "Without the script everybody else is served.",
            ),
            Case(
                "q8",
                "total <= able and 60 < outside",
                "The cards can do it all: the time is spent elsewhere.",
            ),
        ),
        given=("others < able", "script < able"),
        sums={"total": ("script", "others")},
    ),
    Situation(
        "it cannot be in time",
        "A request of {tokens:,} tokens is promised within {promise} s. Alone on an empty card it takes {alone} s. It "
        "waited while less urgent work ran, was worked on to its end, and came too late.",
        {"tokens": (8000, 40_000, 1000), "promise": (10, 40, 1), "alone": (5, 90, 1)},
        (
            Case("q4", "promise < alone", "It could never be in time: whoever takes it in wastes the card."),
            Case("q2", "alone <= promise", "Had it gone first, it would have been in time."),
        ),
    ),
    Situation(
        "sent again",
        "{fresh} new requests a second arrive; the cards can do {able}. The app sends each late one again, so that "
        "{arriving} arrive. Nobody is told no.",
        {"fresh": (30, 90, 1), "able": (40, 80, 1), "again": (15, 60, 1)},
        (
            Case(
                "q4",
                "fresh <= able < arriving",
                "A quick no keeps the repeats out, and the rest can be done.",
            ),
            Case("q7", "able < fresh", "Even the new ones alone are more than the cards can do."),
        ),
        sums={"arriving": ("fresh", "again")},
    ),
    Situation(
        "people on trial",
        "People on trial send {trial} requests a second, paying customers {paying}, together {total}; the cards can do {able}. Both are "
        "let in alike, and both are late.",
        {"trial": (10, 50, 1), "paying": (20, 90, 1), "able": (40, 80, 1)},
        (
            Case("q4", "paying <= able < total", "Those who pay can all be served if fewer others come in."),
            Case("q7", "able < paying", "Paying customers alone are more than the cards can do."),
        ),
        sums={"total": ("trial", "paying")},
    ),
    Situation(
        "one long prompt",
        "A prompt of {tokens:,} tokens is read in one go. That takes {go} ms, and nobody's next word comes out "
        "meanwhile. Users notice a pause of more than {promise} ms.",
        {"tokens": (8000, 60_000, 1000), "go": (100, 900, 10), "promise": (200, 600, 50)},
        (
            Case(
                "q5", "promise < go", "Read in parts, it leaves room for the words of the others in between."
            ),
            Case("q8", "go <= promise", "Nobody notices the pause."),
        ),
    ),
    Situation(
        "one at a time",
        "The chat's model works on one message at a time and so does {singly} a second; on eight at a time it would do "
        "{together}. {rate} a second arrive.",
        {"singly": (4, 12, 1), "together": (25, 60, 1), "rate": (8, 90, 1)},
        (
            Case(
                "q5", "singly < rate <= together", "The same card does it if a step is for several messages."
            ),
            Case("q7", "together < rate", "Even eight at a time one card is not enough."),
        ),
        given=("singly < rate",),
    ),
    Situation(
        "too many in a step",
        "Up to {most} conversations go together in one step, which then takes {step} ms. A word must come every "
        "{promise} ms; the card does {rate} words a second.",
        {"most": (32, 256, 8), "step": (20, 120, 1), "promise": (30, 80, 5), "rate": (900, 3000, 10)},
        (
            Case("q5", "promise < step", "Fewer conversations in a step make the step short enough."),
            Case("q8", "step <= promise", "Words come in time."),
        ),
    ),
    Situation(
        "waiting for company",
        "A step begins when {fill} messages have come together. At night few come, so that the first of them "
        "waits {wait} s before anything begins. The promise is {promise} s.",
        {"fill": (8, 32, 8), "wait": (2, 60, 1), "promise": (5, 40, 1)},
        (
            Case("q5", "promise < wait", "It waits only for others to make up a step."),
            Case("q8", "wait <= promise", "The promise holds."),
        ),
    ),
    Situation(
        "the whole book",
        "The summary job hands in a whole book at once, {book} minutes; when something fails near the end, all of it "
        "is done again, as happened {fails} times last month. A chapter takes {chapter} minutes.",
        {"book": (120, 400, 10), "fails": (3, 9, 1), "chapter": (5, 20, 1)},
        (Case("q5", "chapter < book", "Handed in by chapter, only a chapter is lost."),),
    ),
    Situation(
        "the longest decides",
        "{many} messages start together and their seats stay taken until the longest answer, {longest} tokens, is "
        "done. The mean answer has {mean} tokens, and {waiting} messages wait.",
        {"many": (8, 32, 4), "longest": (500, 2000, 50), "mean": (80, 300, 10), "waiting": (5, 40, 1)},
        (
            Case(
                "q5",
                "mean < longest",
                "If a step and not an answer is the unit, a seat is free when its own is done.",
            ),
        ),
    ),
)
