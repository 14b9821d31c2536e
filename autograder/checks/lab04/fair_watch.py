"""What is watched before 04.fair: first come, first served, and which grants show who is ahead."""

from autograder.checks.lab04.fair_cases import first_come
from autograder.checks.lab04.fair_server import Case
from gpulab.telemetry.events import Granted


def telling(case: Case) -> bool:
    """Can it be seen who got most, and are there a few grants that show it, the last one among them?"""
    server = first_come(case)
    second, first = sorted(server.rule.counter.values())[-2:]
    most, shows = evidence(case)
    serials = server.ledger.serials(Granted)
    last = max(serial for serial, turn in zip(serials, server.turns, strict=True) if turn.client == most)
    return 100 * first > 115 * second and 3 <= len(shows) <= 15 and last in shows


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
