"""03.kv-bytes: the published sizes of known models, and what its feedback shows."""

import sys
from pathlib import Path

import pytest

from autograder.checks.lab03.kv_bytes import KINDS, Card, _case, rule
from autograder.course import Course
from autograder.references.lab03_blocks import kv_bytes
from autograder.verdict import Commitments

sys.path.insert(0, str(Path(__file__).parent))
from sheets import course_of, graded, loaded

SHEET = loaded("sheet_lab03_kv_bytes").SHEETS[0]
OPT_13B = Card(40, 5120, 40, 40, 128, "float16", 1, 0, 0)  # Kwon et al., PagedAttention, section 3: 800 KB
LLAMA_3_8B = Card(32, 4096, 32, 8, 128, "bfloat16", 1, 0, 0)
DEEPSEEK_V3 = Card(61, 7168, 128, 128, 128, "bfloat16", 1, 576, 0)


@pytest.mark.parametrize(
    ("card", "published"), [(OPT_13B, 819_200), (LLAMA_3_8B, 131_072), (DEEPSEEK_V3, 70_272)]
)
def test_the_rule_gives_the_published_sizes(card, published):
    assert rule(card) == kv_bytes(card.fields(), {"checksum": 0}) == published


def test_every_kind_of_card_is_in_two_of_twelve_cases_and_the_rule_is_the_reference_on_all():
    for number in range(12):
        cards = _case(course_of(0).graded("03.kv-bytes", number), number, 12)
        assert [rule(card) for card in cards] == [kv_bytes(card.fields(), {"checksum": 12}) for card in cards]
        assert any(card.hidden != card.heads * card.head_dim for card in cards)
        assert all(bool(card.latent) == (KINDS[number % 6] == "latent") for card in cards)
        assert all((card.tp > card.kv_heads) == (KINDS[number % 6] == "replicated") for card in cards)


def test_feedback_shows_a_public_card_with_the_answer_given_for_it():
    said = graded(SHEET, SHEET.wrong["latent-twice"].hands_in, course_of(0), Commitments())[0].feedback
    again = graded(SHEET, SHEET.wrong["latent-twice"].hands_in, course_of(0), Commitments())[0].feedback
    assert said == again
    assert "latent" in said.event
    assert int(said.got.replace(",", "")) == 2 * int(said.expected.replace(",", ""))


def test_a_number_of_another_type_and_an_exception_are_told_as_such():
    floats = graded(SHEET, lambda card, rules: float(rule(LLAMA_3_8B)), course_of(0), Commitments())[0]
    raising = graded(SHEET, lambda card, rules: card["window"], course_of(0), Commitments())[0]
    assert (floats.tag, floats.points) == ("type", 0.0)
    assert (raising.tag, raising.points) == ("raised", 0.0)
    assert "KeyError" in raising.feedback.got


def test_the_checksum_is_the_same_for_everybody_of_a_course():
    assert course_of(0).rules["03.kv-bytes"] == Course.of("course 0", b"secret 0").rules["03.kv-bytes"]
