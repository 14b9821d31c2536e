"""Lab 02's checks: what the reference, the stub, each misconception and every shortcut earn."""

import importlib.util
import inspect
import json
import re
import sys
from pathlib import Path

import pytest
from sheets import course_of

from autograder import answerer
from autograder.answerer import Answerer
from autograder.channel import AnswerFault, Asker, InProcess
from autograder.checks import exercises, played
from autograder.checks.lab02 import first_fit, first_fit_play, first_fit_words, pieces, predict_oom, strand
from autograder.checks.lab02.cases import BYTES_PER_TOKEN, Case, chats, graded_case, play, small_case
from autograder.course import Course
from autograder.judge import Sitting
from autograder.references.lab02 import MyAllocator
from autograder.verdict import Commitments
from gpulab import datasets
from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import Allocator
from gpulab.memory.replay import ByteClaim
from gpulab.telemetry import shape
from gpulab.units import MiB

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mutants, adapters = loaded("lab02_mutants"), loaded("lab02_adapters")
FIRST_FIT, OOM, STRAND = (exercises()[name] for name in ("02.first-fit", "02.predict-oom", "02.strand"))
COURSES = [Course.of(f"course {n}", f"secret {n}".encode()) for n in range(2)]
NOBODY = Commitments()


def graded(make, course=COURSES[0], said=NOBODY):
    """The score of a build, and how many questions it took."""
    asker = InProcess(make)
    try:
        return FIRST_FIT.grade(course, said, asker), asker.asked
    finally:
        asker.close()


@pytest.fixture
def pictures():
    """Asked for by the tests that look at one: drawing takes longer than judging."""


@pytest.fixture(autouse=True)
def no_pictures(request, monkeypatch):
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(predict_oom, "_map", lambda ledger: None)
        monkeypatch.setattr(strand, "_map", lambda loading: None)
        monkeypatch.setattr(first_fit_words, "_picture", lambda outcome: None)


def everything(course, exercise, learner="ann", **answered):
    """All that a learner can type for ``exercise``, with the right cause and evidence."""
    if exercise is FIRST_FIT:
        cause, shows = exercise.key(course, learner)
    else:
        cause, shows = OOM.evidence(OOM.puzzle(course, learner).shown)
    predicted = dict.fromkeys(exercise.predicts, 1)
    return Commitments(learner, predicted, {"cause": cause, "events": sorted(shows)}, answered)


def oom_key(course, learner="ann"):
    key = OOM.key(OOM.puzzle(course, learner).graded)
    return {"largest_a": key.largest_a, "largest_b": key.largest_b, "blocks_it": key.blocks_it}


# -- the parts of a mark -----------------------------------------------------------------------------


class Stub(Allocator):
    """The skeleton as it is handed out."""

    def prepare(self):
        self.holes = [(0, self.capacity)]

    def place(self, size):
        raise NotImplementedError("yours to write")

    def reclaim(self, offset, size):
        raise NotImplementedError("yours to write")


def test_prediction_and_reconciling_carry_a_tenth_and_a_fifth():
    course = COURSES[0]
    said = everything(course, FIRST_FIT)
    assert graded(Stub, course, said)[0].points == 1.8
    assert graded(Stub, course, Commitments("ann", said.predicted))[0].points == 0.6
    assert graded(Stub, course, Commitments("ann", {}, said.reconciled))[0].points == 1.2
    half = {**said.reconciled, "events": [0]}
    assert graded(Stub, course, Commitments("ann", {}, half))[0].points == 0.6
    said = everything(course, OOM)
    assert OOM.grade(course, said, None).points == 0.9
    assert OOM.grade(course, Commitments("ann", said.predicted), None).points == 0.3


# -- the mutants of the build -----------------------------------------------------------------------


