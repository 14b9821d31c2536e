"""Compiles CUDA C with NVIDIA's own run-time compiler, which needs neither a GPU nor a driver.

From the wheel ``nvidia-cuda-nvrtc`` (extra ``test``), by ctypes. Source of the calls: NVRTC documentation.
"""

import ctypes
from functools import cache
from importlib.metadata import files


class CompileFault(Exception):
    """NVRTC refused the source; the text is its log, one ``file(line): error: ...`` for each mistake."""


def compile_source(source: str, file_name: str, architecture: str) -> tuple[bytes, str]:
    """``(machine code, log)`` of ``source`` for ``architecture``, e.g. ``'sm_90'``."""
    library, program = _library(), ctypes.c_void_p()
    _ok(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file_name.encode(), 0, None, None))
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
        status = library.nvrtcCompileProgram(program, 1, options)
        log = _text(program, "ProgramLog").rstrip(b"\0").decode().strip()
        if status:
            raise CompileFault(log or _words(status))
        return _text(program, "CUBIN"), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def supported() -> list[str]:
    """The architectures that this NVRTC compiles for, e.g. ``['sm_75', ...]``."""
    library, count = _library(), ctypes.c_int()
    _ok(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _ok(library.nvrtcGetSupportedArchs(numbers))
    return [f"sm_{number}" for number in numbers]


@cache
def _library() -> ctypes.CDLL:
    found = [file for file in files("nvidia-cuda-nvrtc") or () if file.name.startswith("libnvrtc.so")]
    library = ctypes.CDLL(str(found[0].locate()))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _ok(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _ok(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _words(status: int) -> str:
    return _library().nvrtcGetErrorString(status).decode()


def _ok(status: int) -> None:
    if status:
        raise CompileFault(_words(status))
