"""Published results about serving, computed by the serving engine with the reference policies: F3, F6, F7 and F8."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from gpulab.cli.published_row import Row
from gpulab.cli.run_b import scaled
from gpulab.memory.reservation import reserved_slots
from gpulab.mixes import chat_mix, exponential_lengths
from gpulab.report.account import Account
from gpulab.report.fairness import OUTPUT_WEIGHT, Gap
from gpulab.report.metrics import Distribution
from gpulab.report.served import Requests
from gpulab.report.tokens import Tokens
from gpulab.serving.cost import StepCost, load, opt_13b, stated
from gpulab.serving.engine import Engine
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.fair import VirtualTokens
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policy import Policy
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import Stepped
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND

PROMPT, DECODES, EVERY = (
    2_048,
    32,
    12,
)  # F7: a prompt of so many tokens beside so many decodes, each so many steps
LENGTH, POOL_TOKENS, UNTIL_S = 256, 10_000, 360  # F8: prompt and output, KV, and when arrivals end


def step_cost(**parts: int) -> StepCost:
    """A step that costs what ``parts`` say, fields of ``StepCost``, and nothing else."""
    return stated(parts)


def batching() -> Iterator[Row]:
    """F6: batches that start and end together against seats that are filled at once; exponential outputs.

    With a step that costs the same whatever is in it, a batch of B lasts as long as the longest of B answers, and the
    longest of B exponential ones is 1 + 1/2 + ... + 1/B times the mean: the speed-up. Orca's own 36.9 times is against
    another engine, FasterTransformer, on GPT-3 175B.
    """
    for seats, expected in ((8, 2.72), (32, 4.06)):
        outputs = exponential_lengths(200, 100 * seats)
        random.Random(f"batching/{seats}").shuffle(outputs)
        trace = Trace(Request(name, 0, 1, output, output) for name, output in enumerate(outputs))
        ends = [
            Engine(step_cost(constant_ps=10**10), policy, max_jobs=seats).run(trace).end_ns
            for policy in (RequestLevel(), Reserving())
        ]
        source, got = "Yu et al., Orca (OSDI 2022); harmonic number of B", round(ends[0] / ends[1], 2)
        yield Row("F6", f"speed-up, B = {seats}", source, expected, got, expected / 10)


def mix_served(plan: str) -> Ledger:
    """500 requests of the drawn chat mix on OPT-13B, with the 15,700 slots of an A100-40 (PagedAttention, table 1).

    ``plan`` is one of ``memory.reservation.PLANS``, and reserves what it does there, in blocks anywhere: the buddy's
    places are left out. What it reserves each client says; of *oracle* that is the answer's true length. Requests wait for blocks, and large batches make longer steps.
    """
    paged = plan == "paged"
    trace = Trace(
        Request(
            name,
            drawn.arrival_ns,
            drawn.prompt_tokens,
            drawn.output_tokens,
            0 if paged else reserved_slots(plan, drawn, PROMPT) - drawn.prompt_tokens,
        )
        for name, drawn in enumerate(chat_mix(500, max_tokens=PROMPT))
    )
    cost = replace(opt_13b(), kv_blocks=15_700 // 16)
    return Engine(cost, Chunked() if paged else Reserving(), token_budget=2 * PROMPT).run(trace)


def slots_in_use(ledger: Ledger) -> float:
    """% of the reserved KV slots of ``mix_served`` that hold a token."""
    terms = Account(ledger, "kv→extent")()
    held = sum(
        (fact.end_of(step + 1) - fact.end_of(step)) * (fact.kv_tokens + step * fact.jobs)
        for fact in ledger.of(Stepped)
        for step in range(fact.steps)
    )
    return round(100 * held / (opt_13b().block_tokens * (terms.used + terms.stranded)), 2)


def stall_free() -> Iterator[Row]:
    """F7: the time between two tokens of 32 decodes of about 500 tokens, while prompts of 2,048 are computed.

    Whole, a prompt stops the decodes for a step. In chunks, a step is a decode step and a chunk: 34.9 + 0.14051 c +
    8.08e-6 c² for the first c tokens. Later chunks look back at those before them: the last one adds 8.08e-6 of
    2,048² - (2,048 - c)² instead of c², which is the 99th percentile.
    """
    formula = "DistServe, OPT-13B on A100-80"
    paper = "Agrawal et al., Sarathi-Serve (OSDI 2024), by DistServe's OPT-13B"
    whole = Distribution.of(gaps(beside_prompts(PrefillFirst(), DECODES * 500)))
    yield Row("F7", "ms between tokens, no prompt", formula, 34.9, _ms(whole.percentile(50)), 3.49)
    yield Row("F7", "p99 of them, whole prompts", paper, 378.6, _ms(whole.percentile(99)), 37.86)
    for chunk, first, last in ((512, 109.0, 121.7), (256, 71.4, 78.8)):
        found = Distribution.of(gaps(beside_prompts(Chunked(), DECODES + chunk)))
        mixed = min(gap for gap in found.counts if gap > whole.percentile(50) * 3 // 2)
        yield Row("F7", f"beside a first chunk of {chunk}", paper, first, _ms(mixed), first / 10)
        got = _ms(found.percentile(99))
        yield Row("F7", f"p99, chunks of {chunk}", f"{formula}, looking back", last, got, last / 10)


def beside_prompts(policy: Policy, token_budget: int) -> Ledger:
    """32 decodes, and a prompt every 12 steps or so.

    The decodes share the first 448 tokens, so that they decode soon, whatever the policy.
    """
    cost, prompt = opt_13b(), tuple(range(28))
    alone_ps = cost.step_ps(PROMPT, 0, PROMPT * PROMPT) - cost.constant_ps
    every_ns = (EVERY * cost.step_ps(DECODES, DECODES * 500) + alone_ps) // 1_000
    first = Request(0, 0, 449, 100, prefix=prompt)
    others = [Request(name, 300 * MS, 449, 100, prefix=prompt) for name in range(1, DECODES)]
    prompts = [Request(100 + n, 600 * MS + n * every_ns, PROMPT, 1) for n in range(6)]
    return Engine(cost, policy, token_budget=token_budget).run(Trace([first, *others, *prompts]))


def gaps(ledger: Ledger) -> list[int]:
    """Nanoseconds between the tokens of the decodes of ``beside_prompts``, while all of them decode."""
    ends = [
        fact.end_of(step)
        for fact in ledger.of(Stepped)
        if fact.jobs == DECODES
        for step in range(1, fact.steps + 1)
    ]
    return [after - before for before, after in pairwise(ends)]


def fair_service() -> Iterator[Row]:
    """F8: clients that send 1.5 and 3 requests a second, 256 tokens in and out, to a server that serves 1.7.

    Service is prompt tokens and twice the output. The artefact ran Llama-2-7B on an A10G with 10,000 tokens of KV: here
    are the kernels of Llama-2-7B on an A100-80, slower by the quotient of the memory bandwidths, 2,039 and 600 GB/s
    (NVIDIA's data sheets), and as many seats as the KV has room for whole requests. Nothing is fitted to the artefact.
    """
    source = "Sheng et al., VTC (OSDI 2024), artefact, overload"
    (came, _), (fair, largest) = service(overload(Chunked())), service(overload(VirtualTokens()))
    total, gap = sum(came.values()), came["heavy"] - came["light"]
    bound = 2 * max(LENGTH, OUTPUT_WEIGHT * POOL_TOKENS)
    for what, expected, got, tolerance in (
        ("service a second", 1_315, round(total / UNTIL_S), 131.5),
        ("gap after 360 s, first come first served", 157_464, gap, 15_746),
        ("% of all service that is", 33.3, round(100 * gap / total, 1), 3.3),
        (f"largest gap, VTC; 2 max(w_p L, w_q M) = {bound:,}", 7_926, largest, bound - 7_926),
        ("service under VTC, % of first come", 100, round(100 * sum(fair.values()) / total, 1), 3),
    ):
        yield Row("F8", what, source, expected, got, tolerance)


def overload(policy: Policy) -> Ledger:
    """The overload run as it stands after 360 s, with most requests waiting."""
    cost = replace(scaled(load("llama2-7b-a100"), 2_039 / 600), kv_blocks=POOL_TOKENS // 16)
    sent = sorted(
        (n * SECOND * 2 // halves, client)
        for client, halves in (("light", 3), ("heavy", 6))
        for n in range(UNTIL_S * halves // 2)
    )
    engine = Engine(cost, policy, max_jobs=POOL_TOKENS // (2 * LENGTH))
    for name, (arrival_ns, client) in enumerate(sent):
        engine.submit(Request(name, arrival_ns, LENGTH, LENGTH, tenant=client))
    engine.advance(UNTIL_S * SECOND)
    return engine.ledger


def service(ledger: Ledger) -> tuple[dict[str, int], int]:
    """What each client of ``overload`` was served, and the largest gap while both had requests waiting."""
    requests, tokens, gap = Requests(), Tokens(), Gap({"light", "heavy"})
    for serial, fact in enumerate(ledger):
        request = requests.note(serial, fact)
        tokens.note(fact, request)
        if request or type(fact) is Stepped:
            gap.note(tokens.service, requests.tenants_waiting)
    return dict(tokens.service), gap.largest


def _ms(time_ns: int) -> float:
    return round(time_ns / MS, 1)