@pytest.mark.parametrize("name", mutants.FIRST_FIT)
def test_feedback_on_a_wrong_build_is_a_small_public_trace_with_its_picture(name, pictures):
    said = graded(mutants.FIRST_FIT[name][0])[0].feedback
    assert said.where == played.PUBLIC
    assert said.picture.svg().startswith("<svg")
    assert said.question.endswith("?")
    assert re.fullmatch(r"#\d+, a claim of .+ B\)", said.event)
    assert int(re.match(r"#(\d+)", said.event)[1]) < 40


def test_over_the_socket_a_wrong_build_gets_the_same_score(kernel):
    sitting = Sitting(COURSES[0], "ann")
    load = (
        inspect.getsource(loaded)
        + f"import sys\nfrom pathlib import Path\nimport importlib.util\nHERE = Path({str(HERE)!r})\n"
    )
    try:
        notebook = kernel(sitting.path)
        notebook.run(load + "from autograder.learner import *\nmutants = loaded('lab02_mutants')")
        sitting.open("02.first-fit")
        assert notebook.run("check('02.first-fit', mutants.NoCoalescing)") == "02.first-fit: received.\n"
        there = sitting.close()
        told = {}
        for exercise, wrong in (
            (OOM, mutants.PREDICT_OOM["hole-only"]),
            (STRAND, mutants.STRAND["counts-live"]),
        ):
            task = exercise.puzzle(COURSES[0], "ann")
            answered = wrong[0](getattr(task, "graded", task))
            sitting.open(exercise.id)
            call = ", ".join(f"{name}={value!r}" for name, value in answered.items())
            notebook.run(f"learner('ann')\nanswer({exercise.id!r}, {call})\ncheck({exercise.id!r})")
            told[exercise.id] = sitting.close()
    finally:
        sitting.end()
    here, _ = graded(mutants.NoCoalescing)
    assert (there.text, there.build_share, there.tag) == (here.text, here.build_share, here.tag)
    assert told["02.predict-oom"].tag == "hole-only"
    assert told["02.strand"].tag == "counts-live"


def test_feedback_on_answers_has_a_picture_of_what_was_watched(pictures):
    for exercise, answered in ((OOM, {"largest_a": 5}), (STRAND, {"reserved_mib": 5})):
        said = exercise.practise(COURSES[0], exercise.puzzle(COURSES[0], "ann"), answered).feedback
        assert said.picture.svg().startswith("<svg")
        assert said.where


def test_other_mistakes_in_answers_have_their_own_tags():
    course = COURSES[0]
    task = OOM.puzzle(course, "ann")
    right = oom_key(course)
    assert OOM.practise(course, task, {**right, "blocks_it": "zz"}).tag == "wrong-pin"
    assert OOM.practise(course, task, {**right, "largest_a": 5}).tag == "other-number"
    assert OOM.practise(course, task, {**right, "largest_a": str(right["largest_a"])}).tag == "other-number"
    assert OOM.practise(course, task, {"largest_a": float(right["largest_a"])}).build_share == 0.0
    shares = [OOM.practise(course, task, {name: value}).build_share for name, value in right.items()]
    assert shares == [pytest.approx(part / 7) for part in (3, 2, 2)]
    loading = STRAND.puzzle(course, "ann")
    right = mutants.STRAND_RIGHT(loading)
    assert STRAND.practise(course, loading, {**right, "cap_mib": 19}).tag == "cap-too-small"
    assert STRAND.practise(course, loading, {**right, "cap_mib": None}).tag == "cap-too-small"
    assert STRAND.practise(course, loading, {**right, "reserved_mib": 1}).tag == "other-number"
    assert STRAND.practise(
        course, loading, {**right, "reserved_mib": float(right["reserved_mib"])}
    ).build_share == pytest.approx(0.6)
    shares = [STRAND.practise(course, loading, {name: value}).build_share for name, value in right.items()]
    assert shares == [pytest.approx(part) for part in (0.4, 0.35, 0.25)]


