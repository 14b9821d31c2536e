"""The inputs of 02.pool, drawn.

A program repeats its layers step by step, with other sizes each time, as batches of real lengths do. At
half time the work changes: what was cached for it until then is of little use any more.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from autograder.checks.lab02.pool_run import (
    DevicePool,
    Program,
    StepPool,
    Tensor,
    calls_ns,
    opened,
    play,
    stepped,
)
from gpulab.memory.extent import ALIGNMENT
from gpulab.units import US, GiB

STEPS, LAYERS = 14, 12  # 168 tensors: with frees and trims about 370 questions


def graded_case(draw: Random, rules: dict) -> tuple[Program, int, int]:
    """A program, and what the naive plan and the reference spend on it; the reference at most half as much."""
    while True:
        program = drawn(draw, rules, STEPS, LAYERS)
        naive_ns, best_ns = times(program, rules)
        if 2 * best_ns <= naive_ns:
            return program, naive_ns, best_ns


def times(program: Program, rules: dict) -> tuple[int, int]:
    """What the naive plan and the reference spend in the pool's calls on ``program``."""
    naive, best = (calls_ns(program.run(kind, rules)) for kind in (DevicePool, StepPool))
    return naive, best


def small_case(draw: Random, rules: dict) -> Program:
    """A short program for feedback and practice."""
    return drawn(draw, rules, 4, 3)


def drawn(draw: Random, rules: dict, steps: int, layers: int, octaves: range = range(20, 24)) -> Program:
    """``steps`` rounds of ``layers`` tensors, on a device so small that the reference must trim.

    It has less than the reference would take of an endless one, and more than the reference ever holds.
    """
    while True:
        program = Program(64 * GiB, 0, layers, tuple(_tensors(draw, steps, layers, octaves)))
        program = replace(program, cache_bytes=_most_held(program) * draw.randrange(90, 130) // 100)
        held, reserved = _peaks(program, rules)
        capacity = held + (reserved - held) * draw.randrange(60, 90) // 100
        if reserved > held + held // 16:
            return replace(program, capacity=capacity // ALIGNMENT * ALIGNMENT)


def _tensors(draw: Random, steps: int, layers: int, octaves: range) -> Iterator[Tensor]:
    """Layers drawn at the start and at half time; each step gives each of them another size near its own.

    Three of four sizes lie in the lower half of a doubling, where a power of two strands a third and more.
    """
    for step in range(steps):
        if step in (0, steps // 2):
            work = [_layer(draw, octaves) for _ in range(layers)]
        for number, (octave, parts, stream, lasts) in enumerate(work):
            size = (parts + draw.randrange(-50, 51) << octave) // 1024
            at = step * layers + number
            yield Tensor(
                name=f"step {step} layer {number}",
                size=size // ALIGNMENT * ALIGNMENT,
                stream=stream ^ draw.randrange(2),
                start=at,
                end=at + lasts,
                work_ns=draw.randrange(20, 200) * US,
            )


def _layer(draw: Random, octaves: range) -> tuple[int, int, int, int]:
    """A layer's tensor: octave, size in 1,024ths of it, stream, and ticks until it is freed."""
    parts = draw.randrange(1090, 1400) if draw.randrange(4) else draw.randrange(1400, 1950)
    return octaves[draw.randrange(len(octaves))], parts, draw.randrange(2), draw.randrange(2, 8)


def _most_held(program: Program) -> int:
    most = held = 0
    changes = [(t.start, 1, stepped(t.size)) for t in program.tensors]
    changes += [(t.end, 0, -stepped(t.size)) for t in program.tensors]
    for _, _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def _peaks(program: Program, rules: dict) -> tuple[int, int]:
    """The most that the reference holds and takes of the device at once."""
    pool, held, reserved = opened(StepPool, program, rules), 0, 0
    for _ in play(program, pool):
        held, reserved = max(held, pool.used_bytes), max(reserved, pool.total_bytes)
    return held, reserved
