"""The walls: a process goes into namespaces of its own and sees a file system made for it; then it locks itself in.

The order is what makes it work without root: a new user namespace gives the rights for all the rest, a new
root holds nothing but what is bound into it, and only then the rights are dropped. Measured in all: 4 ms.
"""

import os
import resource
import shutil
import signal
import stat
from contextlib import suppress
from pathlib import Path

from autograder import sandbox_system as system
from autograder.sandbox import JUDGE, NOTEBOOK
from autograder.sandbox_calls import refuse_calls

UNUSED = 65534  # whom learners' code runs as when root grades: nobody, who owns nothing
INSIDE = 1000  # its number inside
_BASE, _HOST = "/tmp", "/.host"  # where the new root is mounted first; where the old one is seen from it
_WRITABLE = (NOTEBOOK, "/tmp", "/dev/shm")
_TERMINALS = "/dev/pts"  # IPython's "!" runs a command in one
_DEVICES = ("null", "zero", "full", "random", "urandom")
_FILES = {
    "/etc/passwd": f"learner:x:{INSIDE}:{INSIDE}::{NOTEBOOK}:/bin/sh\n",
    "/etc/group": f"learner:x:{INSIDE}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def leave() -> None:
    """New namespaces for user, mounts, network, IPC, host name and cgroups; for processes from the next child on."""
    spaces = (system.NEWUSER, system.NEWNS, system.NEWPID, system.NEWNET, system.NEWIPC, system.NEWUTS)
    system.unshare(sum(spaces) | system.NEWCGROUP)


def map_users(pid: int) -> None:
    """Called by the parent: who the users inside the namespace of ``pid`` are outside.

    An ordinary user is one user inside. Root becomes nobody for the learner's code, and itself until then.
    """
    folder = Path(f"/proc/{pid}")
    if os.geteuid() == 0:
        users = groups = f"0 0 1\n{INSIDE} {UNUSED} 1\n"
    else:
        (folder / "setgroups").write_text("deny")
        users, groups = f"{INSIDE} {os.geteuid()} 1\n", f"{INSIDE} {os.getegid()} 1\n"
    (folder / "uid_map").write_text(users)
    (folder / "gid_map").write_text(groups)


def build(request: dict) -> list[str]:
    """A root of one's own, as pid 1 of the new namespace; names in the learner's folder that did not fit.

    ``request``: ``readable`` and ``hidden`` paths, ``folder`` (the learner's), ``judge`` (its socket, or ''),
    ``limits``.
    """
    system.mount("none", "/", None, system.RECURSIVE | system.PRIVATE)
    size = f"size={request['limits']['disk_bytes']},nr_inodes=50000,mode=755"
    system.mount("tmpfs", _BASE, "tmpfs", system.NOSUID | system.NODEV, size)
    os.mkdir(_BASE + _HOST)
    system.pivot_root(_BASE, _BASE + _HOST)
    os.chdir("/")
    show(request["readable"])
    for path in request["hidden"]:
        system.mount("tmpfs", path, "tmpfs", system.NOSUID | system.NODEV, "size=4k,mode=555")
    os.mkdir("/proc")
    system.mount("proc", "/proc", "proc", system.NOSUID | system.NODEV)
    _make_devices()
    for path in _WRITABLE:
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o1777)
    if request["judge"]:
        _bind_file(request["judge"], JUDGE, writable=True)
    for path, text in _FILES.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(text)
    left_out = copy_in(_HOST + request["folder"], NOTEBOOK, request["limits"]["disk_bytes"] // 2)
    system.detach(_HOST)
    os.rmdir(_HOST)
    return left_out


def show(paths: list[str]) -> None:
    """Bind each of ``paths`` of the old root, read-only, at its own place; links stay links."""
    for path in uncovered(paths, _HOST):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.islink(_HOST + path):
            os.symlink(os.readlink(_HOST + path), path)
        elif os.path.isdir(_HOST + path):
            os.makedirs(path, exist_ok=True)
            system.bind(_HOST + path, path)
        else:
            _bind_file(path, path)


def uncovered(paths: list[str], root: str = "") -> list[str]:
    """``paths`` without those that lie in another of them, shortest first."""
    kept: list[str] = []
    for path in sorted(dict.fromkeys(paths), key=len):
        if not any(path.startswith(f"{other}/") for other in kept if not os.path.islink(root + other)):
            kept.append(path)
    return kept


def _bind_file(source: str, target: str, *, writable: bool = False) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    Path(target).touch()
    system.bind(_HOST + source, target, writable=writable)


def _make_devices() -> None:
    os.makedirs("/dev/shm")
    for name in _DEVICES:
        _bind_file(f"/dev/{name}", f"/dev/{name}", writable=True)
    os.mkdir(_TERMINALS)
    system.mount("devpts", _TERMINALS, "devpts", system.NOSUID, "newinstance,ptmxmode=0666,mode=600")
    os.symlink("pts/ptmx", "/dev/ptmx")
    for name, number in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{number}", f"/dev/{name}")


def copy_in(source: str, target: str, most_bytes: int) -> list[str]:
    """Copy folders and plain files of ``source`` into ``target``; the names of files that did not fit.

    A link is copied as a link: inside it leads nowhere, or to what can be read anyway. Nothing else (pipes,
    sockets, devices) is copied.
    """
    left_out, room = [], most_bytes
    for folder, folders, files in os.walk(source):
        below = os.path.relpath(folder, source)
        folders.sort()  # what fits must not depend on how a disk lists it
        for name in sorted([*folders, *files]):
            old, new = os.path.join(folder, name), os.path.join(target, below, name)
            kind = os.lstat(old)
            with suppress(FileExistsError):
                if stat.S_ISLNK(kind.st_mode):
                    os.symlink(os.readlink(old), new)
                elif stat.S_ISDIR(kind.st_mode):
                    os.mkdir(new, 0o777)
                elif stat.S_ISREG(kind.st_mode) and kind.st_size <= room:
                    shutil.copyfile(old, new, follow_symlinks=False)
                    room -= kind.st_size
                else:
                    left_out.append(os.path.normpath(os.path.join(below, name)))
    return left_out


def lock(limits: dict[str, int]) -> None:
    """After ``build``: nothing of the rights that built the walls is left, neither to this process nor to a child."""
    system.loopback_up()
    with suppress(OSError):  # no user namespace in here, so no way to have such rights again
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    # Smallest, usual and largest buffer: no limit counts what is in one.
    for name in ("tcp_rmem", "tcp_wmem"):
        with suppress(OSError):
            Path(f"/proc/sys/net/ipv4/{name}").write_text("4096 65536 131072")
    if os.geteuid() == 0:
        for folder, folders, files in os.walk(NOTEBOOK):
            for name in ["", *folders, *files]:
                os.chown(os.path.join(folder, name), INSIDE, INSIDE, follow_symlinks=False)
        os.setgroups([])
        os.setresgid(INSIDE, INSIDE, INSIDE)
        os.setresuid(INSIDE, INSIDE, INSIDE)
        system.be_dumpable()
    system.drop_capabilities()
    system.die_with_parent(signal.SIGKILL)  # a change of user undoes it, so not before
    limit(limits)


def limit(limits: dict[str, int]) -> int:
    """Resource limits, no new privileges, a filter of system calls, Landlock; the version of Landlock in force."""
    wanted = {
        resource.RLIMIT_DATA: limits["memory_bytes"],  # not RLIMIT_AS, see Limits
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 2**20,
    }
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))
    system.no_new_privileges()
    refuse_calls()
    return system.landlock(["/"], [*_WRITABLE, _TERMINALS, *(f"/dev/{name}" for name in _DEVICES)])
