"""What a notebook's processes take together, read from /proc."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SOCKET_BYTES = 2**18  # what the kernel lets one hold, with what it needs itself, unless asked for more


def overrun(pid: int, limits: dict[str, int]) -> str:
    """``memory`` or ``processes`` when the tree of ``pid`` takes more than ``limits`` allow, else ''.

    Forked processes share pages, so they are counted in full first, which is cheap, and exactly only when
    that is too much. Costs 0.1 ms for a kernel that has started nothing.
    """
    tree = list(processes(pid))
    if sum(_threads(one) for one in tree) > limits["processes"]:
        return "processes"
    most = limits["memory_bytes"] - _in_sockets(pid)
    if sum(map(_resident, tree)) > most < sum(map(_share, tree)):
        return "memory"
    return ""


def _in_sockets(pid: int) -> int:
    """Bytes that the sockets of its network may hold, at most: what waits in one is no process's memory."""
    with suppress(OSError):
        if os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net"):
            return 0  # no network of its own: not in a sandbox
    with suppress(OSError, ValueError, IndexError):
        net = Path(f"/proc/{pid}/net")
        others = int((net / "sockstat").read_text().split()[2])  # sockets: used N
        return (others + (net / "unix").read_bytes().count(b"\n")) * _SOCKET_BYTES
    return 0


def processes(pid: int) -> Iterator[int]:
    """``pid`` and all that came of it: in a pid namespace its first process adopts every orphan."""
    todo = [pid]
    while todo:
        one = todo.pop()
        yield one
        with suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with suppress(OSError):
                    todo += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())


def belongs(pid: int, to: int) -> bool:
    """Is ``pid`` the process ``to`` or one that came of it?"""
    while pid > 1 and pid != to:
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        except OSError:
            return False
        pid = int(after_name.split()[1])
    return pid == to


def _threads(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))
    return 0


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _share(pid: int) -> int:
    """Its resident memory, of shared pages only its share."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
