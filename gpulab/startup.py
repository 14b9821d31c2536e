"""What a process does before its heavy imports. The one place that reaches into ``sys.modules``."""

import sys


def skip_slow_grammar() -> bool:
    """True when the slow URI grammar will stay unloaded in this process; False: it is loaded already.

    ``jsonschema`` (which altair, nbformat, nbclient and nbgrader import) tries to import
    ``rfc3987_syntax``, and that builds an Earley grammar with ``lark`` at import: about 0.75 s of every
    Python start. jsonschema guards the import, so a ``None`` in ``sys.modules`` makes it go on without.

    What is lost in this process: jsonschema's checks of the formats ``iri`` and ``iri-reference``, which
    neither a notebook nor a chart uses. The test run calls it through ``gpulab/quiet_start.py``. Call it before the first import of jsonschema; a second call
    changes nothing. Source: jsonschema's ``_format.py``, where the import is optional.
    """
    return sys.modules.setdefault("rfc3987_syntax", None) is None
