"""Downloads of learning platforms: each learner's files arrive under a name of their own, and nothing else does."""

import io
import os
import random
import subprocess
import tracemalloc
import zipfile

import pytest

from autograder import received
from autograder.grading import read_files, write_files
from autograder.received import Unfit, take

LAB = "91-small"


@pytest.fixture
def taken(tmp_path):
    """Takes a zip of names and contents; the files below submitted, the students, and what was said."""

    def run(*entries, name="download.zip"):
        file = tmp_path / name
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for entry in entries:
                packed.writestr(*entry)
        said = []
        students = take(file, tmp_path / "submitted", LAB, said.append)
        return arrived(tmp_path / "submitted"), students, said

    return run


def arrived(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_moodles_folders_and_flat_files_become_students(taken):
    files, students, said = taken(
        ("Ada Byron_123_assignsubmission_file_/91-small.ipynb", "a"),
        ("Ada Byron_123_assignsubmission_file_/notes/plan.txt", "p"),
        ("Zoë K_124_assignsubmission_file_91-small.ipynb", "z"),
    )
    assert files == {
        "Ada Byron/91-small/91-small.ipynb": b"a",
        "Ada Byron/91-small/notes/plan.txt": b"p",
        "Zoë K/91-small/91-small.ipynb": b"z",
    }
    assert (students, said) == (["Ada Byron", "Zoë K"], [])


def test_canvas_files_become_students_late_or_not(taken):
    files, _, _ = taken(
        ("submissions/byronada_LATE_11_22_91-small-1.ipynb", "a"),
        ("submissions/kzoe_12_23_91-small.ipynb", "z"),
    )
    assert files == {"byronada/91-small/91-small-1.ipynb": b"a", "kzoe/91-small/91-small.ipynb": b"z"}


def test_two_learners_of_one_name_stay_two(taken):
    _, students, _ = taken(
        ("Kim Lee_7_assignsubmission_file_/x.ipynb", "1"), ("Kim Lee_8_assignsubmission_file_/x.ipynb", "2")
    )
    assert students == ["Kim Lee 7", "Kim Lee 8"]


def test_another_learner_of_the_same_name_in_a_later_download_replaces_nobody(taken):
    mine, hers = (
        "Pia Roe_5_assignsubmission_file_/91-small.ipynb",
        "Pia Roe_10_assignsubmission_file_/91-small.ipynb",
    )
    taken((mine, "a"))
    files, students, said = taken((hers, "b"))
    assert (students, said) == (["Pia Roe 10"], [])
    assert files == {"Pia Roe/91-small/91-small.ipynb": b"a", "Pia Roe 10/91-small/91-small.ipynb": b"b"}
    files, students, said = taken((mine, "c"), (hers, "b"))
    assert files == {"Pia Roe/91-small/91-small.ipynb": b"c", "Pia Roe 10/91-small/91-small.ipynb": b"b"}
    assert said == ["  Pia Roe: replaced; what lay there is in submitted.before/Pia Roe/91-small"]


def test_two_of_one_name_keep_their_numbers_when_one_comes_alone(taken):
    both = [(f"Gina M_{number}_assignsubmission_file_/91-small.ipynb", "a") for number in (11, 22)]
    taken(*both)
    assert taken((both[0][0], "b"))[0] == {
        "Gina M 11/91-small/91-small.ipynb": b"b",
        "Gina M 22/91-small/91-small.ipynb": b"a",
    }


def test_what_was_typed_online_and_a_notebook_of_nobody_make_no_student(taken, tmp_path):
    files, students, said = taken(
        ("Kai Noll_3_assignsubmission_file_/91-small.ipynb", "a"),
        ("Kai Noll_3_assignsubmission_onlinetext_/onlinetext.html", "<p>hello</p>"),
        ("Lea_4_assignsubmission_onlinetext_onlinetext.html", "<p>hello</p>"),
        ("91-small.ipynb", "b"),
    )
    assert (list(files), students) == (["Kai Noll/91-small/91-small.ipynb"], ["Kai Noll"])
    assert [line.partition(": ")[2].partition(": ")[2] for line in said] == [
        "what Kai Noll typed into the platform's page",
        "what Lea typed into the platform's page",
        "it does not say whose it is: put it into a folder with the student's name",
    ]


def test_what_a_learner_calls_a_file_does_not_say_whose_it_is(taken):
    files, students, _ = taken(
        ("eve/bob_1_2_91-small.ipynb", "e"),
        ("bob/91-small.ipynb", "b"),
        ("eve/x_1_assignsubmission_file_/y.ipynb", "y"),
    )
    assert students == ["bob", "eve"]
    assert files["bob/91-small/91-small.ipynb"] == b"b"


def test_one_folder_around_a_whole_class_is_nobody(taken):
    assert taken(("all/ann/91-small.ipynb", "a"), ("all/bob/91-small.ipynb", "b"))[1] == ["ann", "bob"]
    assert taken(("ann/91-small.ipynb", "a"), ("ann/notes/x.txt", "x"))[1] == ["ann"]


@pytest.mark.parametrize(
    ("who", "student"),
    [
        ("..", "__"),
        ("=HYPERLINK(1)", "_HYPERLINK(1)"),
        ('Byron, "Ada"', "Byron_ _Ada_"),
        ("Zed\x1b[2J\nbob", "Zed_[2J_bob"),
        ("Ж" * 130, "Ж" * 60),
    ],
)
def test_a_name_that_is_a_way_out_a_formula_or_too_long_becomes_a_plain_one(taken, tmp_path, who, student):
    files, students, _ = taken((f"{who}_1_assignsubmission_file_/91-small.ipynb", "a"))
    assert (list(files), students) == ([f"{student}/91-small/91-small.ipynb"], [student])
    assert not (tmp_path / "91-small").exists()


def test_files_that_cannot_be_written_cost_their_owner_alone(taken):
    files, students, said = taken(
        ("ann/91-small.ipynb", "a"),
        ("eve/91-small.ipynb", "e"),
        ("eve/" + "ж" * 200 + ".txt", "e"),
        ("zoe/91-small.ipynb", "z"),
    )
    assert students == ["ann", "zoe"] and not any(name.startswith("eve/") for name in files)
    assert "everything of eve: it cannot be written" in " ".join(said)


def test_what_lay_there_stays_where_the_new_files_cannot_be_written(taken):
    taken(("eve/91-small.ipynb", "first"), ("ann/91-small.ipynb", "a"))
    files, _, _ = taken(
        ("eve/91-small.ipynb", "second"), ("eve/" + "ж" * 200, "x"), ("ann/91-small.ipynb", "a")
    )
    assert files == {"eve/91-small/91-small.ipynb": b"first", "ann/91-small/91-small.ipynb": b"a"}


def test_three_whose_names_and_numbers_meet_stay_three(taken):
    names = (
        "Ada B_1_assignsubmission_file_",
        "Ada B_2_assignsubmission_file_",
        "Ada B 2_3_assignsubmission_file_",
    )
    files, students, _ = taken(*((f"{name}/91-small.ipynb", name) for name in names))
    assert len(students) == len(files) == 3


def test_what_only_the_exchange_writes_is_left_out(taken):
    files, _, said = taken(
        ("ann/91-small.ipynb", "a"), ("ann/timestamp.txt", "1970"), ("ann/submission_secret.txt", "x")
    )
    assert list(files) == ["ann/91-small/91-small.ipynb"]
    assert len(said) == 2


def test_a_plain_folder_of_folders_or_notebooks_is_taken_and_links_are_not(tmp_path):
    source = tmp_path / "in"
    (source / "ann").mkdir(parents=True)
    (source / "ann" / "91-small.ipynb").write_text("a")
    (source / "bob.ipynb").write_text("b")
    (tmp_path / "secret").write_text("s")
    (source / "ann" / "link").symlink_to(tmp_path / "secret")
    said = []
    assert take(source, tmp_path / "submitted", LAB, said.append) == ["ann", "bob"]
    assert arrived(tmp_path / "submitted") == {
        "ann/91-small/91-small.ipynb": b"a",
        "bob/91-small/bob.ipynb": b"b",
    }
    assert said == ["  left out: 'ann/link': it is a link"]


@pytest.mark.parametrize(
    "name",
    ["../evil.ipynb", "ann/../../evil.ipynb", "/etc/evil.ipynb", "C:\\evil.ipynb", "ann\\..\\..\\evil.ipynb"],
)
def test_a_name_that_leads_elsewhere_is_left_out_and_said(taken, tmp_path, name):
    files, _, said = taken(("ann/91-small.ipynb", "a"), (name, "evil"))
    assert files == {"ann/91-small/91-small.ipynb": b"a"}
    assert "its name leads out of the folder" in said[0]
    assert not list(tmp_path.rglob("evil*"))


def test_a_link_in_a_zip_is_left_out(taken):
    link = zipfile.ZipInfo("ann/passwd")
    link.external_attr = 0o120777 << 16
    files, _, said = taken(("ann/91-small.ipynb", "a"), (link, "/etc/passwd"))
    assert (list(files), "it is a link" in said[0]) == (["ann/91-small/91-small.ipynb"], True)


def test_a_zip_made_to_fill_a_disk_is_left_out_before_it_is_unpacked(taken, monkeypatch):
    monkeypatch.setattr(received, "MOST_RATIO", 100)
    files, _, said = taken(("ann/91-small.ipynb", "a"), ("bob/91-small.ipynb", b"0" * 3_000_000))
    assert (list(files), "bytes that unpack to 3,000,000" in said[0]) == (
        ["ann/91-small/91-small.ipynb"],
        True,
    )
    monkeypatch.setattr(received, "MOST_FILE_BYTES", 10)
    _, _, said = taken(("ann/91-small.ipynb", "a"), ("bob/91-small.ipynb", "01234567890"))
    assert "it has 11 bytes unpacked" in said[0]


def test_handing_in_again_keeps_the_first_one_aside_and_the_same_again_changes_nothing(taken, tmp_path):
    for content in ("1", "1", "2", "3"):
        files, _, _ = taken(("ann/91-small.ipynb", content))
    assert files == {"ann/91-small/91-small.ipynb": b"3"}
    assert arrived(tmp_path / "submitted.before") == {
        "ann/91-small/1/91-small.ipynb": b"1",
        "ann/91-small/2/91-small.ipynb": b"2",
    }


def test_a_file_that_is_damaged_in_the_zip_is_left_out_and_the_others_are_taken(tmp_path):
    file, whole = tmp_path / "download.zip", random.Random("damage").randbytes(1000).hex().encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for student in ("ann", "bob"):
            packed.writestr(f"{student}/91-small.ipynb", whole)
    content = bytearray(file.read_bytes())
    content[60:90] = bytes(30)
    file.write_bytes(content)
    said = []
    assert take(file, tmp_path / "submitted", LAB, said.append) == ["bob"]
    assert arrived(tmp_path / "submitted") == {"bob/91-small/91-small.ipynb": whole}
    assert said[0].startswith("  left out: '91-small.ipynb' of ann: it cannot be read (")


def test_one_learners_files_at_a_time_are_in_memory(tmp_path):
    file, size = tmp_path / "download.zip", 500_000
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
        for number in range(30):
            packed.writestr(f"learner-{number}/91-small.ipynb", bytes([number]) * size)
    tracemalloc.start()
    try:
        assert len(take(file, tmp_path / "submitted", LAB, print)) == 30
        assert size < tracemalloc.get_traced_memory()[1] < 5 * size
    finally:
        tracemalloc.stop()


def test_what_is_no_download_is_said(tmp_path):
    empty, text = tmp_path / "empty.zip", tmp_path / "a.txt"
    empty.write_bytes(b"")
    text.write_text("x")
    with zipfile.ZipFile(tmp_path / "nobody.zip", "w") as packed:
        packed.writestr("list.csv", "a,b")
    for path, said in (
        (text, "neither a folder nor a zip"),
        (empty, "neither"),
        (tmp_path / "nobody.zip", "no submission"),
    ):
        with pytest.raises(Unfit, match=said):
            take(path, tmp_path / "submitted", LAB, io.StringIO().write)


OUT = "Eve_3_assignsubmission_file_/{}"


@pytest.mark.parametrize(
    "rest", ["/{}/evil.txt", "\\..\\..\\bob\\91-small\\x", "..\\bob.txt", "C:\\x", "/../x"]
)
def test_a_name_behind_the_platforms_own_leads_nowhere_either(taken, tmp_path, rest):
    ours, file = "Eve_3_assignsubmission_file_/91-small.ipynb", OUT.format(rest.format(tmp_path))
    files, students, said = taken(
        ("Bob_4_assignsubmission_file_/91-small.ipynb", "b"), (ours, "e"), (file, "EVIL")
    )
    assert files == {"Bob/91-small/91-small.ipynb": b"b", "Eve/91-small/91-small.ipynb": b"e"}
    assert (students, len(said)) == (["Bob", "Eve"], 1)
    assert "its name leads out of the folder" in said[0]
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize("name", ["..\\..\\ann\\91-small\\91-small.ipynb", "..\\x"])
def test_a_file_of_a_folder_whose_name_has_backslashes_leads_nowhere(tmp_path, name):
    for student in ("ann", "eve"):
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / "91-small.ipynb").write_text(student)
    (tmp_path / "in" / "eve" / name).write_text("EVIL")
    said = []
    take(tmp_path / "in", tmp_path / "submitted", LAB, said.append)
    assert arrived(tmp_path / "submitted") == {
        "ann/91-small/91-small.ipynb": b"ann",
        "eve/91-small/91-small.ipynb": b"eve",
    }
    assert len(said) == 1
    assert "its name leads out" in said[0]


