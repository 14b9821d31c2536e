"""The sheet of 03.block-size: the price worked out request by request, rightly and otherwise."""

from sheets import Sheet, Wrong

from autograder.checks import exercises

EXERCISE = exercises()["03.block-size"]
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def stranded(puzzle, block):
    held = sum((r.tokens + block - 1) // block * block for r in puzzle.requests)
    return 1000 * sum(-r.tokens % block for r in puzzle.requests) / held


def hit_loss(puzzle, block):
    found = sum(r.shared // block * block for r in puzzle.requests)
    return 1000 - 1000 * found / sum(r.shared for r in puzzle.requests)


def all_or_nothing(puzzle, block):
    lost = sum(r.shared for r in puzzle.requests if r.shared % block)
    return 1000 * lost / sum(r.shared for r in puzzle.requests)


def of_mean_length(puzzle, block):
    mean = sum(r.tokens for r in puzzle.requests) // len(puzzle.requests)
    return 1000 * (-mean % block) / (mean + -mean % block)


def price(puzzle, block, hits=True):
    tokens = sum(r.tokens for r in puzzle.requests)
    entries = 1000 * sum((r.tokens + block - 1) // block for r in puzzle.requests) / tokens
    lost = puzzle.hit_euro * hit_loss(puzzle, block) if hits else 0
    return puzzle.stranded_euro * stranded(puzzle, block) + lost + puzzle.entry_euro * entries


def typed(choose=None, empty=stranded, lost=hit_loss, scale=1, hits=True):
    def fields(course, learner):
        puzzle = EXERCISE.puzzle(course, learner)
        block = choose or min(SIZES, key=lambda size: price(puzzle, size, hits))
        figures = [round(figure(puzzle, block) / scale) for figure in (empty, lost)]
        return dict(zip(EXERCISE.fields, (block, *figures), strict=True))

    return fields


SHEETS = [
    Sheet(
        "03.block-size",
        typed(),
        {
            "smallest": Wrong(typed(choose=1), 0.0, 0.0, "smallest"),
            "largest": Wrong(typed(choose=256), 0.0, 0.0, "largest"),
            "hits-ignored": Wrong(typed(hits=False), 0.0, 0.5, "hits-ignored"),
            "mean-length": Wrong(typed(empty=of_mean_length), 0.75, 0.75, "mean-length"),
            "all-or-nothing": Wrong(typed(lost=all_or_nothing), 0.75, 0.75, "all-or-nothing"),
            "percent": Wrong(typed(scale=10), 0.5, 0.5, "percent"),
        },
        constants=tuple(
            {"block": block, "stranded_permille": stranded, "hit_loss_permille": lost}
            for block, stranded, lost in (
                (16, 22, 60),
                (8, 10, 25),
                (32, 40, 120),
                (64, 80, 250),
                (16, 500, 500),
            )
        ),
    )
]
