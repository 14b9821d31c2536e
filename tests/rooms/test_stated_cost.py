"""A price of a step that somebody states, part by part."""

import pytest

from gpulab.serving.cost import stated


def test_a_stated_price_is_what_was_said_and_nothing_else():
    cost = stated({"constant_ps": 5, "token_ps": 2})
    assert cost.step_ps(3, 100, 9) == 5 + 6
    assert cost.step_ps(0, 0) == 5
    assert (cost.host_ns, cost.kv_blocks, cost.block_tokens) == (0, 10_000, 16)
    assert stated({"cached_token_ps": 3, "square_token_ps": 4, "kv_blocks": 7}).step_ps(1, 10, 6) == 30 + 12


def test_a_part_that_no_price_has_is_refused():
    with pytest.raises(TypeError, match="speed"):
        stated({"speed": 1})
