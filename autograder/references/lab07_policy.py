"""The reference of 07.policy: refuse early, short prompts first, and chunks as long as the pause allows now."""

from gpulab.serving import cost
from gpulab.serving.policies.choosing import relieve
from gpulab.serving.policy import Policy

IDLE_NS = 20_000_000_000  # batch goes first when it has made no token for so long
SPARE = 6  # blocks that each running answer will want
HEAVY = {"chat": 3, "code": 2}  # a token of chat's prompts brings half as much again


class Mine(Policy):
    def __init__(self, rules):
        self.rules, self.cost = rules, cost.load("llama3-8b-a100")
        self.host_ns = 0  # what the host adds to a step, as last measured
        self.begun = None  # when the last step with chunks began, and what it should have taken
        self.batch_ns = 0  # when batch last got anywhere

    def decide(self, view):
        if self.begun:
            since, alone_ns = self.begun
            self.host_ns = max(0, view.now_ns - since - alone_ns)
            self.begun = None
        if view.need_blocks:
            return relieve(view, sorted(view.running, key=lambda job: self.line(job, view), reverse=True))
        late = [job.id for job in view.waiting if self.late(job, view)]
        here = [job for job in (*view.running, *view.waiting) if job.id not in late and not job.decoding]
        return {**self.fill(view, sorted(here, key=lambda job: self.line(job, view))), "reject": late}

    def line(self, job, view):
        """Batch last, unless it has stood still; then by what is left to compute for what it brings."""
        if job.tenant == "batch":
            first = view.now_ns - max(self.batch_ns, job.arrival_ns) > IDLE_NS
            return 0 if first else 2, job.arrival_ns, job.id
        return 1, (job.target - job.computed) / HEAVY[job.tenant], job.id

    def late(self, job, view):
        """Would its first token come too late, even if it were served alone from now on?"""
        if job.tenant == "batch" or job.evictions:
            return False
        alone_ns = self.cost.step_ps(job.target, 0, job.target**2) // 1000
        return view.now_ns + alone_ns > job.arrival_ns + self.rules[f"{job.tenant}_first_ns"]

    def fill(self, view, order):
        decodes = [job for job in view.running if job.decoding]
        chats = any(job.tenant == "chat" for job in decodes)
        most_ns = self.rules["pause_ns"] - self.host_ns if chats else 10**12
        tokens, cached, work = len(decodes), sum(job.computed for job in decodes), 0
        spare = SPARE * len(decodes)
        free, seats = view.free_blocks - view.next_blocks - spare, view.max_jobs - len(view.running)
        admit, prefill = [], {}
        for job in order:
            need = 0 if job.left else view.blocks_to_admit(job)
            if not job.left and (need > free or not seats):
                continue
            most = min(job.target - job.computed, view.token_budget - tokens)

            def takes_ns(chunk, job=job, tokens=tokens, work=work):
                more = chunk * (2 * job.computed + chunk)
                return self.cost.step_ps(tokens + chunk, cached, work + more) // 1000

            chunk = most if takes_ns(most) <= most_ns else 0
            step = 1 << max(0, most.bit_length() - 1)
            while step and chunk < most:  # the longest chunk that is not too long, bit by bit
                if chunk + step <= most and takes_ns(chunk + step) <= most_ns:
                    chunk += step
                step //= 2
            if chunk <= 0:
                break
            if not job.left:
                admit.append(job.id)
                free, seats = free - need, seats - 1
            prefill[job.id] = chunk
            tokens, work = tokens + chunk, work + chunk * (2 * job.computed + chunk)
            if job.tenant == "batch":
                self.batch_ns = view.now_ns
        if prefill:
            self.begun = view.now_ns, self.cost.step_ps(tokens, cached, work) // 1000
        return {"admit": admit, "prefill": prefill}
