"""Enter the walls as somebody who is not root, and print what is there: ``python ordinary_user.py FOLDER``."""

import json
import os
import sys
from pathlib import Path

from autograder import sandbox_system, sandbox_walls, sandbox_zygote
from autograder.sandbox import Limits


def main(own: Path) -> None:
    said, writing = os.pipe()
    request = {
        "readable": ["/usr", "/bin", "/lib", "/lib64", str(own)],
        "hidden": [],
        "folder": "/nowhere",
        "judge": "",
        "limits": Limits().as_json(),
    }

    def inside(up) -> None:
        sandbox_walls.lock(request["limits"])
        status = Path("/proc/self/status").read_text()
        facts = {
            line.split(":")[0]: line.split()[1]
            for line in status.splitlines()
            if line[:3] in ("Uid", "Cap", "NoN")
        }
        try:
            refused = (own / "mine").open("a").close()
        except OSError as refusal:
            refused = refusal.strerror
        told = {"pid": os.getpid(), "root": sorted(os.listdir("/")), "to its own file": refused, **facts}
        os.write(writing, json.dumps(told).encode())
        up()

    if os.fork() == 0:
        try:
            if os.geteuid() == 0:
                for path in (own, own / "mine"):
                    os.chown(path, 12345, 12345)
                os.setresgid(12345, 12345, 12345)
                os.setresuid(12345, 12345, 12345)
                sandbox_system.be_dumpable()
            sandbox_system.adopt_orphans()
            os.chdir("/")
            os.waitpid(sandbox_zygote.enter(request, inside, keep=[writing])[0], 0)
        except BaseException as failure:
            os.write(writing, json.dumps(repr(failure)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(said) as words:
        print(words.read())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
