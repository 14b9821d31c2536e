"""nbgrader's form grader in a JupyterLab of its own, asked over HTTP on a Unix socket, as the README says to open it."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

TOKEN = "a-token-of-this-test"


class OverUnix(http.client.HTTPConnection):
    """HTTP to the socket at ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


@final
class FormGrader:
    """Who asks the form grader behind ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def asks(self, method: str, url: str, body: object = None, token: str = TOKEN) -> tuple[int, str]:
        """The status and the text of the answer."""
        connection = OverUnix(self.path)
        headers = {"Authorization": f"token {token}"} if token else {}
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, f"/formgrader/{url}", content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def page(self, url: str) -> str:
        """A page as a browser gets it; following nothing."""
        status, text = self.asks("GET", url)
        assert status == 200, (url, status, text)
        return text

    def api(self, url: str, method: str = "GET", body: object = None):
        """What the API at ``url`` answers."""
        status, text = self.asks(method, f"api/{url}", body)
        assert status == 200, (url, status, text)
        return json.loads(text)


@contextmanager
def opened(folder: Path, environment: dict[str, str]):
    """The form grader of the course below ``folder``; JupyterLab and its children are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="gpulab-lab-"))  # the name of a socket is 107 characters at most
    own = {
        "HOME": str(home),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
    }
    words = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
    words += [f"--ServerApp.sock={home / 'lab.sock'}", f"--IdentityProvider.token={TOKEN}"]
    with (
        (home / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            words, cwd=folder, env=environment | own, stdout=log, stderr=log, start_new_session=True
        ) as server,
    ):
        try:
            wait_for(server, home)
            yield FormGrader(home / "lab.sock")
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            shutil.rmtree(home, ignore_errors=True)


def wait_for(server: subprocess.Popen, home: Path) -> None:
    """Until somebody listens at the socket."""
    while True:
        with socket.socket(socket.AF_UNIX) as knock, suppress(OSError):
            knock.connect(str(home / "lab.sock"))
            return
        try:
            server.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(
            f"JupyterLab ended with {server.returncode}:\n{(home / 'log').read_text(encoding='utf-8')}"
        )
