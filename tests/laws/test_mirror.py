"""What a policy sees in the learner's process is what the engine shows, and asking it there changes nothing."""

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from autograder.asked import AskedPolicy
from autograder.channel import InProcess
from gpulab.serving.engine import Engine
from gpulab.serving.policy import JobView, Policy

sys.path.insert(0, str(Path(__file__).parent))
from test_serving import CROWDED, POLICIES, loads

JOB = [name for name, item in vars(JobView).items() if isinstance(item, property)]
VIEW = ("now_ns", "decoding", "free_blocks", "next_blocks", "need_blocks")
VIEW += ("token_budget", "max_jobs", "block_tokens")


def seen(view):
    """All that ``view`` shows."""
    lines = [
        [[getattr(job, name) for name in JOB] + [repr(job)] for job in line]
        for line in (view.waiting, view.running)
    ]
    return (
        [getattr(view, name) for name in VIEW],
        lines,
        [view.blocks_to_admit(job) for job in view.waiting],
        [len(view.waiting), len(view.running), [view.running[n].id for n in range(len(view.running))]],
    )


class Both(Policy):
    """Notes what the engine shows before ``policy`` is asked."""

    def __init__(self, policy, shown):
        self.policy, self.shown = policy, shown
        self.mixes, self.reserves = policy.mixes, policy.reserves

    def decide(self, view):
        self.shown.append(seen(view))
        return self.policy.decide(view)


def asked(load, name):
    """The ledger of a run whose policy is asked through the channel; each view as shown and as mirrored."""
    trace, board, limits = load
    shown, mirrored = [], []
    asker = InProcess(lambda: Both(POLICIES[name](), mirrored))
    asker.new({}, "view")
    try:
        return Engine(board, Both(AskedPolicy(asker, 0, {}), shown), **limits).run(trace), shown, mirrored
    finally:
        asker.close()


@given(loads(), st.sampled_from(sorted(POLICIES)))
def test_the_mirror_shows_at_each_question_what_the_engine_shows_and_the_ledger_is_the_same(load, name):
    same(load, name)


@given(CROWDED, st.sampled_from(("aging", "preemptive EDF", "quanta", "swapping", "feedback")))
def test_so_it_does_while_a_policy_puts_out_by_both_ways_and_wakes_by_itself(load, name):
    same(load, name)


def same(load, name):
    ledger, shown, mirrored = asked(load, name)
    assert mirrored == shown
    trace, board, limits = load
    assert ledger == Engine(board, POLICIES[name](), **limits).run(trace)
