"""Where namespaces are refused: bubblewrap, if it is installed. PLACEHOLDER"""


def attempt() -> str:
    return "not installed"


def start(request, listening):
    raise OSError("no")