def test_a_written_file_stays_below_its_folder(tmp_path):
    for name in ("../x", str(tmp_path / "y"), "a/../../x"):
        with pytest.raises(OSError, match="leads out"):
            write_files(tmp_path / "in", {name: b""})
    assert arrived(tmp_path) == {}


@pytest.mark.parametrize(
    ("alone", "whose"),
    [
        ("Eve_3_assignsubmission_file_/Bob_4_assignsubmission_file_/91-small.ipynb", "Eve"),
        ("Eve/Bob_4_assignsubmission_file_/91-small.ipynb", "Eve"),
    ],
)
def test_who_hands_in_alone_is_nobody_else(taken, alone, whose):
    taken(
        ("Bob_4_assignsubmission_file_/91-small.ipynb", "b"),
        ("Eve_3_assignsubmission_file_/91-small.ipynb", "e"),
    )
    files, students, _ = taken((alone, "EVIL"), name="later.zip")
    assert students == [whose]
    assert files["Bob/91-small/91-small.ipynb"] == b"b"


def test_folders_in_a_known_students_folder_are_no_students_and_else_it_is_said(taken):
    taken(("bob/91-small.ipynb", "b"), ("eve/91-small.ipynb", "e"))
    inner = (("eve/bob/91-small.ipynb", "EVIL"), ("eve/eve/91-small.ipynb", "x"))
    files, students, said = taken(*inner, name="later.zip")
    assert (students, files["bob/91-small/91-small.ipynb"]) == (["eve"], b"b")
    files, students, said = taken(
        ("lab/bob/91-small.ipynb", "b"), ("lab/eve/91-small.ipynb", "x"), name="z.zip"
    )
    assert students == ["bob", "eve"]
    assert said[0] == "  everything lies in the folder 'lab': the folders in it are taken as the students'"


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("=ann/91-small.ipynb", "ann/91-small.ipynb"),
        ("ann.ipynb", "ann/91-small.ipynb"),
        ("a\x01n/91-small.ipynb", "a\x02n/91-small.ipynb"),
        ("a" * 120 + "1/91-small.ipynb", "a" * 120 + "2/91-small.ipynb"),
        ("_ann/91-small.ipynb", "=ann/91-small.ipynb"),
    ],
)
def test_names_that_become_equal_stay_two_students(taken, mine, theirs):
    for number, entries in enumerate([((mine, "1"), (theirs, "2")), ((theirs, "2"), (mine, "1"))]):
        files, students, said = taken(*entries, name=f"{number}.zip")
        assert len(students) == 2
        assert sorted(content for content in files.values()) == [b"1", b"2"]
        if theirs == "ann/91-small.ipynb":
            assert files["ann/91-small/91-small.ipynb"] == b"2"
            assert any("called" in line for line in said)


