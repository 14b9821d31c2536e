"""Lab 04: the reference of 04.deadline."""


def decide(view) -> dict:
    """Whoever breaks a promise, its own or another's, is turned away as it comes; the rest go by deadline."""
    kept, refused = [], []
    for job in view.waiting:  # in order of arrival
        if job.arrival_ns < view.now_ns or in_time(view.free_ns, [*kept, job]):
            kept.append(job)
        else:
            refused.append(job.id)
    kept.sort(key=lambda job: job.deadline_ns)
    return {"admit": [] if view.running else [job.id for job in kept[:1]], "reject": refused}


def in_time(free_ns: int, jobs: list) -> bool:
    """Is each first token there by its deadline, if the server is free from then on?"""
    for job in sorted(jobs, key=lambda job: job.deadline_ns):
        free_ns += job.prompt_ns
        if free_ns > job.deadline_ns:
            return False
    return True
