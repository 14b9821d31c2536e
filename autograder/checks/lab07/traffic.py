"""Who comes to the case of lab 07, when, and how long: drawn from quantiles of public traces, never a row of one.

Chat: Azure's conversations of 2023, nearly random within a minute, with a pace that drifts. Code: Azure's code
assistant, in bursts. Batch: documents as long as arXiv papers and their summaries, a folder at a time (its arrivals are
ours; the data set has none). Each quantity is drawn on its own, from the stretches between 17 to 33 quantiles.
"""

from collections.abc import Iterator
from random import Random
from typing import final

from autograder.checks.lengths import GAPS, OUTPUTS, PROMPTS
from gpulab.units import MS, SECOND, US

# Requests in each minute of the conversation trace, percent of their mean: 9 quantiles.
PACE_PERCENT = (57, 74, 80, 90, 96, 102, 116, 130, 149)
# The code trace: requests between silences of more than 1 s (17 quantiles), gaps in between in microseconds (33).
BURSTS = (1, 2, 5, 8, 12, 14, 17, 22, 27, 35, 45, 66, 78, 105, 144, 244, 575)
BURST_GAPS_US = (
    *(6, 61, 111, 181, 626, 908, 1073, 1439, 2013, 2685, 3515, 4687, 6817, 14976, 29563, 43469, 59447),
    *(76347, 90636, 93801, 95906, 97749, 99200, 100396, 102543, 116750, 159854, 194983, 200181, 241947),
    *(300934, 411742, 999964),
)
CODE_PROMPTS = (
    *(3, 51, 90, 137, 185, 245, 348, 462, 578, 700, 825, 915, 1016, 1093, 1196, 1342, 1469),
    *(1605, 1734, 1885, 2048, 2195, 2375, 2539, 2745, 2982, 3330, 3776, 4434, 5511, 6499, 7435, 7437),
)
CODE_OUTPUTS = (
    *(6, 6, 6, 7, 7, 8, 8, 9, 9, 9, 10, 10, 11, 11, 12, 12, 13),
    *(14, 15, 15, 16, 18, 19, 21, 24, 27, 31, 37, 46, 58, 77, 126, 1899),
)
# arXiv summaries (Vidur's table of lengths, Llama 2's tokens).
PAPERS = (
    *(1, 456, 893, 1182, 1418, 1596, 1748, 1873, 1986, 2090, 2190, 2287, 2379, 2472, 2560, 2647, 2730),
    *(2813, 2894, 2979, 3063, 3143, 3218, 3295, 3370, 3444, 3514, 3584, 3649, 3716, 3787, 3859, 4054),
)
SUMMARIES = (
    *(5, 51, 66, 76, 86, 94, 101, 108, 115, 121, 127, 134, 140, 147, 153, 160, 167),
    *(174, 182, 190, 199, 208, 218, 229, 242, 258, 276, 299, 333, 384, 513, 2120, 4056),
)
LENGTHS = {"chat": (PROMPTS, OUTPUTS), "code": (CODE_PROMPTS, CODE_OUTPUTS), "batch": (PAPERS, SUMMARIES)}
FOLDER = 120  # documents that come together, about
PAPER_GAP_NS = 10 * MS  # between two documents of a folder


@final
class Deck:
    """Values between neighbouring quantiles of ``table``, each stretch as often as any other, as cards are dealt.

    So a short trace has the long requests of a long one, in another order: draws differ less than by plain luck.
    """

    def __init__(self, draw: Random, table: tuple[int, ...]) -> None:
        self._draw, self._table, self._cards = draw, table, []

    def deal(self) -> int:
        if not self._cards:
            self._cards = list(range(len(self._table) - 1))
            self._draw.shuffle(self._cards)
        index = self._cards.pop()
        low, high = self._table[index], self._table[index + 1]
        return low + self._draw.randrange(1024) * (high - low) // 1024


def chats(draw: Random, per_ks: int, until_ns: int) -> Iterator[int]:
    """Arrivals of chat in order, ``per_ks`` in a thousand seconds."""
    gaps, paces = Deck(draw, GAPS), Deck(draw, PACE_PERCENT)
    at, minute, pace = 0, -1, 100
    while True:
        if at // (60 * SECOND) != minute:
            minute, pace = at // (60 * SECOND), paces.deal()
        at += gaps.deal() * SECOND * 100 // (per_ks * pace)
        if at >= until_ns:
            return
        yield at


def bursts(draw: Random, per_ks: int, until_ns: int, doubled_ns: int) -> Iterator[int]:
    """Arrivals of code in bursts; those that begin from ``doubled_ns`` on have twice as many, twice as close."""
    sizes, gaps = Deck(draw, BURSTS), Deck(draw, BURST_GAPS_US)
    left = per_ks * until_ns // (1000 * SECOND)
    most = max(1, left // 4)  # of one burst: one that is the whole trace would make luck of it
    while left > 0:
        size, at = min(left, most, sizes.deal()), draw.randrange(until_ns)
        left -= size
        times = 2 if at >= doubled_ns else 1
        for _ in range(size * times):
            if at < until_ns:
                yield at
            at += gaps.deal() * US // times


def folders(draw: Random, per_ks: int, until_ns: int) -> Iterator[int]:
    """Arrivals of batch: folders of documents, each somewhere in a stretch of its own."""
    papers = per_ks * until_ns // (1000 * SECOND)
    count = max(1, -(-papers // FOLDER))
    for folder in range(count):
        at = (folder * until_ns + draw.randrange(until_ns)) // count
        size = papers * (folder + 1) // count - papers * folder // count
        yield from (at + n * PAPER_GAP_NS for n in range(size) if at + n * PAPER_GAP_NS < until_ns)
