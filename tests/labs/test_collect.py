"""Collecting: what a learner with an editor can put into the exchange reaches nobody's submission, and stops nobody's."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbgrader.apps import NbGraderAPI

from autograder import hand_ins, plain_copy
from autograder.batch import Batch
from autograder.collect import MOST_LINES, SafeCollect
from autograder.frame import open_nbgrader
from autograder.places import COURSE_ID

EARLY, LATE = "2026-11-30 10:00:00.000000 UTC", "2026-12-30 10:00:00.000000 UTC"


class Exchange:
    """An exchange where anybody puts anything, and a course that collects from it."""

    def __init__(self, lab, nbgrader: NbGraderAPI) -> None:
        self.lab, self.places, self.nbgrader = lab.name, lab.places, nbgrader
        self.inbound = lab.places.exchange / COURSE_ID / "inbound"
        self.submitted = lab.places.course / "submitted"
        self.inbound.mkdir(parents=True)
        self.told: list[str] = []

    def name(self, who: str, stamp: str = EARLY, end: str = "r", lab: str = "") -> str:
        return f"{who}+{lab or self.lab}+{stamp}+{end}"

    def hands_in(self, who: str, text: str = "{}", stamp: str = EARLY, **more: str) -> Path:
        """A folder as ``nbgrader submit`` makes it."""
        folder = self.inbound / self.name(who, stamp, **more)
        folder.mkdir()
        (folder / f"{self.lab}.ipynb").write_text(text)
        (folder / "timestamp.txt").write_text(stamp)
        return folder

    def collect(self) -> dict[str, str]:
        """What a run collects: the notebook's text by student; ``told`` is what it says."""
        self.told = []
        Batch._collect(
            SimpleNamespace(
                lab=self.lab, places=self.places, nbgrader=self.nbgrader, progress=self.told.append
            )
        )
        found = sorted(self.submitted.glob(f"*/{self.lab}/{self.lab}.ipynb"))
        return {path.parent.parent.name: path.read_text() for path in found}

    def files(self, who: str) -> list[str]:
        folder = self.submitted / who / self.lab
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))

    def said(self, *parts: str) -> bool:
        """Is there a line with all ``parts``?"""
        return any(all(part in line for part in parts) for line in self.told)


@pytest.fixture(scope="module")
def opened(built):
    return Exchange(built, open_nbgrader())


@pytest.fixture
def exchange(opened, monkeypatch) -> Exchange:
    """An exchange in which nothing lies; each folder is owned by an account named like its student."""
    for folder in (opened.inbound, opened.submitted):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    monkeypatch.setattr(SafeCollect, "owner", lambda self, name, uid: name.rsplit("+", 3)[0])
    return opened


@pytest.fixture
def owners(exchange, monkeypatch) -> dict[str, str]:
    """Accounts by the name of the folder that they own; to be filled."""
    known: dict[str, str] = {}
    own = SafeCollect.owner
    monkeypatch.setattr(SafeCollect, "owner", lambda self, name, uid: known.get(name) or own(self, name, uid))
    return known


def left(exchange: Exchange, who: str) -> list[str]:
    """The files of ``who`` beside the two that everybody has."""
    return [name for name in exchange.files(who) if name not in (f"{exchange.lab}.ipynb", "timestamp.txt")]


def test_the_latest_of_each_is_collected_and_only_something_newer_replaces_it(exchange):
    exchange.hands_in("ann", "first")
    exchange.hands_in("a+b", "with a plus", LATE)
    exchange.hands_in("eve", "of another lab", lab="91-other")
    exchange.hands_in(f"eve+{exchange.lab}", "of another lab, under a name like this one", lab="91-other")
    assert exchange.collect() == {"ann": "first", "a+b": "with a plus"}
    assert exchange.told == ["collected from the exchange: 2 new"]
    exchange.hands_in("ann", "older", "2026-10-30 10:00:00.000000 UTC")
    assert exchange.collect()["ann"] == "first"
    assert exchange.told == ["collected from the exchange: 0 new"]
    folder = exchange.hands_in("ann", "second", LATE)
    (folder / "data" / "more").mkdir(parents=True)
    (folder / "data" / "more" / "x.csv").write_text("1")
    (folder / "__pycache__").mkdir()
    assert exchange.collect()["ann"] == "second"
    assert left(exchange, "ann") == ["data", "data/more", "data/more/x.csv"]
    assert [path.name for path in (exchange.submitted / "ann").iterdir()] == [exchange.lab]


