"""What a learner's kernel left in a notebook, made into what can be written and read, without any mark of its own."""

_HIGHEST = 1_000_000  # no cell has run as often


def settle(nb) -> None:
    """Make ``nb`` one that can be written, whatever messages its kernel sent; ``gpulab`` in an output is the judge's.

    nbclient checks the form of outputs, but takes the number of a cell as it comes, and half characters. A notebook
    that cannot be written would be a failure of ours, and nobody's mark.
    """
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        count = cell.get("execution_count")
        cell["execution_count"] = count if type(count) is int and 0 < count < _HIGHEST else None
        for output in cell.outputs:
            output.get("metadata", {}).pop("gpulab", None)
        cell["outputs"] = _whole(cell.outputs)


def _whole(part):
    """``part`` with '?' for half characters, which no file can hold, in all its texts and names."""
    if isinstance(part, str):
        return part.encode(errors="replace").decode()
    if isinstance(part, dict):
        return type(part)({_whole(name): _whole(value) for name, value in part.items()})
    return [_whole(item) for item in part] if isinstance(part, list) else part