def test_no_constant_answer_earns_more_than_a_quarter():
    """The mean over learners, for every value that is right for somebody, and for the values people try."""
    course, learners = COURSES[0], [f"learner {n}" for n in range(40)]
    keys = [oom_key(course, learner) for learner in learners]
    worth = {"largest_a": 3 / 7, "largest_b": 2 / 7, "blocks_it": 2 / 7}
    assert best_constant(keys, worth) <= 0.25
    loadings = [STRAND.puzzle(course, learner) for learner in learners]
    keys = [mutants.STRAND_RIGHT(loading) for loading in loadings]
    assert best_constant(keys, {"reserved_mib": 0.4, "stranded_mib": 0.35}) <= 1 / len(learners)
    for cap in (0, 20, 21, 64, 128, 512, 2**40):
        shares = [STRAND.practise(course, loading, {"cap_mib": cap}).build_share for loading in loadings[:3]]
        assert max(shares) <= 0.25


def best_constant(keys, worth):
    """The mean share of whoever types, for each field, the value that is right for most."""
    return sum(
        part * max(sum(key[name] == other[name] for key in keys) for other in keys) / len(keys)
        for name, part in worth.items()
    )


def test_neither_side_of_the_last_trace_is_the_likelier_pin():
    places = []
    for number in range(60):
        pair = OOM.puzzle(COURSES[0], f"learner {number}").graded
        places.append(
            [operation[1] for operation in pair.a if operation[0] == "alloc"].index(OOM.key(pair).blocks_it)
        )
    assert set(places) == {2, 3}
    assert 15 <= places.count(2) <= 45


# -- shortcuts --------------------------------------------------------------------------------------


def shipped_classes():
    """Every public class of gpulab.memory and telemetry.shape."""
    found = [cls for _, cls in inspect.getmembers(shape, inspect.isclass) if cls.__module__ == shape.__name__]
    for path in sorted((ROOT / "gpulab" / "memory").glob("*.py")):
        name = f"gpulab.memory.{path.stem}"
        if path.stem == "__init__":
            continue
        module = importlib.import_module(name)
        found += [cls for _, cls in inspect.getmembers(module, inspect.isclass) if cls.__module__ == name]
    return [cls for cls in found if not cls.__name__.startswith("_")]


def test_every_shipped_class_is_tried():
    names = {cls.__name__ for cls in shipped_classes()}
    assert {
        "Bump",
        "FirstFit",
        "BestFit",
        "Allocator",
        "CuPyPool",
        "Contiguous",
        "Slots",
        "Segments",
    } <= names


@pytest.mark.parametrize("make", shipped_classes(), ids=lambda cls: cls.__name__)
def test_a_class_of_gpulab_as_it_stands_earns_at_most_half_of_the_build(make):
    assert max(graded(make, course)[0].build_share for course in COURSES) <= 0.5


@pytest.mark.parametrize("make", adapters.ADAPTERS, ids=lambda cls: cls.__name__)
def test_a_short_adapter_around_a_class_of_gpulab_earns_at_most_half_of_the_build(make):
    lines = [line for line in inspect.getsource(make).splitlines() if line.strip() and '"""' not in line]
    body = [line for line in lines if not line.lstrip().startswith(("class ", "def ", "kind "))]
    assert len(body) <= 6
    assert max(graded(make, course)[0].build_share for course in COURSES) <= 0.5


@pytest.mark.parametrize("multiple", [512, 4096, MiB, 2 * MiB, 64 * MiB])
def test_first_fit_with_any_single_alignment_earns_at_most_half_of_the_build(multiple):
    class Rounded(adapters.Around):
        def place(self, size):
            return self.inner.place(adapters.up(size, multiple))

        def reclaim(self, offset, size):
            self.inner.reclaim(offset, adapters.up(size, multiple))

    assert max(graded(Rounded, course)[0].build_share for course in COURSES) <= 0.5


@pytest.mark.parametrize("shipped", adapters.AS_THEY_STAND, ids=lambda cls: cls.__name__)
def test_no_finished_allocator_lends_its_books_to_a_subclass(shipped):
    with pytest.raises(AllocatorFault, match=f"made from {shipped.__name__}, which is final"):
        type("Mine", (shipped,), {})


