"""Who holds which bytes: allocators, arenas, pools, replays, snapshots; `record` watches real CuPy code."""

from gpulab.memory.recording import record

__all__ = ["record"]
