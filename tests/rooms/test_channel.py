"""Every answer that a learner's side can give becomes a named verdict, and the next question still works.

In process and over a real socket alike. The far end of the socket is a child process in most tests; where
the learner's side must lie on the wire, it is a thread that writes raw packets.
"""

import copy
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, defaultdict, deque, namedtuple
from pathlib import Path

import numpy as np
import pytest

from autograder import answerer, channel
from autograder.answerer import Answerer, TimeNet, TookTooLong, Unsendable, opened, plain
from autograder.channel import AnswerFault, InProcess, OverSocket

ROOT = Path(__file__).resolve().parents[2]


Pair = namedtuple("Pair", "first last")


class Equal:
    """Claims to be equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = None


class Nameless(Exception):
    def __str__(self):
        raise SystemExit("no text")

    __repr__ = __str__


class Rude:
    """Answers what the question names; ``reclaim`` fails when told to."""

    def __init__(self, **settings):
        self.settings = settings

    def say(self, what):
        if what == "endless":
            while True:
                pass
        if what == "sleep":
            time.sleep(60)
        if what == "exit":
            raise SystemExit(3)
        if what == "raise":
            raise KeyError("size\n\ud800" + "x" * 1000)
        if what == "nameless":
            raise Nameless
        if what == "index":
            return LoopsInIndex()
        return ANSWERS[what]()

    def reclaim(self, what):
        self.say(what)


class LoopsInIndex:
    def __index__(self):  # noqa: PLE0305
        while True:
            pass


def deep():
    nested = []
    for _ in range(100):
        nested = [nested]
    return nested


ANSWERS = {
    "array": lambda: np.zeros(3),
    "nan": lambda: float("nan"),
    "infinite": lambda: np.float64("inf"),
    "text of 10 MB": lambda: "x" * 10_000_000,
    "text of 100 kB": lambda: "x" * 100_000,
    "deep": deep,
    "digits": lambda: 10**50_000,
    "set": lambda: {1},
    "equal": Equal,
    "keys": lambda: {1: 2},
    "numpy": lambda: np.int64(4096),
    "numpy float": lambda: np.float32(0.5),
    "tuple": lambda: (1, True, None, "a", 2.5),
    "counter": lambda: Counter(used=3),
    "default": lambda: defaultdict(int, used=np.int64(3)),
    "deque": lambda: deque([1, 2]),
    "named tuple": lambda: Pair(1, 2),
    "text": lambda: "0",
    "true": lambda: True,
    "half": lambda: 0.5,
    "none": lambda: None,
}
UNSENDABLE = (
    *("array", "nan", "infinite", "text of 10 MB", "text of 100 kB", "deep", "digits", "set", "equal"),
    "keys",
)
CARRIED = {
    "numpy": 4096,
    "numpy float": 0.5,
    "tuple": [1, True, None, "a", 2.5],
    "counter": {"used": 3},
    "default": {"used": 3},
    "deque": [1, 2],
    "named tuple": [1, 2],
    "text": "0",
    "true": True,
    "half": 0.5,
    "none": None,
}

# The learner's process: this module's Rude behind ``serve``.
SERVES = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("rude", sys.argv[2])
rude = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rude)
from autograder import answerer
answerer.TICK_SECONDS = 0.05
answerer.serve(sys.argv[1], ["rude", {}], rude.Rude)
"""


@pytest.fixture
def listener(tmp_path):
    with listening_in(tmp_path) as listening:
        yield listening


def listening_in(folder):
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(folder / "judge"))
    listening.listen(1)
    return listening


def over_socket(listening, source=SERVES):
    """A child process that answers as ``Rude``, the connection to it, and an asker on that."""
    child = subprocess.Popen(
        [sys.executable, "-c", source, listening.getsockname(), __file__], cwd=ROOT, stderr=subprocess.PIPE
    )
    connection, _ = listening.accept()
    connection.recv(1000)  # hello
    return child, connection, OverSocket(connection)


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """One conversation with one child for all tests: whatever a test did, the next question is answered."""
    with listening_in(tmp_path_factory.mktemp("remote")) as listening:
        child, connection, asking = over_socket(listening)
    asking._until = float("inf")
    asking.new({})
    yield asking
    with connection:
        connection.send(b"received")
    child.communicate(timeout=10)


