"""Lab 04: the reference of 04.batching."""


def refill(running: list[int], waiting: list[int], slots: int, finished: list[int]) -> list[int]:
    """The jobs of the next step: who is not done, and as many of the first who wait as there are empty slots."""
    staying = [job for job in running if job not in finished]
    return staying + waiting[: slots - len(staying)]
