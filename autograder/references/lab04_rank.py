"""Lab 04: the reference of 04.rank."""


def rank(job, rules) -> float:
    """The lowest goes first: tokens left by the guess, less what its waiting is worth; the common now is left out."""
    guess = job.predicted_tokens or rules.usual_tokens
    left = max(0, guess - job.generated)
    return left + rules.age_tokens * job.arrival_ns / 1e9
