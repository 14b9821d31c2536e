"""Pictures as their readers get them: the rows of their layers, their words, their texts."""

from xml.etree import ElementTree


def rows(picture):
    """All rows of all layers, in no particular order."""
    found, todo = [], [picture.spec]
    while todo:
        node = todo.pop()
        todo += node.get("layer", []) + node.get("vconcat", []) + node.get("hconcat", [])
        if "name" in node.get("data", {}):
            found += picture.spec["datasets"][node["data"]["name"]]
    return found


def stored(picture):
    """The rows that the specification holds, each once."""
    return [row for data in picture.spec["datasets"].values() for row in data]


def subtitle(picture):
    return str(picture.spec["title"].get("subtitle", ""))


def texts(picture):
    return [
        "".join(node.itertext())
        for node in ElementTree.fromstring(picture.svg()).iter()
        if node.tag[-4:] == "text"
    ]
