"""What ``gpulab fit`` writes and tells: the model's sizes by name, the spec file, the fit as plain values."""

import json
from datetime import UTC, datetime
from pathlib import Path

from gpulab.cli.pairs import WINDOWS, Pair
from gpulab.errors import SpecFault
from gpulab.serving import fit as fitting
from gpulab.serving.profiles import SHAPES, Shape


def shape_of(text: str) -> tuple[str, Shape]:
    """The name and the sizes of a model; ``SpecFault`` lists the names there are."""
    name, _, sizes = text.partition("=")
    numbers = [int(part) for part in sizes.split(",") if part.strip().isdecimal()]
    if len(numbers) == 6 and all(numbers):
        return name, Shape(*numbers)
    if sizes or name not in SHAPES:
        raise SpecFault(
            f"There is no model {text!r}; there are: {', '.join(SHAPES)}. For another one give --model "
            f"NAME=layers,heads,kv_heads,head_dim,hidden,inner, six whole numbers."
        )
    return name, SHAPES[name]


def spec_of(pair: Pair, shape: Shape, found: fitting.Fitted, files: tuple[Path, ...]) -> str:
    """The text of the file that ``gpulab.serving.cost.load`` reads: whole picoseconds, and whence they come."""
    published, whence = WINDOWS.get(pair.model, (0, ""))
    window = pair.window_tokens or published
    note = f"{pair.note}; window: {whence}" if whence and window == published else pair.note
    newest = max(path.stat().st_mtime for path in files)
    a, w, g, e, c = (round(value * 1e9) for value in found.bent.coefficients)
    rows = {
        **{"model": pair.model, "gpu": pair.gpu},
        **{"constant_ps": a, "weights_ps": w, "token_ps": g, "cached_token_ps": e, "square_token_ps": c},
        **{"host_ns": pair.host_ns, "kv_blocks": pair.kv_blocks, "block_tokens": 16},
        "kv_bytes_per_token": shape.kv_bytes_per_token,
        **{"most_tokens": found.most_tokens, "most_cached_tokens": found.most_cached_tokens},
        "window_tokens": window,
        "badge": f"fitted to measured kernels, held-out error {found.bent.error:.1%}",
        "date": pair.date or datetime.fromtimestamp(newest, UTC).date().isoformat(),
        "source": f"{', '.join(path.name for path in files)}; {note}",
    }
    return "".join(
        f"{name} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else f'{value:_}'}\n"
        for name, value in rows.items()
    )


def told(name: str, gpu: str, found: fitting.Fitted, files: tuple[Path, ...]) -> dict:
    """The fit as plain values: coefficients in milliseconds, errors as shares."""
    return {
        "model": name,
        "gpu": gpu,
        "files": [path.name for path in files],
        "fitted_batches": fitting.FITTED,
        "held_out_batches": fitting.BATCHES - fitting.FITTED,
        "held_out": {
            which: {
                "coefficients_ms": form.coefficients,
                "mape": form.error,
                "p90": form.p90,
                "max": form.worst,
            }
            for which, form in (("bent", found.bent), ("linear", found.linear))
        },
        "most_tokens": found.most_tokens,
        "most_cached_tokens": found.most_cached_tokens,
    }
