"""Wrong answers to the builds of lab 02, each named for the misconception it acts out."""

from autograder.references.lab02 import MyAllocator


class NoCoalescing(MyAllocator):
    def reclaim(self, offset, size):
        self.holes_list = sorted([*self.holes_list, (offset, size)])


class JoinsRightOnly(MyAllocator):
    def reclaim(self, offset, size):
        for start, length in self.holes_list:
            if start == offset + size:
                self.holes_list.remove((start, length))
                size += length
                break
        self.holes_list = sorted([*self.holes_list, (offset, size)])


class NextFit(MyAllocator):
    def prepare(self):
        super().prepare()
        self.last = 0

    def place(self, size):
        ahead = [hole for hole in self.holes_list if hole[0] >= self.last]
        behind = [hole for hole in self.holes_list if hole[0] < self.last]
        multiple = self.rules["boundary"] if size >= self.rules["threshold"] else self.alignment
        for start, length in ahead + behind:
            offset = -(-start // multiple) * multiple
            if offset + size <= start + length:
                self.holes_list.remove((start, length))
                pieces = [(start, offset - start), (offset + size, start + length - offset - size)]
                self.holes_list = sorted([*self.holes_list, *(piece for piece in pieces if piece[1])])
                self.last = offset + size
                return offset
        return None


class PaddingLost(MyAllocator):
    def place(self, size):
        offset = super().place(size)
        if offset is not None:
            self.holes_list = [hole for hole in self.holes_list if hole[0] + hole[1] != offset]
        return offset


class ExactFitKept(MyAllocator):
    def place(self, size):
        before = list(self.holes_list)
        offset = super().place(size)
        if offset is not None and any(sum(hole) == offset + size for hole in before):
            self.holes_list = before  # nothing is left behind the claim, so "nothing changes"
        return offset


class FitsBeforeAligning(MyAllocator):
    def place(self, size):
        multiple = self.rules["boundary"] if size >= self.rules["threshold"] else self.alignment
        for index, (start, length) in enumerate(self.holes_list):
            if length >= size:
                offset = -(-start // multiple) * multiple
                pieces = [(start, offset - start), (offset + size, start + length - offset - size)]
                self.holes_list[index : index + 1] = [piece for piece in pieces if piece[1] > 0]
                return offset
        return None


class ForgetsTheBoundary(MyAllocator):
    def place(self, size):
        for index, (start, length) in enumerate(self.holes_list):
            if size <= length:
                self.holes_list[index : index + 1] = [(start + size, length - size)] if length > size else []
                return start
        return None


class AlwaysRefuses(MyAllocator):
    def place(self, size):
        return None


# name -> (class, lowest share of the build, highest share, tag[, question, the rare tag])
FIRST_FIT = {
    "no-coalescing": (NoCoalescing, 0.0, 0.20, "no-coalescing"),
    "joins-right-only": (JoinsRightOnly, 0.0, 0.20, "joins-right-only"),
    "next-fit": (NextFit, 0.25, 0.35, "higher-hole"),
    "padding-lost": (PaddingLost, 0.0, 0.20, "padding-lost"),
    "exact-fit-kept": (ExactFitKept, 0.0, 0.20, "exact-fit-kept", "", "overlap"),
    "fits-before-aligning": (FitsBeforeAligning, 0.0, 0.20, "fits-before-aligning"),
    "forgets-the-boundary": (ForgetsTheBoundary, 0.0, 0.0, "alignment"),
    "always-refuses": (AlwaysRefuses, 0.0, 0.0, "refused-hole"),
}


# Answers: each a function from a learner's task to what who thinks so would type.


def _oom(tag):
    def answers(pair):
        from autograder.checks.lab02.oom_pairs import pin

        found = _oom_numbers(pair, tag)
        return {**found, "blocks_it": pin(pair)}

    return answers


def _oom_numbers(pair, tag):
    """The misconceptions worked by hand over the pool's segments, not by the check's own formulas."""
    found = {}
    for which in "ab":
        pool = pair.pool(which)
        segments = _segments(pool)
        holes = [size for held, sizes in segments for size in sizes]
        whole = sum(size for held, sizes in segments if not held for size in sizes)
        longest, room = max(holes, default=0), pool.capacity - pool.total_bytes
        split = max((size for held, sizes in segments if held for size in sizes), default=0)
        lost = sum(-(-extent.asked // 512) * 512 - extent.asked for extent in pool.held())
        right = max(longest, room + whole)
        found[f"largest_{which}"] = {
            "sum-of-free": room + sum(holes),
            "hole-only": longest,
            "hole-plus-device": longest + room,
            "cache-is-stuck": max(longest, room),
            "split-goes-back": room + whole + (split if split == longest else 0),
            "rounding-forgotten": right + lost,
        }[tag]
    return found


def _segments(pool):
    """``(is anything held in it, sizes of its free pieces)`` of each segment, read off the ledger."""
    from gpulab.telemetry.events import Claimed, Freed, Granted

    owner, live = {}, {}
    for fact in pool.ledger:
        if isinstance(fact, Claimed):
            owner[fact.claim] = fact.resource
        elif isinstance(fact, Granted):
            live[fact.claim] = fact
        elif isinstance(fact, Freed):
            del live[fact.claim]
    found = []
    for segment in (fact for claim, fact in live.items() if owner[claim] == "device"):
        end = segment.start + segment.size
        held = sorted(
            (fact.start, fact.size)
            for claim, fact in live.items()
            if owner[claim] == "pool" and segment.start <= fact.start < end
        )
        edges = [segment.start, *(edge for start, size in held for edge in (start, start + size)), end]
        sizes = [right - left for left, right in zip(edges[::2], edges[1::2], strict=True) if right > left]
        found.append((bool(held), sizes))
    return found


def _strand(tag):
    def answers(loading):
        segment = loading.temp_mib + 1  # every temporary is odd, and a segment a multiple of 2 MiB
        live = loading.layers * loading.weight_mib
        segments = _segments_of(loading)
        reserved = segments * segment
        right = {"reserved_mib": reserved, "stranded_mib": reserved - live, "cap_mib": 20}
        return (
            right
            | {
                "right": {},
                "temp-is-stranded": {"stranded_mib": segments * loading.temp_mib},
                "no-rounding": {
                    "reserved_mib": segments * loading.temp_mib,
                    "stranded_mib": segments * loading.temp_mib - live,
                },
                "cap-above-temp": {"cap_mib": loading.temp_mib + 41},
                "empties-cache": {"reserved_mib": live, "stranded_mib": 0},
                "counts-live": {"stranded_mib": reserved},
                "per-layer-once": {
                    "reserved_mib": loading.layers * segment,
                    "stranded_mib": loading.layers * segment - live,
                },
            }[tag]
        )

    return answers


def _segments_of(loading):
    """How many temporaries the device had to serve, by a list of free pieces in MiB."""
    pieces, segments = [], 0
    for _ in range(loading.layers):
        if max(pieces, default=0) < loading.temp_mib:
            pieces.append(loading.temp_mib + 1)
            segments += 1
        piece = min(size for size in pieces if size >= loading.weight_mib)
        pieces.remove(piece)
        if piece - loading.weight_mib > 1:
            pieces.append(piece - loading.weight_mib)
    return segments


# name -> (answers, lowest share of what answers carry, highest share, tag); right answers get 1.0 and ''
PREDICT_OOM = {
    tag: (_oom(tag), 2 / 7, 5 / 7, tag)
    for tag in (
        *("sum-of-free", "hole-only", "hole-plus-device", "cache-is-stuck", "split-goes-back"),
        "rounding-forgotten",
    )
}
STRAND = {
    "temp-is-stranded": (_strand("temp-is-stranded"), 0.65, 0.65, "temp-is-stranded"),
    "no-rounding": (_strand("no-rounding"), 0.25, 0.25, "no-rounding"),
    "cap-above-temp": (_strand("cap-above-temp"), 0.75, 0.75, "cap-above-temp"),
    "empties-cache": (_strand("empties-cache"), 0.25, 0.25, "empties-cache"),
    "counts-live": (_strand("counts-live"), 0.65, 0.65, "counts-live"),
    "per-layer-once": (_strand("per-layer-once"), 0.25, 0.25, "per-layer-once"),
}
STRAND_RIGHT = _strand("right")
