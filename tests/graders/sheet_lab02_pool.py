"""The sheet of 02.pool."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab02.pool_cases import graded_case
from autograder.references.lab02 import MyPool
from autograder.verdict import Commitments
from gpulab.memory.pool import Pool
from gpulab.memory.pools import CuPyPool


class Whole(MyPool):
    """The reference, with the two decisions that the misconceptions get wrong laid open."""

    def wanted(self, size):
        step = max(512, 1 << max(0, (size - 1).bit_length() - 3))
        return -(-size // step) * step

    def serves(self, chunk, size, stream):
        return self.sizes[chunk] == self.wanted(size) and self.idle[chunk] in (stream, None)

    def take(self, size, stream):
        for chunk in self.idle:
            if self.serves(chunk, size, stream):
                del self.idle[chunk]
                return ["chunk", chunk]
        return ["grow", self.wanted(size)]


class ExactSizeOnly(Whole):
    def wanted(self, size):
        return size


class AnyBigger(ExactSizeOnly):
    def serves(self, chunk, size, stream):
        return self.sizes[chunk] >= size and self.idle[chunk] in (stream, None)


class OtherStreamRace(Whole):
    def serves(self, chunk, size, stream):
        return self.sizes[chunk] == self.wanted(size)


class OwnStreamOnly(Whole):
    def reached(self, chunk):
        pass


class NeverTrims(Whole):
    def trim(self, need):
        return []


class PowerOfTwo(Whole):
    def wanted(self, size):
        return 1 << (size - 1).bit_length()


class FreesAtOnce(Whole):
    def give(self, chunk, stream):
        return [chunk]


class KeepsEverything(Whole):
    def give(self, chunk, stream):
        super().give(chunk, stream)
        self.idle[chunk] = stream
        return []


class ForgetsToStrikeOff(MyPool):
    def take(self, size, stream):
        answer = super().take(size, stream)
        if answer[0] == "chunk":
            self.idle[answer[1]] = stream
        return answer


class Stub(Pool):
    def take(self, size, stream):
        raise NotImplementedError("yours to write")

    def give(self, chunk, stream):
        raise NotImplementedError("yours to write")

    def trim(self, need):
        raise NotImplementedError("yours to write")


class AlwaysGrows(Pool):
    """Asks the device each time and gives nothing back."""

    def take(self, size, stream):
        return ["grow", size]

    def give(self, chunk, stream):
        return []

    def trim(self, need):
        return []


class NamesNothing(AlwaysGrows):
    def take(self, size, stream):
        return None


class FirstChunk(AlwaysGrows):
    def take(self, size, stream):
        return ["chunk", 0]


# -- around what gpulab ships ---------------------------------------------------------------------


class OverBooks(Pool):
    """gpulab's own books of segments grow as the judge's do, so they give the same ids; CuPy's rule over them."""

    def take(self, size, stream):
        chunk = self.segments.best_fit(self.segments.uncut, size)
        return ["chunk", chunk.start] if chunk else ["grow", size]

    def grown(self, chunk, size, stream):
        self.segments.hold(self.segments.grow(size, stream, self.segments.uncut, lambda *_: 0), size)

    def give(self, chunk, stream):
        return self.segments.set_free(self.segments.chunks[chunk]) and []


class AroundCuPy(Pool):
    """CuPy's rule decides, on a device of its own."""

    def prepare(self):
        self.inner = CuPyPool(self.capacity)

    def take(self, size, stream):
        extent = self.inner.allocate(size, stream=stream)
        return ["grow", extent.size]

    def give(self, chunk, stream):
        return [chunk]

    def trim(self, need):
        return []


def said(course, learner):
    cause, shows = exercises()["02.pool"].key(course, learner)
    return Commitments(learner, {"percent": 90}, {"cause": cause, "events": sorted(shows)[:3]})


def secret_numbers(course):
    rules = course.rules["02.pool"]
    programs = [graded_case(course.graded("02.pool", n), rules)[0] for n in range(12)]
    return {t.size for p in programs for t in p.tensors} | {p.capacity for p in programs}


POOL = Sheet(
    "02.pool",
    MyPool,
    {
        "exact-size-only": Wrong(ExactSizeOnly, 0.3, 0.3, "exact-size-only"),
        "any-bigger": Wrong(AnyBigger, 0.3, 0.3, "any-bigger"),
        "other-stream-race": Wrong(OtherStreamRace, 0.0, 0.2, "other-stream-race"),
        "never-trims": Wrong(NeverTrims, 0.3, 0.3, "never-trims"),
        "power-of-two": Wrong(PowerOfTwo, 0.3, 0.3, "power-of-two"),
        "frees-at-once": Wrong(FreesAtOnce, 0.3, 0.3, "frees-at-once"),
        "keeps-everything": Wrong(KeepsEverything, 0.0, 0.2, "over-limit"),
        "held-twice": Wrong(ForgetsToStrikeOff, 0.0, 0.2, "held-twice"),
        "own-stream-only": Wrong(OwnStreamOnly, 0.5, 0.7, "own-stream-only"),
    },
    said=said,
    stub=Stub,
    constants=(AlwaysGrows, NamesNothing, FirstChunk),
    shortcuts=(OverBooks, AroundCuPy),
    secret_numbers=secret_numbers,
)

SHEETS = [POOL]
