"""What a learner's kernel left in a notebook, made into what can be written and read, without any mark of its own."""

from nbformat.v4 import new_output
from nbformat.v4.nbbase import validate
from nbformat.validator import ValidationError

_NO_OUTPUT = "An output stood here that is none: its message had not the form that Jupyter's have.\n"
_HIGHEST = 1_000_000  # no cell has run as often


def settle(nb) -> None:
    """Make ``nb`` valid whatever messages its kernel sent; ``gpulab`` in an output's metadata is the judge's alone.

    nbclient takes the number of a cell and the update of a display as they come. A notebook that cannot be written
    would be a failure of ours, and nobody's mark.
    """
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        count = cell.get("execution_count")
        cell["execution_count"] = count if type(count) is int and 0 < count < _HIGHEST else None
        cell["outputs"] = [_settled(output) for output in cell.outputs]


def _settled(output):
    try:
        validate(output, output["output_type"])
    except (ValidationError, KeyError, TypeError, RecursionError):
        return new_output("stream", name="stderr", text=_NO_OUTPUT)
    if "gpulab" in output.get("metadata", {}):
        del output["metadata"]["gpulab"]
    return _without_halves(output)


def _without_halves(part):
    """``part`` with '?' for half characters, which no file can hold, in all its texts and names."""
    if isinstance(part, str):
        return part.encode(errors="replace").decode()
    if isinstance(part, dict):
        return type(part)({_without_halves(name): _without_halves(value) for name, value in part.items()})
    return [_without_halves(item) for item in part] if isinstance(part, list) else part
