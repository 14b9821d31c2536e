"""The staff's solution of lab 07: a plan and a policy."""

import math

from autograder.checks.lab07.case import Case
from autograder.checks.lab07.planning import facts
from gpulab.serving.cost import StepCost
from gpulab.serving.policies.choosing import fitting, relieve
from gpulab.serving.policy import JobView, Policy, View
from gpulab.units import MS

STEP_NS = 44 * MS  # of the 50 that a token may take: chunks of long prompts cost more than their tokens


class StaffPolicy(Policy):
    """The earliest deadline first, batch in what is left, late ones refused, and steps that never last too long.

    A step with a chunk is one step: what it took longer than the formula says is the host's part, seen as it changes.
    """

    def __init__(self, cost: StepCost, learns: bool = True) -> None:
        self.cost, self.learns = cost, learns
        self.host_ns, self.planned = 0, None

    def decide(self, view: View) -> dict:
        self._learn(view)
        if view.need_blocks:
            return relieve(view, sorted(view.running, key=self._due, reverse=True))
        cached = sum(job.computed for job in view.running if job.decoding)
        budget = min(view.token_budget, self._tokens(cached)) - view.decoding
        said = {"admit": [], "prefill": {}, "reject": []}
        work, left = 0, budget
        prompts = sorted((job for job in view.running if job.left and not job.ready_ns), key=self._due)
        late, order = [], []
        for job in sorted(view.waiting, key=self._due):
            (late if self._late(job, view, max(64, budget)) else order).append(job)
        said["reject"] = [job.id for job in late]
        queue = sorted([*prompts, *fitting(view, order, view.next_blocks)], key=self._due)
        for job in queue:
            if left <= 0:
                break
            todo = job.left if job.blocks else job.target - job.computed
            if not job.blocks:
                said["admit"].append(job.id)
            if todo:
                chunk = said["prefill"][job.id] = min(todo, left)
                work += chunk * (2 * job.computed + chunk)
                left -= chunk
        chunks = sum(said["prefill"].values())
        self.planned = None
        if chunks:
            step = self.cost.step_ps(chunks + view.decoding, cached, work) // 1000
            self.planned = view.now_ns, step
        return said

    def _learn(self, view: View) -> None:
        if self.planned and self.learns:
            began, step = self.planned
            self.host_ns = max(0, view.now_ns - began - step)

    def _tokens(self, cached: int) -> int:
        """Tokens of a step that lasts STEP_NS with the host's part."""
        left = (STEP_NS - self.host_ns) * 1000 - self.cost.constant_ps - self.cost.cached_token_ps * cached
        square = left * left - self.cost.weights_ps**2 if left > 0 else 0
        return max(64, math.isqrt(max(0, square)) // self.cost.token_ps)

    def _due(self, job: JobView) -> tuple:
        return job.deadline_ns == 0, job.deadline_ns, job.arrival_ns, job.id

    def _late(self, job: JobView, view: View, budget: int) -> bool:
        if not job.deadline_ns or job.generated:
            return False
        return view.now_ns + -(-job.target // budget) * (STEP_NS - 4 * MS) > job.deadline_ns


def plan(case: dict) -> dict:
    """Everybody everywhere; code and batch with few blocks, so that their prompts never stand long before a chat."""
    room = case["memory_bytes"] - case["weights_bytes"] - case["context_bytes"]
    whole = room // case["block_bytes"]
    code = case["tenants"]["code"]["longest_blocks"] * 9 // 4  # two of its longest at a time
    batch = case["tenants"]["batch"]["longest_blocks"] * 9 // 8
    serves = {"chat": whole - code - batch, "code": code, "batch": batch}
    return {
        "devices": [{"serves": serves, "max_jobs": case["most_jobs"]}] * case["devices"],
        "router": "least-outstanding",
        "expect": {
            "chat": 94.5,
            "code": 68,
            "batch": 97,
        },  # code by the trace's luck: 64 to 91 over 40 courses
    }


def staff_plan(case: Case) -> dict:
    """The staff's plan of ``case``."""
    return plan(facts(case))