# -- the inputs -------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_third_to_two_thirds_of_the_claims_of_every_graded_case_are_large(scale):
    for number in range(scale(6)):
        course = Course.of(f"draws {number}", f"draws {number}".encode())
        rules = course.rules["02.first-fit"]
        for case_number in range(12):
            case = graded_case(course.graded("02.first-fit", case_number), rules, case_number)
            large = sum(claim.size >= rules["threshold"] for claim in case.claims) / len(case.claims)
            assert 0.3 <= large <= 0.7


def test_a_draw_with_too_few_large_claims_is_drawn_again():
    rules = {"threshold": 176 * MiB, "boundary": 4 * MiB}

    def shares(draw_case):
        cases = [draw_case(COURSES[0].public("shares", number)) for number in range(12)]
        return [sum(claim.size >= rules["threshold"] for claim in case.claims) / 400 for case in cases]

    assert min(shares(lambda draw: chats(draw, 400))) < 0.3
    assert min(shares(lambda draw: graded_case(draw, rules, 0))) >= 0.3


def test_a_third_of_the_cases_hold_traps_and_the_rule_refuses_in_all_kinds():
    course = COURSES[0]
    rules = course.rules["02.first-fit"]
    cases = [graded_case(course.graded("02.first-fit", n), rules, n) for n in range(12)]
    assert [case.claims[0].owner for case in cases] == ["chat 0", "chat 0", "claim 0"] * 4
    for case in cases:
        arena = first_fit.RuleArena(case.capacity, rules=rules)
        refused = sum(extent is None for _, _, extent in play(case, arena))
        assert 5 <= refused <= 200
        assert all(claim.size % 512 == 0 and 0 < claim.size <= case.capacity for claim in case.claims)


