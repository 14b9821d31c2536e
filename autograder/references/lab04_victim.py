"""Lab 04: the reference of 04.victim."""


def victim(view) -> list:
    """The cheapest of those who are enough alone, in its cheaper mode; if nobody is, the one that frees most."""

    def frees(job) -> int:
        alone = not any(o.prefix == job.prefix and o.id != job.id for o in view.running)
        return job.own_blocks + job.prefix_blocks * alone

    freeing = [job for job in view.running if frees(job)]
    due = [job for job in freeing if not job.evictions or job.since_tokens >= view.grace_tokens]
    may = due or freeing or view.running
    enough = [job for job in may if frees(job) + 1 >= view.need_blocks]
    if enough:
        chosen = min(enough, key=lambda job: (min(job.recompute_ns, job.swap_ns), job.id))
    else:
        chosen = max(may, key=lambda job: (frees(job), -min(job.recompute_ns, job.swap_ns), -job.id))
    return [chosen.id, "recompute" if chosen.recompute_ns <= chosen.swap_ns else "swap"]
