"""``python -m gpulab``: the same commands as ``gpulab``, wherever the script folder is not on PATH."""

from gpulab.cli import app

app(prog_name="gpulab")
