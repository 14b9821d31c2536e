"""The commands of ``gpulab``. One file per command; this page only lists them.

A new command: write ``gpulab/cli/NAME.py`` with a function ``NAME``, import it and add one line below. Heavy
imports go inside the function, so that ``gpulab --help`` stays quick.
"""

import typer

from gpulab.cli import (
    bench,
    calibrate,
    capacity,
    compare,
    doctor,
    explain,
    fidelity,
    fit,
    lab,
    monitor,
    published,
    replay,
    report,
    sensitivity,
    simulate,
    swap,
)
from gpulab.cli.serving_options import Served, command
from gpulab.cli.sweeping import Sweeping

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="GPU allocation and scheduling for AI serving: labs, replays and a look at this machine.",
)
app.command()(doctor.doctor)
app.command()(replay.replay)
app.command()(published.published)
app.command()(monitor.monitor)
app.command()(calibrate.calibrate)
app.command()(explain.explain)
app.command()(command(simulate.simulate, Served, simulate.Simulated))
app.command()(command(compare.compare, Served, compare.Compared, Sweeping))
app.command()(command(capacity.capacity, Served, capacity.Sought, Sweeping))
app.command()(command(swap.swap, Served, swap.Swapping, Sweeping))
app.command()(report.report)
app.command()(fit.fit)
app.command()(fidelity.fidelity)
app.command()(sensitivity.sensitivity)
app.command()(bench.bench)
# What typer does not know is JupyterLab's: `gpulab lab --ServerApp.ip=0.0.0.0` goes through.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab.lab)