def test_no_link_is_followed_wherever_it_stands(exchange):
    ann = exchange.hands_in("ann")
    secret = exchange.places.course / "secret"
    secret.write_text("the secret\n")
    folder = exchange.hands_in("eve")
    (folder / "inner").mkdir()
    for link, target in (("notes.txt", secret), ("of-ann", ann), ("inner/x", secret), ("gone", "/no/where")):
        (folder / link).symlink_to(target)
    (exchange.inbound / exchange.name("bob")).symlink_to(ann)
    assert list(exchange.collect()) == ["ann", "eve"]
    assert left(exchange, "eve") == ["inner"]
    assert exchange.said("eve", "'gone' (it is a link)", "'inner/x' (it is a link)", "and 1 more", "ask for")
    assert exchange.said("bob+", "it is a link, not a folder")


def test_a_file_that_becomes_a_link_between_look_and_copy_is_not_read(exchange, monkeypatch):
    exchange.hands_in("ann")
    eve = exchange.hands_in("eve")
    (eve / "notes.txt").write_text("mine")
    fault = plain_copy.PlainCopy._fault

    def swapped(self, name, look, inner):
        said = fault(self, name, look, inner)
        if name == "notes.txt" and not (eve / name).is_symlink():
            (eve / name).unlink()
            (eve / name).symlink_to(exchange.places.course / "gradebook.db")
        return said

    monkeypatch.setattr(plain_copy.PlainCopy, "_fault", swapped)
    assert list(exchange.collect()) == ["ann"]
    assert exchange.said("eve", "cannot be copied")


def test_a_folder_of_another_account_put_in_its_place_is_not_read(exchange, tmp_path):
    copy = plain_copy.PlainCopy(exchange.nbgrader.coursedir, uid=os.getuid() + 1)
    with pytest.raises(OSError, match="exchanged"):
        copy.folder(str(exchange.hands_in("ann")), tmp_path / "copy")


def test_a_hard_link_to_another_accounts_file_is_left_out(exchange, tmp_path):
    folder = exchange.hands_in("eve")
    os.link(folder / "timestamp.txt", folder / "linked")
    copy = plain_copy.PlainCopy(exchange.nbgrader.coursedir, uid=os.getuid())
    copy.folder(str(folder), tmp_path / "own")
    assert (copy.left_out, (tmp_path / "own" / "linked").read_text()) == ([], EARLY)
    copy.uid += 1
    assert copy._fault("linked", (folder / "linked").stat(), "") == "it is another account's file"
    assert copy._fault("plain", (folder / f"{exchange.lab}.ipynb").stat(), "") == ""


def test_what_is_no_folder_or_has_no_such_name_is_told_and_stops_nobody(exchange):
    exchange.hands_in("ann")
    exchange.hands_in("eve", stamp="garbage")
    exchange.hands_in("ivy", stamp="2026-13-77 99:00:00 UTC")
    exchange.hands_in("..", "out")
    exchange.hands_in("", "nobody")
    exchange.hands_in("x\x1b[31m\ny")
    (exchange.inbound / exchange.name("bob")).write_text("hi")
    (exchange.inbound / exchange.name("cyd")).symlink_to("/nowhere/at/all")
    os.mkfifo(exchange.inbound / exchange.name("dan"))
    assert exchange.collect() == {"ann": "{}"}
    assert exchange.said("eve+", "no time can be read in its name") and exchange.said("ivy+", "no time")
    assert exchange.said("bob+", "it is a file") and exchange.said("cyd+", "it is a link")
    assert exchange.said("dan+", "it is a pipe", "remove it")
    assert sum("nobody's name" in line for line in exchange.told) == 3
    assert all(line.isprintable() for line in exchange.told)
    assert not (exchange.places.course / exchange.lab).exists()


def test_pipes_sockets_and_what_lies_too_deep_are_left_out_and_the_rest_is_taken(exchange):
    folder = exchange.hands_in("eve")
    os.mkfifo(folder / "pipe")
    deep = folder
    for _ in range(60):
        deep /= "d"
    deep.mkdir(parents=True)
    assert exchange.collect() == {"eve": "{}"}
    assert exchange.said("eve", "'pipe' (it is a pipe)", "(it lies too deep)")
    assert max(name.count("/") for name in exchange.files("eve")) < 60


def test_one_that_cannot_be_copied_leaves_the_earlier_one_and_the_others(exchange, monkeypatch):
    exchange.hands_in("ann", "ann's first")
    assert exchange.collect() == {"ann": "ann's first"}
    (exchange.hands_in("ann", "ann's second", LATE) / "large").write_bytes(b"0" * 3000)
    exchange.hands_in("bob", "older")
    (exchange.hands_in("bob", "newer", LATE) / "large").write_bytes(b"0" * 3000)
    exchange.hands_in("cyd")
    monkeypatch.setattr(exchange.nbgrader.coursedir, "max_dir_size", 2)
    assert exchange.collect() == {"ann": "ann's first", "bob": "older", "cyd": "{}"}
    assert exchange.said("ann", "2026-12-30", "more than 2 kB", "What was collected before stays")
    assert [path.name for path in (exchange.submitted / "ann").iterdir()] == [exchange.lab]


