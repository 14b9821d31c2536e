"""Imported for its effect alone: ``pytest -p gpulab.quiet_start`` comes before every installed plugin.

nbval's plugin imports jsonschema while pytest starts, earlier than any conftest could step in.
"""

from gpulab.startup import skip_slow_grammar

skip_slow_grammar()
