"""Pickles from elsewhere: plain data comes out as it went in; anything else is refused before it can do harm."""

import collections
import os
import pickle
import struct

import pytest

from gpulab.memory.plain_pickle import NotPlain, read_plain_pickle

PLAIN = {
    "segments": [
        {"address": 1 << 46, "pool": (0, 0), "share": 0.5, "big": [True, False, None, (), (1, 2, 3, 4)]}
    ],
    "sizes": [0, 255, 256, 65_535, 65_536, -1, 1 << 31, -(1 << 62), 1 << 64],
    "text": ["", "é", "x" * 300, "\ud800"],
    7: {},
}


class RunsCode:
    def __reduce__(self):
        return os.system, ("touch pwned",)


class HasState:
    pass


def refusal(data: bytes) -> str:
    with pytest.raises(NotPlain) as refused:
        read_plain_pickle(data)
    return str(refused.value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_out_as_it_went_in(protocol):
    assert read_plain_pickle(pickle.dumps(PLAIN, protocol)) == PLAIN


def test_values_that_the_pickle_shares_are_shared_and_a_list_may_hold_itself():
    frames = [{"name": "f"}]
    loop: list = []
    loop.append(loop)

    first, second, again = read_plain_pickle(pickle.dumps([frames, frames, loop]))

    assert first is second
    assert again[0] is again


def test_long_texts_and_numbers_have_forms_of_their_own():
    text = b"\x8d" + struct.pack("<Q", 3) + b"abc"
    assert read_plain_pickle(b"\x80\x04" + text + b".") == "abc"
    assert read_plain_pickle(b"\x80\x04\x8a\x00.") == 0


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        RunsCode(),
        [1, {"a": RunsCode()}],
        HasState(),
        os.system,
        collections.OrderedDict(a=1),
        {1, 2},
        b"bytes",
        1j,
    ],
    ids=["reduce", "reduce-deep", "object", "function", "ordered-dict", "set", "bytes", "complex"],
)
def test_what_is_more_than_plain_data_is_refused_and_nothing_runs(protocol, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    refusal(pickle.dumps(value, protocol))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (b"cos\nsystem\n(S'touch pwned'\ntR.", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
        (b"(ios\nsystem\n.", "INST"),
        (b"N)R.", "REDUCE"),
        (b"}}b.", "BUILD"),
        (b"N)\x81.", "NEWOBJ"),
        (b"N)}\x92.", "NEWOBJ_EX"),
        (b"(No.", "OBJ"),
        (b"Pid\n.", "PERSID"),
        (b"NQ.", "BINPERSID"),
        (b"\x82\x01.", "EXT1"),
        (b"\x83\x01\x00.", "EXT2"),
        (b"\x84\x01\x00\x00\x00.", "EXT4"),
    ],
)
def test_each_instruction_that_could_call_something_is_refused_by_name(code, name):
    assert f"({name}) would load or call code; only plain data is read, and nothing was run" in refusal(
        b"\x80\x04" + code
    )


@pytest.mark.parametrize("protocol", [2, 4])
def test_every_pickle_that_is_cut_off_is_refused(protocol):
    data = pickle.dumps(PLAIN, protocol)
    for length in range(len(data)):
        refusal(data[:length])


def test_a_cut_says_where_and_of_how_much():
    data = pickle.dumps(PLAIN, 4)
    assert f"cut off, or takes what is not there: byte {len(data) - 1:,} of {len(data) - 1:,}" in refusal(
        data[:-1]
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no pickle of protocol 2 to 5"),
        (pickle.dumps([1], 0), "protocol 0 or 1, or no pickle"),
        (b"\x80\x06N.", "protocol 6"),
        (b"\x80\x04.", "with 0 values instead of one"),
        (b"\x80\x04NN.", "with 2 values instead of one"),
        (b"\x80\x04(N.", "values instead of one"),
        (b"\x80\x04N.garbage", "but the file goes on to 11"),
        (b"\x80\x04h\x05.", "a value that was never remembered"),
        (b"\x80\x04" + b"(" * 65, "opens the group number 65"),
        (b"\x80\x04\x8a\x11" + b"\x01" * 17 + b".", "a number of 17 bytes"),
        (b"\x80\x04}(Nu.", "neither text nor numbers"),
        (b"\x80\x04}N)s.", "neither text nor numbers"),
        (b"\x80\x04}(\x8c\x01a\x8c\x01b\x8c\x01cu.", "neither text nor numbers"),
        (b"\x80\x04NNa.", "cannot take"),
        (b"\x80\x04](a.", "takes what is not there"),
        (b"\x80\x04](ae.", "takes what is not there"),
        (b"\x80\x04](Nae.", "takes what is not there"),
        (b"\x80\x04\x8c\x01\xff.", "cannot take"),
        (b"\x80\x040.", "0x30"),
        (b"\x80\x04\x97.", "0x97"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_place(data, said):
    assert said in refusal(data)


def test_zeros_behind_the_pickle_are_padding():
    assert read_plain_pickle(pickle.dumps([1]) + b"\0\0") == [1]


def test_a_huge_memo_number_takes_no_memory():
    """Python's own reader makes room for 2**31 entries here."""
    data = b"\x80\x04]r" + struct.pack("<I", (1 << 31) - 1) + b"j" + struct.pack("<I", (1 << 31) - 1) + b"a."
    loop = read_plain_pickle(data)
    assert loop[0] is loop


def test_a_text_that_claims_to_be_huge_takes_no_memory():
    refusal(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"abc.")
    refusal(b"\x80\x04\x96" + struct.pack("<Q", 1 << 60) + b"abc.")  # BYTEARRAY8


def test_a_bomb_of_nested_doubles_is_read_without_unfolding_it():
    """Each list holds the one before twice: 2**60 leaves if anybody walked them all."""
    bomb: list = []
    for _ in range(60):
        bomb = [bomb, bomb]

    assert len(read_plain_pickle(pickle.dumps(bomb))) == 2


def test_a_bomb_of_nested_keys_is_refused_before_python_hashes_it():
    """A tuple of doubled tuples as a key takes 2**40 steps to hash; no tuple may be a key."""
    code = b")" + b"".join(bytes([0x71, n, 0x68, n, 0x86]) for n in range(40))
    assert "neither text nor numbers" in refusal(b"\x80\x04}(" + code + b"Nu.")


def test_progress_is_told_in_bytes():
    told: list[int] = []
    data = pickle.dumps(list(range(200_000)))

    read_plain_pickle(data, told.append)

    assert told == sorted(told)
    assert len(told) == 200_000 // (1 << 16)
    assert 0 < told[0] < told[-1] < len(data)
