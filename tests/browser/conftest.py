"""One JupyterLab for all browser tests of a worker; pictures of what was seen stay in ``artifacts/``."""

from pathlib import Path

import pytest

from tests.browser.page import jupyterlab, make_clone


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """The tracked files in a folder of their own, as a fresh clone has them."""
    return make_clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="session")
def lab(clone):
    """The address of the first lab in a running JupyterLab, as ``gpulab lab`` prints it."""
    with jupyterlab(clone) as found:
        yield found


@pytest.fixture(scope="session")
def seen():
    """The folder for pictures of what was seen."""
    folder = Path(__file__).parent / "artifacts"
    folder.mkdir(exist_ok=True)
    return folder
