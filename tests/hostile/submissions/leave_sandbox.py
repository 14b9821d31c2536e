# Tries: to leave the sandbox: new namespaces, mounts, another root, the first process's root, a device.
# Must: be refused each, for it has no rights left.
# Points: 0.6
# Together: reads
# Says: unshare refused | mount refused | chroot refused | mknod refused | same root
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
print("unshare", "refused" if libc.unshare(0x10000000) else "went through")
print("mount", "refused" if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) else "went through")
for name, attempt in (
    ("chroot", lambda: os.chroot("/tmp")),
    ("mknod", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0))),
):
    try:
        attempt()
        print(name, "went through")
    except OSError:
        print(name, "refused")
print("same root" if sorted(os.listdir("/proc/1/root/")) == sorted(os.listdir("/")) else "another root")
