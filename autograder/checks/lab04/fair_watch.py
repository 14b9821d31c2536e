"""What is watched before 04.fair: first come, first served, and which grants show who is ahead."""

from autograder.checks.lab04.fair_cases import first_come
from autograder.checks.lab04.fair_server import Case
from gpulab.telemetry.events import Granted


def evidence(case: Case) -> tuple[str, set[int]]:
    """Who is furthest above the others in the end, and grants to it made when it was a batch above one who waited."""
    server = first_come(case)
    most = max(case.shares, key=server.rule.counter.__getitem__)
    serials = server.ledger.serials(Granted)
    return most, {
        serial
        for serial, turn in zip(serials, server.turns, strict=True)
        if turn.client == most and turn.lead > case.limit
    }
