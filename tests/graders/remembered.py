"""What plans of 07.plan reached, remembered: six simulated minutes take half a second, and many are played twice."""

import json

from autograder.checks.lab07 import planning

_REACHED: dict[tuple, dict] = {}
_play = planning.reached


def reached(case, plan, draw, shift):
    """``planning.reached``; equal plans on equal traces reach the same."""
    key = repr(case), json.dumps([plan["devices"], plan["router"]]), draw.getstate(), shift
    if key not in _REACHED:
        _REACHED[key] = _play(case, plan, draw, shift)
    return _REACHED[key]
