"""Linux system calls that Python has no name for, by ctypes: each does one thing or raises ``OSError``.

Numbers and structures are those of the kernel's own headers (unistd.h, mount.h, landlock.h, capability.h);
the calls from ``mount_setattr`` on have one number on every architecture.
"""

import ctypes
import fcntl
import os
import socket
import struct

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
NOSUID, NODEV = 0x2, 0x4

_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 0x1, 0x2, 0x4
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_IFF_UP, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x1, 0x8913, 0x8914

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, doing: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces that ``flags`` names for new ones; a new pid namespace begins with the next child."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """``mount(2)``."""
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    result = _libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None)
    _checked(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str, *, writable: bool = False) -> None:
    """Show ``source`` at ``target`` too: without set-user-id bits, and as read-only unless ``writable``."""
    mount(source, target, None, BIND | RECURSIVE)
    attributes = _ATTR_NOSUID | (0 if writable else _ATTR_RDONLY)
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, wanted, ctypes.c_size_t(len(wanted))
    )
    _checked(result, f"mount_setattr {target}")


def pivot_root(new: str, old: str) -> None:
    """The mount at ``new`` becomes the root; the former root is found at ``old``."""
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(f"pivot_root: its number on {machine} is not known here")
    _checked(_libc.syscall(_PIVOT_ROOT[machine], new.encode(), old.encode()), "pivot_root")


def detach(target: str) -> None:
    """Unmount ``target`` and all that is below it."""
    _checked(_libc.umount2(target.encode(), _MNT_DETACH), f"umount {target}")


def die_with_parent(signal_number: int) -> None:
    """Get ``signal_number`` when the parent ends."""
    _prctl(_SET_PDEATHSIG, signal_number, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Grandchildren whose parent has ended become children of this process."""
    _prctl(_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def be_dumpable() -> None:
    """Keep one's own /proc files after a change of user."""
    _prctl(_SET_DUMPABLE, 1, "PR_SET_DUMPABLE")


def no_new_privileges() -> None:
    """No program that is started from now on gains rights."""
    _prctl(_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    number = 0
    while _libc.prctl(_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) == 0:
        number += 1  # until the kernel knows no further one
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, struct.pack("6I", *[0] * 6)), "capset")


def _prctl(option: int, value: int, name: str) -> None:
    unused = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), unused, unused, unused), name)


def loopback_up() -> None:
    """In a fresh network namespace: 127.0.0.1 works, and nothing else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0 if none."""
    return max(0, _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))


def landlock(readable: list[str], writable: list[str]) -> int:
    """From now on files below ``readable`` may be read and run, below ``writable`` changed too, no others.

    The version of Landlock in force; 0, and nothing is restricted, where the kernel has none. Holds for this
    thread and all that it starts. Source of the bits: linux/landlock.h.
    """
    abi = landlock_abi()
    if abi == 0:
        return 0
    # execute, write, read file, read folder, ten ways to make and remove; then refer, truncate
    known = (1 << (13 if abi == 1 else 14 if abi == 2 else 15)) - 1
    scopes = 0b11 if abi >= 6 else 0  # abstract sockets and signals of the outside
    attributes = struct.pack("QQQ", known, 0, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _checked(
        _libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0), "landlock"
    )
    to_read, of_file = 0b1101, 0b111 | 1 << 14  # execute, read file, read folder; what a file can be asked
    try:
        for path, allowed in [(path, to_read) for path in readable] + [(path, known) for path in writable]:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed_here = allowed & known & (-1 if os.path.isdir(path) else of_file)
                rule = struct.pack("=Qi", allowed_here, opened)
                _checked(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock {path}")
            finally:
                os.close(opened)
        _checked(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    finally:
        os.close(ruleset)
    return abi