@pytest.fixture(params=["in process", "over the socket"])
def asker(request, monkeypatch):
    """An asker whose other end is a ``Rude``, which has been made already."""
    if request.param == "over the socket":
        yield request.getfixturevalue("remote")
        return
    monkeypatch.setattr(answerer, "TICK_SECONDS", 0.05)
    asking = InProcess(Rude)
    asking.new({})
    yield asking
    asking.close()


def verdict(asking, *question):
    with pytest.raises(AnswerFault) as caught:
        asking.ask(*question)
    return caught.value


@pytest.mark.parametrize("what", CARRIED)
def test_plain_and_numpy_answers_arrive_with_their_exact_type(asker, what):
    answer = asker.ask("say", [what])
    assert (answer, type(answer)) == (CARRIED[what], type(CARRIED[what]))


@pytest.mark.parametrize("what", UNSENDABLE)
def test_what_json_cannot_carry_is_called_unsendable_and_the_next_question_is_answered(asker, what):
    fault = verdict(asker, "say", [what])
    assert fault.tag == "unsendable"
    assert 0 < len(str(fault)) <= 300
    assert asker.ask("say", ["numpy"]) == 4096


@pytest.mark.parametrize(
    ("what", "kind"),
    [("raise", "KeyError"), ("exit", "SystemExit"), ("nameless", "Nameless")],
)
def test_whatever_is_raised_is_an_answer_with_its_type_and_line(asker, what, kind):
    fault = verdict(asker, "say", [what])
    assert (fault.tag, fault.detail["type"], fault.detail["method"]) == ("raised", kind, "say")
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[fault.detail["line"] - 1]
    assert line.strip().startswith("raise ")
    assert str(fault).isprintable()
    assert len(str(fault)) <= 300
    assert asker.ask("say", ["numpy"]) == 4096


@pytest.mark.parametrize("what", ["endless", "sleep", "index"])
def test_a_call_without_end_is_interrupted_and_named_with_its_line(asker, what):
    fault = verdict(asker, "say", [what])
    assert (fault.tag, fault.detail["method"]) == ("too-long", "say")
    assert fault.detail["line"] > 0
    assert asker.ask("say", ["numpy"]) == 4096


def test_a_call_without_end_is_interrupted_where_nobody_can_press_stop(asker):
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in whatever a shell started with "&"
    try:
        assert verdict(asker, "say", ["endless"]).tag == "too-long"
    finally:
        signal.signal(signal.SIGINT, heard)
    assert asker.ask("say", ["numpy"]) == 4096


def test_a_call_that_is_only_told_is_judged_under_its_own_name(asker):
    assert verdict(asker, "say", ["numpy"], [["reclaim", ["raise"]]]).detail["method"] == "reclaim"
    assert verdict(asker, "say", ["numpy"], [["reclaim", ["endless"]]]).detail["method"] == "reclaim"
    assert verdict(asker, "nothing", []).detail["type"] == "AttributeError"
    assert asker.ask("say", ["numpy"], [["reclaim", ["none"]]]) == 4096


def test_a_class_that_cannot_be_made_is_an_answer_too():
    def make(**settings):
        raise ValueError(f"no {settings}")

    asking = InProcess(make)
    with pytest.raises(AnswerFault, match=r"no \{'capacity': 1\}") as caught:
        asking.new({"capacity": 1})
    asking.close()
    assert (caught.value.tag, caught.value.detail["method"]) == ("raised", "new")


def test_a_line_in_gpulab_is_never_given_as_the_learners(asker):
    from gpulab.memory.allocator import Allocator

    class Broken(Allocator):
        def prepare(self):
            raise KeyError("mine")

        def place(self, size):
            return 0

        def reclaim(self, offset, size):
            return None

    asking = InProcess(Broken)
    line = verdict(asking, "new", [{"capacity": 512}]).detail["line"]
    asking.close()
    assert 'raise KeyError("mine")' in Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]


def test_a_process_that_ends_in_the_middle_is_gone(listener):
    source = SERVES.replace(
        "answerer.serve(", "rude.Rude.say = lambda self, what: rude.os._exit(0)\nanswerer.serve("
    )
    child, connection, asking = over_socket(listener, source)
    asking.new({})
    assert verdict(asking, "say", ["numpy"]).tag == "gone"
    assert verdict(asking, "say", ["numpy"]).tag == "gone"
    connection.close()
    child.communicate(timeout=10)


