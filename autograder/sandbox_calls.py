"""A seccomp filter: system calls that no lab needs and that go past the other walls or weaken them.

Memory that no limit counts (memfd, System V), ways into other processes, and parts of the kernel that are large and
rarely used from Python. Numbers: the kernel's unistd.h for x86-64, and the generic one that aarch64 uses.
"""

import ctypes
import errno
import os
import struct

_REFUSED = {  # name: (x86-64, aarch64)
    "add_key": (248, 217),
    "bpf": (321, 280),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "shmget": (29, 194),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Refused for some arguments only: socket, setsockopt, fcntl.
_SOCKET, _SET_OPTION, _CONTROL = (41, 198), (54, 208), (72, 25)
_FAMILIES = (1, 2, 10, 16)  # Unix, IP, IPv6, netlink: others may know no network namespace
_BUFFERS = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and both _FORCE: no limit counts what is in one
_PIPE_SIZE = (1031,)  # F_SETPIPE_SZ
_MACHINES = {"x86_64": (0, 0xC000003E, 157), "aarch64": (1, 0xC00000B7, 167)}  # column, AUDIT_ARCH, prctl
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # classic BPF
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
# Offsets in seccomp_data, little-endian; an argument has 8 bytes.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32 = 0x40000000  # the second set of numbers that x86-64 has
_SET_SECCOMP, _MODE_FILTER, _SET_PDEATHSIG = 22, 2, 1


def refuse_calls() -> bool:
    """From now on the calls of the list fail with ``EPERM``, for this thread and all it starts.

    False, and nothing is refused, on a machine whose numbers are not listed. ``no_new_privileges`` comes first.
    """
    if os.uname().machine not in _MACHINES:
        return False
    program = _program(*_MACHINES[os.uname().machine])
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    unused = ctypes.c_ulong(0)
    if libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), whole, unused, unused):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    return True


def _program(column: int, architecture: int, prctl: int) -> list[tuple[int, int, int, int]]:
    """Steps ``(code, jump if true, jump if false, value)``; a jump counts the steps that are left out."""
    numbers = sorted(pair[column] for pair in _REFUSED.values())
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for number in numbers:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    steps += _refusing(_SOCKET[column], 0, _FAMILIES, others=True)
    steps += _refusing(_SET_OPTION[column], 2, _BUFFERS)
    steps += _refusing(_CONTROL[column], 1, _PIPE_SIZE)
    # The signal that ends a kernel whose keeper is gone stays set.
    steps += [(_EQUAL, 0, 3, prctl), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 0, 1, _SET_PDEATHSIG)]
    return [*steps, (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]


def _refusing(number: int, argument: int, values: tuple[int, ...], *, others: bool = False) -> list[tuple]:
    """Steps that refuse call ``number`` where its argument is one of ``values``, or, with ``others``, none of them."""
    hit, missed = (_ALLOW, _REFUSE) if others else (_REFUSE, _ALLOW)
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [
        (_EQUAL, 0, len(values) + 3, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument),
        *tests,
        (_RETURN, 0, 0, missed),
        (_RETURN, 0, 0, hit),
    ]