def test_no_graded_conversation_is_a_row_of_the_public_trace():
    """Arrival, prompt and output together: a case keeps the arrival and the tokens of both."""
    public = {(r.arrival_ns, r.prompt_tokens + r.output_tokens) for r in datasets.load("azure-conv-2023")}
    for course in COURSES:
        for number in (0, 1, 3, 4):
            case = chats(course.graded("02.first-fit", number), 400)
            drawn = {(claim.time_ns, claim.size // BYTES_PER_TOKEN) for claim in case.claims}
            assert len(drawn) == 400
            assert not drawn & public


def test_a_graded_build_takes_at_most_five_thousand_asks():
    assert graded(MyAllocator)[1] == 12 * 402 <= 5000


def test_keys_are_what_the_pools_and_the_account_say():
    """Nothing about a key is typed: changed sizes change it."""
    pair = OOM.puzzle(COURSES[0], "ann").graded
    larger = type(pair)(pair.device_bytes + (1 << 30), pair.a, pair.b)
    assert OOM.key(larger) != OOM.key(pair)
    for which in "ab":
        largest = getattr(OOM.key(pair), f"largest_{which}")
        pair.pool(which).allocate(largest)
        with pytest.raises(Exception, match="refused"):
            pair.pool(which).allocate(largest + 1)
    assert OOM.evidence(OOM.puzzle(COURSES[0], "ann").shown)[0] == "fragmented"
    loading = strand.Loading(36, 530, 270)  # F1
    assert strand.reserved_and_stranded(loading) == (36 * 530, 36 * 260)


def test_the_best_cap_found_is_the_best_of_all_multiples_of_two_mebibytes():
    for number in range(2):
        loading = STRAND.puzzle(COURSES[0], f"learner {number}")
        small = strand.Loading(8, loading.temp_mib, loading.weight_mib)
        every = min(strand.stranded_share(small, cap) for cap in range(20, small.temp_mib + 42, 2))
        best = min(strand.stranded_share(small, cap) for cap in strand.caps(small))
        assert best == pytest.approx(every, abs=1e-9)


def test_no_model_is_one_in_which_any_cap_would_do():
    """Of the course and learner with number 122 the first draw was: 25 layers of 221 and 44 MiB."""
    loading = STRAND.puzzle(course_of(122), "learner 122")
    assert strand.cap_credit(loading, loading.temp_mib + 41)[0] == 0.0
    assert strand.cap_credit(loading, 20)[0] == 1.0


def test_a_cap_earns_by_what_running_it_strands(monkeypatch):
    loading = strand.Loading(8, 301, 100)
    shares = {None: 0.40, 20: 0.05, 30: 0.06, 40: 0.0601, 50: 0.19, 60: 0.20}
    monkeypatch.setattr(strand, "stranded_share", lambda _, cap=None: shares[cap])
    monkeypatch.setattr(strand, "caps", lambda _: [20, 60])
    credits = [strand.cap_credit(loading, cap)[0] for cap in (20, 30, 40, 50, 60, 19, None, True, 20.0)]
    assert credits == [1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]


# -- laws and bands, one by one ---------------------------------------------------------------------

RULES = {"threshold": 4 * MiB, "boundary": 2 * MiB}


def outcome_of(make, *claims, capacity=16 * MiB, proved=None):
    """One case of ``(time, MiB, hold)`` claims: its outcome."""
    case = Case(
        capacity,
        tuple(ByteClaim(t, int(size * MiB), hold, str(n)) for n, (t, size, hold) in enumerate(claims)),
    )
    asker = InProcess(make)
    try:
        return first_fit_play.play_case(case, RULES, asker, set() if proved is None else proved)
    finally:
        asker.close()


def scripted(*answers):
    """An allocator that gives these answers, in MiB, then refuses."""
    given = iter(answers)

    class Scripted(Allocator):
        def place(self, size):
            answer = next(given, None)
            return int(answer * MiB) if type(answer) in (int, float) else answer

        def reclaim(self, offset, size):
            return None

    return Scripted


@pytest.mark.parametrize(
    ("answers", "claims", "tag"),
    [
        ((0, 0.5), [(0, 1, 9), (1, 1, 9)], "overlap"),
        ((15.5,), [(0, 1, 9)], "bounds"),
        ((-1,), [(0, 1, 9)], "bounds"),
        ((16,), [(0, 1, 9)], "bounds"),
        ((0.0001,), [(0, 1, 9)], "alignment"),
        ((0, 1), [(0, 1, 9), (1, 4, 9)], "alignment"),
        ((None,), [(0, 1, 9)], "refused-hole"),
        ((0, None), [(0, 1, 9), (1, 4, 9)], "refused-hole"),
        ((0,), [(0, 1, 1)], "no-coalescing"),  # at the end everything is free again, in two pieces
        (("0",), [(0, 1, 9)], "type"),
        ((True,), [(0, 1, 9)], "type"),
        (([0],), [(0, 1, 9)], "type"),
    ],
)
def test_an_answer_against_a_law_makes_the_case_unlawful(answers, claims, tag):
    outcome = outcome_of(scripted(*answers), *claims)
    assert (outcome.tag, outcome.lawful) == (tag, False)
    assert outcome.ledger is not None
    assert outcome.event == len(outcome.ledger) - 1


def test_a_lawful_answer_that_differs_counts_to_the_first_difference_and_no_further():
    claims = [(0, 1, 99), (1, 1, 99), (2, 1, 99), (3, 1, 99)]
    outcome = outcome_of(scripted(0, 1, 3, 2, 0), *claims)
    assert (outcome.tag, outcome.lawful) == ("higher-hole", True)
    assert (outcome.asked, outcome.equal) == (5, 2)
    assert (outcome.expected, outcome.got) == (f"offset {2 * MiB:,}", f"offset {3 * MiB:,}")
    # after the difference an unlawful answer still ends the case, and names the tag
    outcome = outcome_of(scripted(0, 1, 3, None), *claims)
    assert (outcome.tag, outcome.lawful) == ("refused-hole", False)
    outcome = outcome_of(scripted(0, 1, 3, 3), *claims)
    assert (outcome.tag, outcome.lawful) == ("overlap", False)


def test_refusing_is_right_where_no_hole_fits():
    """3 MiB in front, 13 behind: a claim of 14 fits nowhere, one of 12 fits, but not from a boundary."""
    claims = [(0, 3, 1), (1, 1, 9), (2, 14, 9), (2, 12.5, 9)]
    outcome = outcome_of(scripted(0, 3, None, None), *claims[:2], (20, 16, 1))
    assert outcome.tag != "alignment"
    arena = [(0, 3, 99), (1, 12.5, 99)]
    outcome = outcome_of(scripted(0, None, 0), *arena)
    assert (outcome.lawful, outcome.equal) == (True, 3)


@pytest.mark.parametrize(
    ("share", "credit"),
    [
        (0.0, 0.30),
        (0.49, 0.30),
        (0.5, 0.50),
        (0.79, 0.50),
        (0.8, 0.70),
        (0.94, 0.70),
        (0.95, 0.85),
        (0.99, 0.85),
        (1.0, 1.0),
    ],
)
def test_lawful_cases_earn_by_the_share_of_equal_offsets(share, credit):
    outcomes = [played.Outcome(asked=100, equal=round(100 * share)) for _ in range(12)]
    assert first_fit_play.build_share(outcomes)[0] == credit


def test_one_broken_law_caps_the_build_at_a_fifth_of_the_lawful_share():
    fine = played.Outcome(asked=10, equal=10)
    broken = played.Outcome(asked=10, equal=9, lawful=False, tag="overlap")
    share, note = first_fit_play.build_share([fine] * 11 + [broken])
    assert share == pytest.approx(0.2 * 11 / 12)
    assert "92% of the cases" in note
    assert first_fit_play.build_share([broken] * 12)[0] == 0.0


def test_the_tag_is_of_laws_first_then_of_what_is_sure_then_of_what_is_frequent():
    def outcome(tag, lawful=True, sure=True):
        return played.Outcome(asked=1, tag=tag, lawful=lawful, sure=sure)

    assert played.tag_of([outcome("")]) == ""
    assert played.tag_of([outcome("higher-hole")] * 3 + [outcome("overlap", lawful=False)]) == "overlap"
    assert played.tag_of([outcome("a", sure=False)] * 2 + [outcome("b")]) == "b"
    assert played.tag_of([outcome("a"), outcome("b"), outcome("b")]) == "b"
    assert played.tag_of([outcome("a"), outcome("b")]) == "a"
    assert played.tag_of([outcome("a", sure=False)]) == "a"


@pytest.mark.parametrize("tag", played.BROKEN)
def test_a_broken_channel_ends_the_rest_unasked(tag, monkeypatch):
    calls = []

    def broken(case, rules, asker, proved):
        calls.append(case)
        return played.Outcome(asked=1, lawful=False, tag=tag)

    monkeypatch.setattr(first_fit_play, "play_case", broken)
    outcomes = first_fit_play.judged(list(range(12)), RULES, None)
    assert (len(calls), len(outcomes)) == (1, 12)
    assert first_fit_play.build_share(outcomes)[0] == 0.0


class Faulty(Asker):
    """A channel on which everything goes well until question 700, in the middle of the second case."""

    def __init__(self, tag):
        super().__init__()
        self._answerer, self._tag = Answerer(MyAllocator), tag

    def _exchange(self, question):
        if self.asked >= 700:
            raise AnswerFault(self._tag, "as the channel says it")
        return self._answerer.answer(question)


@pytest.mark.parametrize("tag", ["gone", "silent", "oversized", "not-json", "out-of-turn", "unsendable"])
def test_a_channel_that_fails_half_way_is_named_and_nothing_graded_is_shown(tag):
    asker = Faulty(tag)
    score = FIRST_FIT.grade(COURSES[0], NOBODY, asker)
    asker._answerer.close()
    assert (score.tag, score.points) == (tag, pytest.approx(0.2 / 12 * 4.2, abs=0.01))
    assert f"{tag}: as the channel says it" in score.text
    assert score.feedback.question.endswith("?")
    assert not numbers_in(score) & graded_numbers(COURSES[0])


# -- which misconception ----------------------------------------------------------------------------


def test_what_was_proved_in_one_case_tells_misconceptions_apart_in_another():
    """A place over [0,1) and [1,2) MiB, freed left first: who joined to the right before looks not to the left."""
    claims = [
        (0, 1, 5),
        (0, 1, 6),
        (0, 14, 99),
        (10, 2, 99),
    ]  # the left neighbour was free when the right one came
    answers = (0, 1, 2, None)
    assert outcome_of(scripted(*answers), *claims).tag == "no-coalescing"
    proved = {("right", False)}
    assert outcome_of(scripted(*answers), *claims, proved=proved).tag == "joins-right-only"
    mirrored = [(0, 1, 6), (0, 1, 5), (0, 14, 99), (10, 2, 99)]
    assert outcome_of(scripted(*answers), *mirrored).tag == "no-coalescing"
    assert outcome_of(scripted(*answers), *mirrored, proved={("left", False)}).tag == "joins-left-only"
    both = {("left", False), ("right", False)}
    assert outcome_of(scripted(*answers), *claims, proved=both).tag == "refused-hole"


def test_padding_that_nobody_gets_is_told_from_a_hole_passed_over():
    claims = [(0, 1, 99), (1, 4, 99), (2, 1, 99)]  # [1, 2) MiB is padding in front of the large claim
    assert outcome_of(scripted(0, 2, 6, 0), *claims).tag == "padding-lost"
    assert outcome_of(scripted(0, 2, 6, 0), *claims, proved={pieces.PADDING}).tag == "higher-hole"
    assert outcome_of(scripted(0, 2, 1, 0), *claims).equal == 4
    far = outcome_of(scripted(0, 6, 0), (0, 1, 99), (1, 4, 99))
    assert far.tag == "higher-hole"
    skipped = outcome_of(scripted(0, 6, 11, 0), (0, 1, 99), (1, 4, 99), (2, 1, 99))
    assert (skipped.tag, skipped.equal) == ("higher-hole", 1)


def test_an_overlap_is_told_from_a_hole_not_measured_from_its_start_and_from_an_exact_fit_kept():
    whole = [(0, 16, 99), (1, 1, 99)]
    assert outcome_of(scripted(0, 0), *whole).tag == "exact-fit-kept"
    assert outcome_of(scripted(0, 1, 0.5), (0, 1, 99), (1, 1, 99), (2, 1, 99)).tag == "overlap"
    behind = [(0, 11, 99), (1, 4.5, 99)]  # 5 MiB are free behind, from the boundary on only 4
    assert outcome_of(scripted(0, 12), *behind).tag == "fits-before-aligning"
    assert outcome_of(scripted(0, 14), *behind).tag == "bounds"


# -- what feedback shows ----------------------------------------------------------------------------


def numbers_in(score):
    """Every number of four digits or more in what a learner gets to read, the picture left out."""
    text = re.sub(r"<figure>.*?</figure>", "", score.html, flags=re.DOTALL) + score.text
    return {int(found.replace(",", "")) for found in re.findall(r"\d[\d,]{3,}", text)}


def graded_numbers(course):
    """Every size of the graded cases that no public case has too."""
    rules = course.rules["02.first-fit"]
    cases = [graded_case(course.graded("02.first-fit", n), rules, n) for n in range(12)]
    public = [small_case(course.public("02.first-fit/small", n), rules) for n in range(300)]
    known = {claim.size for case in public for claim in case.claims} | {*rules.values()}
    return {claim.size for case in cases for claim in case.claims} - known


@pytest.mark.parametrize("name", mutants.FIRST_FIT)
def test_nothing_of_a_graded_input_stands_in_the_feedback(name):
    score, _ = graded(mutants.FIRST_FIT[name][0])
    assert not numbers_in(score) & graded_numbers(COURSES[0])


class OnlyLong(MyAllocator):
    """Fails only on traces longer than any public one, and says in its error what it was asked."""

    def prepare(self):
        super().prepare()
        self.count = 0

    def place(self, size):
        self.count += 1
        if self.count > 60:
            raise ValueError(f"I was asked for {size}")
        return super().place(size)


def test_a_fault_that_only_graded_inputs_show_is_told_without_any_of_their_numbers(pictures):
    score, _ = graded(OnlyLong)
    assert score.tag == "raised"
    assert "in a graded case, which is not shown" in score.text
    assert "`place` raised ValueError, line " in score.text
    assert "I was asked for" not in score.text + score.html
    assert score.feedback.picture is None
    assert not numbers_in(score) & graded_numbers(COURSES[0])


class NeverTheThird(MyAllocator):
    """Refuses a claim that is exactly as large as one of the graded ones: no public trace has it."""

    wanted = 0

    def place(self, size):
        return None if size == self.wanted else super().place(size)


def test_a_fault_that_a_few_graded_claims_show_is_shown_on_at_most_twelve_events(pictures):
    course = COURSES[0]
    rules = course.rules["02.first-fit"]
    case = graded_case(course.graded("02.first-fit", 0), rules, 0)
    make = type("Mine", (NeverTheThird,), {"wanted": case.claims[2].size})
    score, _ = graded(make)
    assert score.tag == "refused-hole"
    assert score.feedback.where == played.GRADED
    assert score.feedback.picture is not None
    assert len(numbers_in(score) & {claim.size for claim in case.claims}) <= 2


class Evil(Exception):
    def __str__(self):
        return "<script>alert('x')</script>"


def test_what_a_learners_code_raises_is_escaped_wherever_it_is_shown():
    class Raises(MyAllocator):
        def place(self, size):
            raise Evil

    score, _ = graded(Raises)
    assert "raised Evil: <script>" in score.text
    assert "<script" not in score.html
    assert "&lt;script&gt;" in score.html


def test_an_endless_loop_is_met_in_two_cases_and_once_more_to_be_shown(monkeypatch):
    monkeypatch.setattr(answerer, "TICK_SECONDS", 0.02)
    interrupted = []

    class Endless(MyAllocator):
        def place(self, size):
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                interrupted.append(size)
                raise

    asker = InProcess(Endless)
    score = FIRST_FIT.visible(COURSES[0], NOBODY, asker)
    asker.close()
    assert score.tag == "too-long"
    assert len(interrupted) == 2 + 1
    assert score.build_share == 0
    assert "went on until it was interrupted, line " in score.text


def test_a_class_that_cannot_be_made_is_told_so_without_an_event():
    class Unmade(MyAllocator):
        def prepare(self):
            raise KeyError("x")

    text = graded(Unmade)[0].text
    assert "before the first claim, when your object was made" in text
    assert "making your object raised KeyError: 'x', line " in text


def test_a_code_that_answers_differently_the_second_time_is_shown_what_it_did_the_first(monkeypatch):
    """The fault showed in the graded run and never again: feedback has words, no picture, no number."""
    calls = []

    class Once(MyAllocator):
        def place(self, size):
            calls.append(size)
            return None if len(calls) == 3 else super().place(size)

    score, asks = graded(Once)
    said = score.feedback
    assert (score.tag, said.where) == ("refused-hole", "")
    assert (said.expected, said.got, said.picture) == ("the rule's answer", "another", None)
    assert said.question.startswith("Some bytes would hold it.")
    assert score.build_share == pytest.approx(0.2 * 11 / 12)
    assert asks < 200_000
    assert not numbers_in(score) & graded_numbers(COURSES[0])


def test_the_answers_of_a_learner_are_cut_and_shown_as_they_were_typed():
    long = "x" * 200
    told = OOM.practise(COURSES[0], OOM.puzzle(COURSES[0], "ann"), {"largest_a": long, "largest_b": 2**62})
    assert len(told.feedback.got) < 80
    told = STRAND.practise(COURSES[0], STRAND.puzzle(COURSES[0], "ann"), {"reserved_mib": "<b>" + long})
    assert len(told.feedback.got) <= 60
    assert "<b>" not in told.html
    assert json.dumps(told.text)