def test_a_loop_that_swallows_every_interrupt_is_silent(listener, monkeypatch):
    swallows = """
    def say(self, what):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
    rude.Rude.say = say
    """
    monkeypatch.setattr(channel, "ASK_SECONDS", 1)
    source = SERVES.replace("answerer.serve(", textwrap.dedent(swallows) + "answerer.serve(")
    child, connection, asking = over_socket(listener, source)
    asking.new({})
    assert verdict(asking, "say", [0]).tag == "silent"
    connection.close()
    child.kill()
    child.communicate(timeout=10)


def test_a_check_whose_time_is_over_asks_no_more(asker, monkeypatch):
    monkeypatch.setattr(asker, "_until", 0.0)
    before = asker.asked
    assert verdict(asker, "say", ["numpy"]).tag == "silent"
    assert asker.asked == before


# -- lies on the wire -------------------------------------------------------------------------------


def told(packets, *, after=1):
    """The verdict on question number ``after`` when a hostile process writes these raw packets to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def lie():
        for number in range(1, after):
            theirs.recv(1 << 17)
            theirs.send(json.dumps([number, "ok", 0]).encode())
        theirs.recv(1 << 17)
        for packet in packets:
            theirs.send(packet)

    liar = threading.Thread(target=lie)
    liar.start()
    asking = OverSocket(ours)
    for _ in range(1, after):
        asking.ask("place", [512])
    try:
        return asking.ask("place", [512])
    except AnswerFault as fault:
        return fault.tag, fault.detail
    finally:
        liar.join()
        ours.close()
        theirs.close()


@pytest.mark.parametrize(
    ("packet", "tag"),
    [
        (b"", "gone"),
        (b"[" * 60_000, "not-json"),
        (b'[1,"ok",' + b"[" * 60 + b"]" * 60 + b"]", "not-json"),
        (b'[1,"ok",NaN]', "not-json"),
        (b'[1,"ok",' + b"9" * 50_000 + b"]", "not-json"),
        (b"\xff\xfe\x00", "not-json"),
        (b'[1,"ok",0]' + b" " * 65_536, "oversized"),
        (b'[7,"ok",0]', "out-of-turn"),
        (b'[true,"ok",0]', "out-of-turn"),
        (b'[1,"ok"]', "out-of-turn"),
        (b'{"1":"ok"}', "out-of-turn"),
        (b"null", "out-of-turn"),
        (b'[1,"won",0]', "out-of-turn"),
        (b'[1,["ok"],0]', "out-of-turn"),
        (b'[1,"raised",' + b"[" * 300 + b"]" * 300 + b"]", "raised"),
    ],
)
def test_a_raw_packet_that_is_no_answer_gets_a_name(packet, tag):
    assert told([packet])[0] == tag


def test_a_flood_of_answers_does_not_pass_for_the_next_one():
    assert told([b'[1,"ok",0]'] * 3, after=1) == 0
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        asking = OverSocket(ours)
        for _ in range(3):
            theirs.send(b'[1,"ok",0]')
        assert asking.ask("place", [512]) == 0
        assert verdict(asking, "place", [512]).tag == "out-of-turn"


def test_only_text_and_a_line_of_a_refusal_are_kept_and_cut():
    detail = {
        "type": "T" * 999,
        "text": "a\x00b\u202e" + "x" * 999,
        "method": ["place"],
        "line": "7",
        "size": "1e9",
        "pieces": {},
    }
    tag, kept = told([json.dumps([1, "raised", detail]).encode()])
    assert tag == "raised"
    assert kept == {"type": "T" * 60, "text": "a?b?" + "x" * 296}
    assert told([b'[1,"raised",{"line":12,"method":"place"}]'])[1] == {"line": 12, "method": "place"}
    assert told([b'[1,"raised",{"line":true}]'])[1] == {}


def test_file_descriptors_that_come_with_an_answer_are_dropped():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, open(os.devnull) as null:
        socket.send_fds(theirs, [b'[1,"ok",5]'], [null.fileno()] * 10)
        before = len(os.listdir("/proc/self/fd"))
        assert OverSocket(ours).ask("place", [1]) == 5
        assert len(os.listdir("/proc/self/fd")) == before


# -- the net of time --------------------------------------------------------------------------------


@pytest.fixture
def net(monkeypatch):
    monkeypatch.setattr(answerer, "TICK_SECONDS", 0.03)
    made = TimeNet()
    yield made
    made.close()


def test_the_learners_own_stop_is_not_taken_for_the_nets(net):
    with pytest.raises(KeyboardInterrupt):
        net.limit(signal.raise_signal, signal.SIGINT)
    with pytest.raises(TookTooLong):
        net.limit(time.sleep, 60)
    with pytest.raises(KeyboardInterrupt):
        net.limit(signal.raise_signal, signal.SIGINT)
    asking = InProcess(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        asking.new({})
    asking.close()


def test_a_machine_that_has_no_time_for_a_call_costs_it_nothing_until_it_stands_still(monkeypatch):
    monkeypatch.setattr(answerer, "TICK_SECONDS", 0.2)
    net = TimeNet()
    net.limit(time.sleep, 0.5)  # two ticks or three, and nothing computed
    with pytest.raises(TookTooLong):
        net.limit(time.sleep, 60)
    net.close()


def test_an_interrupt_that_comes_late_never_reaches_other_code(net, monkeypatch):
    """The worst moment: the net has decided, the call ends, and only then is the interrupt sent."""
    send = answerer._interrupt_main

    def send_late():
        time.sleep(0.1)
        send()

    def ends_at_that_moment():
        while net._fired is None:
            pass

    monkeypatch.setattr(answerer, "_interrupt_main", send_late)
    try:
        with pytest.raises(TookTooLong):
            net.limit(ends_at_that_moment)
        time.sleep(0.2)
    except KeyboardInterrupt:
        pytest.fail("the interrupt reached code outside the call")
    assert net.limit(lambda: 7) == 7


def test_a_call_that_survives_its_interrupt_keeps_its_answer(net):
    def stubborn():
        try:
            while True:
                pass
        except KeyboardInterrupt:
            return "late"

    assert net.limit(stubborn) == "late"
    assert net.limit(lambda: 7) == 7


def test_many_short_calls_are_never_interrupted(net):
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        assert net.limit(int) == 0


def test_away_from_the_main_thread_nothing_is_interrupted():
    seen = []

    def work():
        asking = Answerer(lambda: None)
        seen.append(asking.answer('[1,"new",[{}],[]]'))
        seen.append(asking._net._thread.ident)
        asking.close()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == ['[1,"ok",null]', None]


def test_closing_leaves_no_thread_behind(monkeypatch, tmp_path):
    before = threading.active_count()
    InProcess(Rude).close()
    with pytest.raises(FileNotFoundError):
        answerer.serve(tmp_path / "nobody", [], Rude)
    assert threading.active_count() == before


def test_a_whole_number_keeps_its_digits_up_to_the_limit():
    assert plain(-(2**4095)) == -(2**4095)
    with pytest.raises(Unsendable, match="4,097 bits"):
        plain(2**4096)


def test_a_check_runs_where_there_are_no_unix_sockets_and_no_posix_modules():
    code = """
    import sys
    for name in ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog", "curses"):
        sys.modules[name] = None
    import os, signal, socket
    del socket.AF_UNIX, signal.pthread_kill, os.fork, os.getuid
    if hasattr(socket, "SOCK_SEQPACKET"):
        del socket.SOCK_SEQPACKET
    from autograder import answerer, learner
    from autograder.references.lab02 import MyAllocator
    answerer.TICK_SECONDS = 0.05
    print(learner.check("02.first-fit", MyAllocator).text)

    class Endless(MyAllocator):
        def place(self, size):
            while True:
                pass
    print(learner.check("02.first-fit", Endless).score.tag)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "passed on the public inputs" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "too-long"


def test_a_judge_can_let_mappings_be_read_as_objects_at_any_depth():
    class Reader:
        def __init__(self, rules):
            self.weight = rules["weight"]  # what it is made with stays a mapping

        def rank(self, view):
            return [self.weight * job.made for job in view.jobs]

    asker = InProcess(Reader)
    try:
        asker.new({"rules": {"weight": 2}}, "objects")
        assert asker.ask("rank", [{"jobs": [{"made": 3}, {"made": 4}]}]) == [6, 8]
        asker.new({"rules": {"weight": 2}})
        with pytest.raises(AnswerFault, match="'dict' object has no attribute 'jobs'"):
            asker.ask("rank", [{"jobs": []}])
    finally:
        asker.close()


def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    view = opened({"now_ns": 7, "waiting": [{"id": 1, "tenant": "chat"}]})
    assert (view.waiting[0].tenant, hasattr(view, "later"), copy.deepcopy(view) == view) == (
        "chat",
        False,
        True,
    )
    with pytest.raises(AttributeError, match="there is no 'idd' here; there are id, tenant"):
        _ = view.waiting[0].idd
