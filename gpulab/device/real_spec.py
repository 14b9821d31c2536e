"""A spec for a device that was found: what it says of itself, and for the rest the board most like it."""

from dataclasses import replace

from gpulab.device.spec import CONSTANTS, Spec, load, names

# Keys of CuPy's getDeviceProperties (cudaDeviceProp) by constant, with what one of them counts.
_TOLD = {
    "memory_bytes": ("totalGlobalMem", 1),
    "sms": ("multiProcessorCount", 1),
    "max_threads_per_sm": ("maxThreadsPerMultiProcessor", 1),
    "max_blocks_per_sm": ("maxBlocksPerMultiProcessor", 1),
    "shared_bytes_per_sm": ("sharedMemPerMultiprocessor", 1),
    "l2_bytes": ("l2CacheSize", 1),
    "copy_engines": ("asyncEngineCount", 1),
}


def real_spec(properties: dict, driver: str) -> Spec:
    """The spec of the device with these ``cudaDeviceProp``; each source says what was taken from which board.

    The board most like it is the one of its name, else of its compute capability with the nearest number
    of multiprocessors, else the nearest of all.
    """
    raw = properties.get("name", b"")
    name = raw.decode() if isinstance(raw, bytes) else str(raw)
    capability = f"{properties.get('major', 0)}.{properties.get('minor', 0)}"
    sms = properties.get("multiProcessorCount", 0)
    boards = [load(board) for board in names()]
    like = min(boards, key=lambda b: (b.name != name, b.compute_capability != capability, abs(b.sms - sms)))
    told = {
        key: properties[source] * unit
        for key, (source, unit) in _TOLD.items()
        if properties.get(source, 0) > 0
    }
    if "memory_bytes" in told:
        told["reserved_bytes"] = 0  # totalGlobalMem is without what the driver keeps
    sources = {
        key: "[M] device properties"
        if key in told
        else f"[D] not measured here, as {like.name}: {like.sources[key]}"
        for key in CONSTANTS
    }
    return replace(
        like, name=name, compute_capability=capability, driver=driver, date="", sources=sources, **told
    )
