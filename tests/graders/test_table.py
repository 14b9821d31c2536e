"""The page of `make mutants` is of the code as it stands, and says of it what the sheets demand."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import table
from sheets import Sheet, Wrong, all_sheets
from table import Played

SHEETS = {sheet.exercise: sheet for sheet in all_sheets()}
names = pytest.mark.parametrize("name", SHEETS)


def rows(part: str) -> dict[str, list[str]]:
    """The cells of a section's table by answer."""
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines[1:]}


def as_told(tags: str, wrong: Wrong) -> bool:
    """Is ``tags``, as a cell of the page has it, the tag of ``wrong``, but for its rare one in few courses?"""
    counts = dict(part.split(" × ") for part in tags.split(", ")) if "×" in tags else {tags: "1"}
    rare = int(counts.pop(wrong.rarely, 0)) if wrong.rarely else 0
    return list(counts) == [wrong.tag] and 20 * rare <= int(counts[wrong.tag])


def problems(sheet: Sheet, part: str) -> list[str]:
    """What a section says that the sheet does not allow."""
    found = []
    for answer, (_, lowest, highest, measured, tags) in rows(part).items():
        wrong = sheet.wrong.get(answer, Wrong(sheet.right, 1.0, 1.0, "none"))
        least, most = float(lowest.rstrip(" %")), float(highest.rstrip(" %"))
        if least < 100 * wrong.lowest - 0.1 or most > 100 * wrong.highest + 0.1:
            found.append(f"{answer}: {lowest} to {highest}, the sheet says {wrong.lowest} to {wrong.highest}")
        if not as_told(tags, wrong):
            found.append(f"{answer}: told {tags}, the sheet says {wrong.tag}")
        near = [cut for cut in table.cuts(sheet) if measured != "-" and abs(float(measured[:-2]) - cut) < 3]
        found += [f"{answer}: measured {measured}, and a band begins at {cut:g} %" for cut in near]
    return found


@names
def test_the_page_is_of_the_code_as_it_stands(name):
    assert not table.stale(name, table.stored()), (
        f"the check or the sheet of {name} has changed: run make mutants"
    )


@names
def test_over_all_secrets_each_answer_has_its_share_its_tag_and_no_band_near_its_mean(name):
    part = table.stored()[name]
    assert list(rows(part)) == table.answers(SHEETS[name])
    assert problems(SHEETS[name], part) == []


def test_a_share_outside_its_interval_another_tag_and_a_mean_near_a_band_are_found():
    sheet = SHEETS["02.pool"]
    played = {answer: [Played(wrong.highest, None, wrong.tag)] for answer, wrong in sheet.wrong.items()}
    played = {table.RIGHT: [Played(1.0, 100, "")], **played}
    assert problems(sheet, table.section(sheet, played)) == []

    played["any-bigger"] = [Played(0.3, 0, "any-bigger"), Played(0.5, 30, "slow")]
    played["own-stream-only"] = [Played(0.7, 73, "own-stream-only")]
    assert problems(sheet, table.section(sheet, played)) == [
        "any-bigger: 30.0 % to 50.0 %, the sheet says 0.3 to 0.3",
        "any-bigger: told any-bigger × 1, slow × 1, the sheet says any-bigger",
        "own-stream-only: measured 73.0 %, and a band begins at 75 %",
    ]


def test_a_rare_tag_is_allowed_where_the_sheet_names_it_and_only_while_it_is_rare():
    wrong = Wrong(None, 0.3, 0.5, "fixed", rarely="whole")
    assert as_told("fixed", wrong) and as_told("fixed × 59, whole × 1", wrong)
    for tags in (
        "whole",
        "fixed × 9, whole × 1",
        "fixed × 59, other × 1",
        "fixed × 118, whole × 1, other × 1",
    ):
        assert not as_told(tags, wrong)
    assert not as_told("fixed × 59, whole × 1", Wrong(None, 0.3, 0.5, "fixed"))


def test_the_digest_is_of_the_check_its_rules_its_sheet_and_its_reference_and_not_of_hints():
    files = {path.relative_to(table.ROOT).as_posix() for path in table.code_of("02.first-fit")}
    assert {
        "autograder/checks/lab02/first_fit.py",
        "autograder/checks/lab02/cases.py",
        "autograder/checks/lab02/pieces.py",
        "autograder/checks/played.py",
        "autograder/references/lab02.py",
        "tests/graders/lab02_mutants.py",
        "tests/graders/sheet_lab02_bytes.py",
    } <= files
    assert not [path for path in files if re.search(r"hints|__init__|sheets\.py|pool", path)]


def test_sections_are_found_again_on_the_page_they_make():
    sheet = SHEETS["02.strand"]
    part = table.section(sheet, {table.RIGHT: [Played(1.0, None, "")]})
    other = part.replace("02.strand", "02.other")
    assert table.sections(table.page({"02.strand": part, "02.other": other})) == {
        "02.strand": part,
        "02.other": other,
    }


def test_played_again_a_course_gives_the_same():
    once = table.plays("02.best-fit", 3, 2)
    assert once == table.plays("02.best-fit", 3, 2)
    assert [(row.share, row.tag) for row in once["worst-fit"]] == [(0.0, "worst-fit")] * 2