def test_a_copy_that_cannot_take_its_place_puts_the_earlier_one_back(exchange, monkeypatch):
    exchange.hands_in("ann", "first")
    exchange.collect()
    exchange.hands_in("ann", "second", LATE)
    rename = Path.rename

    def fails(path, target):
        if path.name.endswith(".new"):
            raise OSError("disk is full")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    assert exchange.collect() == {"ann": "first"}
    assert exchange.said("ann", "disk is full")


def test_a_time_that_a_learner_has_written_into_the_folder_stops_nobody(exchange):
    (exchange.hands_in("eve", "first") / "timestamp.txt").write_bytes(b"\xff garbage")
    exchange.collect()
    exchange.hands_in("ann")
    exchange.hands_in("eve", "second", LATE)
    assert exchange.collect() == {"ann": "{}", "eve": "second"}


def test_a_folder_that_another_learner_made_does_not_take_the_place_of_hers(exchange, owners):
    exchange.hands_in("ann", "hers")
    owners[exchange.hands_in("ann", "forged", LATE, end="x").name] = "stranger"
    assert exchange.collect() == {"ann": "hers"}
    assert exchange.said("ann", "2026-12-30", "owned by the account stranger", "Ask both")


def test_one_who_hands_in_for_herself_cannot_hand_in_for_somebody_else(exchange, owners):
    exchange.hands_in("eve", lab="91-other")
    owners[exchange.hands_in("ann", "forged").name] = "eve"
    assert exchange.collect() == {}
    assert exchange.said("left out", "ann", "account eve")


def test_a_folder_of_whoever_collects_counts_before_a_strangers(exchange, owners):
    owners[exchange.hands_in("ann", "given by mail").name] = hand_ins.account(os.geteuid())
    owners[exchange.hands_in("ann", "forged", LATE).name] = "stranger"
    assert exchange.collect() == {"ann": "given by mail"}


def test_names_that_are_no_accounts_are_collected_and_told_once(exchange, owners):
    for number in range(5):
        owners[exchange.hands_in(f"s{number}", stamp=LATE).name] = "hub"
    owners[exchange.hands_in("hub2").name] = "hub2-account"
    owners[exchange.hands_in("hub", "planted").name] = "hub2-account"  # makes nobody else's doubtful
    assert sorted(exchange.collect()) == ["hub", "hub2", "s0", "s1", "s2", "s3", "s4"]
    assert exchange.said("account hub:", "s0, s1, s2 and 2 more")
    exchange.collect()
    assert exchange.told == ["collected from the exchange: 0 new"]


def test_without_check_owner_nobody_asks_whose_it_is(exchange, owners, monkeypatch):
    monkeypatch.setattr(SafeCollect, "check_owner", False)
    exchange.hands_in("ann", "first")
    owners[exchange.hands_in("ann", "second", LATE).name] = "stranger"
    assert exchange.collect() == {"ann": "second"}
    assert len(exchange.told) == 1


def test_an_account_without_a_name_is_told_by_its_number():
    assert hand_ins.account(3_999_999_999) == "number 3999999999"


def test_a_flood_of_oddities_is_counted(exchange):
    exchange.hands_in("ann")
    for number in range(MOST_LINES + 5):
        (exchange.inbound / exchange.name("eve", end=str(number))).write_text("")
    assert exchange.collect() == {"ann": "{}"}
    assert (len(exchange.told), exchange.told[-1]) == (MOST_LINES + 2, "  and 5 more in the exchange")


def test_before_the_due_date_is_as_nbgrader_has_it(exchange, monkeypatch):
    monkeypatch.setattr(SafeCollect, "before_duedate", True)
    with exchange.nbgrader.gradebook as gradebook:
        gradebook.update_or_create_assignment(exchange.lab, duedate="2026-12-01 12:00:00 UTC")
    exchange.hands_in("ann", "in time")
    exchange.hands_in("ann", "late", LATE)
    exchange.hands_in("bob", "late", LATE)
    try:
        assert exchange.collect() == {"ann": "in time", "bob": "late"}
    finally:
        with exchange.nbgrader.gradebook as gradebook:
            gradebook.update_or_create_assignment(exchange.lab, duedate=None)


def test_nbgraders_own_command_collects_the_same_way(exchange):
    assert exchange.nbgrader.exchange.collect is SafeCollect
    (exchange.hands_in("eve") / "link").symlink_to("/etc/hostname")
    result = exchange.nbgrader.collect(exchange.lab)
    assert result["success"] and "'link' (it is a link)" in result["log"]
    assert left(exchange, "eve") == []