def test_what_lies_a_thousand_folders_deep_is_left_out_and_the_others_arrive(taken, tmp_path):
    _, students, said = taken(
        ("ann/91-small.ipynb", "a"), ("eve/" + "d/" * 1_100 + "x", "e"), ("bob/91-small.ipynb", "b")
    )
    assert students == ["ann", "bob"]
    assert "it lies more than 20 folders deep" in said[0]
    deep = tmp_path / "in" / "eve"
    deep.mkdir(parents=True)
    (deep / "91-small.ipynb").write_text("e")
    here = os.open(deep, os.O_RDONLY)
    try:
        for _ in range(1_100):
            os.mkdir("d", dir_fd=here)
            inner = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
    finally:
        os.close(here)
    try:
        assert take(tmp_path / "in", tmp_path / "more", LAB, said.append) == ["eve"]
        assert list(read_files(tmp_path / "in")) == ["eve/91-small.ipynb"]
    finally:
        subprocess.run(["rm", "-rf", str(deep)], check=True)


def test_one_students_floods_leave_the_others_their_room(taken, monkeypatch):
    monkeypatch.setattr(received, "MOST_STUDENT_BYTES", 1_000)
    noise = bytes(random.Random(1).randbytes(600))
    files, _, said = taken(
        ("eve/a", noise), ("eve/b", noise), ("eve/91-small.ipynb", "e"), ("frank/91-small.ipynb", "f")
    )
    assert sorted(files) == ["eve/91-small/a", "frank/91-small/91-small.ipynb"]
    assert said[0] == "  left out: 'eve/b': beyond 1,000 bytes of eve"
