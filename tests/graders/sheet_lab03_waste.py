"""The sheet of 03.waste: each misconception is written out as somebody would write it."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab03_blocks import reserve
from autograder.verdict import Commitments
from gpulab.datasets import Request
from gpulab.memory.arena import buddy_size
from gpulab.memory.block_table import BlockTable
from gpulab.memory.reservation import reserved_slots


def said(course, learner):
    cause, shows = exercises()["03.waste"].key(course, learner)
    predicted = {"max_percent": 20, "pow2_percent": 27, "oracle_percent": 38, "paged_percent": 96}
    return Commitments(learner, predicted, {"cause": cause, "events": sorted(shows)[:2]})


def with_paged(paged):
    """The reference but for its plan paged, which is ``paged(tokens, block)``."""

    def wrong(plan, request, rules):
        if plan == "paged":
            return paged(request["prompt"] + request["output_so_far"], rules["block"])
        return reserve(plan, request, rules)

    return wrong


def in_one_stretch(size):
    """The reference but for how large a stretch is that makes room for tokens: ``size(tokens, unit)``."""

    def wrong(plan, request, rules):
        prompt, output = request["prompt"], request["output"]
        wanted = {"max": rules["max_len"], "oracle": prompt + output, "pow2": prompt + buddy_size(output)}
        return size(wanted[plan], rules["unit_tokens"]) if plan in wanted else reserve(plan, request, rules)

    return wrong


def pow2_of_sum(plan, request, rules):
    return reserve("oracle" if plan == "pow2" else plan, request, rules)


def max_is_output(plan, request, rules):
    longest = rules["max_len"] + request["prompt"] * (plan == "max")
    return reserve(plan, request, rules | {"max_len": longest})


def paged_knows_output(plan, request, rules):
    return reserve(plan, request | {"output_so_far": request["output"]}, rules)


def paged_in_one_stretch(plan, request, rules):
    if plan == "paged":
        return reserve("oracle", request | {"output": request["output_so_far"]}, rules)
    return reserve(plan, request, rules)


def stub(plan, request, rules):
    raise NotImplementedError("yours to write")


def always(value):
    return lambda plan, request, rules: value


def reserved_slots_as_shipped(plan, request, rules):
    if plan == "paged":
        return BlockTable(rules["block"]).missing(request["prompt"] + request["output_so_far"])
    return reserved_slots(plan, Request(0, request["prompt"], request["output"]), rules["max_len"])


def reserved_slots_to_the_unit(plan, request, rules):
    if plan == "paged":
        return BlockTable(b := rules["block"]).missing(request["prompt"] + request["output_so_far"]) * b
    slots = reserved_slots(plan, Request(0, request["prompt"], request["output"]), rules["max_len"])
    return buddy_size(slots, rules["unit_tokens"])


def reserved_slots_in_units(plan, request, rules):
    if plan == "paged":
        return BlockTable(b := rules["block"]).missing(request["prompt"] + request["output_so_far"]) * b
    unit = rules["unit_tokens"]
    scaled = Request(0, -(-request["prompt"] // unit), -(-request["output"] // unit))
    return reserved_slots(plan, scaled, -(-rules["max_len"] // unit)) * unit


QUARTER, THREE = (0.25, 0.25), (0.75, 0.75)
SHEETS = [
    Sheet(
        "03.waste",
        reserve,
        {
            "no-buddy": Wrong(in_one_stretch(lambda n, unit: n), *QUARTER, "no-buddy"),
            "unit-one": Wrong(in_one_stretch(lambda n, unit: buddy_size(n)), *QUARTER, "unit-one"),
            "multiple-of-unit": Wrong(
                in_one_stretch(lambda n, unit: -(-n // unit) * unit), *QUARTER, "multiple-of-unit"
            ),
            "pow2-of-sum": Wrong(pow2_of_sum, *THREE, "pow2-of-sum"),
            "max-is-output": Wrong(max_is_output, *THREE, "max-is-output"),
            "rounds-down": Wrong(with_paged(lambda n, block: n // block * block), 0.0, 0.2, "rounds-down"),
            "one-too-many": Wrong(
                with_paged(lambda n, block: (n // block + 1) * block), *THREE, "one-too-many"
            ),
            "paged-knows-output": Wrong(paged_knows_output, *THREE, "paged-knows-output"),
            "paged-in-one-stretch": Wrong(paged_in_one_stretch, *THREE, "paged-in-one-stretch"),
        },
        said=said,
        stub=stub,
        constants=tuple(always(value) for value in (None, 0, 2048, 1 << 20, "0", True, 1.5)),
        shortcuts=(reserved_slots_as_shipped, reserved_slots_to_the_unit, reserved_slots_in_units),
    )
]
