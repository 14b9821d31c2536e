"""Reading PyTorch's memory snapshots: every form it was written in, and a plain sentence for what is none."""

import gzip
import json
import pickle
import zipfile

import pytest

from gpulab.errors import TraceFault
from gpulab.memory import snapshot as reader
from gpulab.memory import snapshot_rows
from gpulab.memory.snapshot import read_snapshot
from gpulab.memory.snapshot_rows import NO_STACK, Block, Event, Segment, owner_of, printable, snapshot_from
from gpulab.units import MiB

AT = 139_624_890_499_072
FRAMES = [
    {"filename": "??", "line": 0, "name": "torch::unwind"},
    {"filename": "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "line": 114, "name": "forward"},
    {"filename": "/home/me/model.py", "line": 40, "name": "attention"},
    {"filename": "/home/me/train.py", "line": 7, "name": "main"},
]


def block(size, state="inactive", **more):
    return {"size": size, "state": state, **more}


def segment(*blocks, address=AT, **more):
    total = sum(part["size"] for part in blocks)
    return {"address": address, "total_size": total, "device": 0, "stream": 0, "blocks": list(blocks), **more}


TODAY = {
    "segments": [
        segment(
            block(1024, "active_allocated", requested_size=700, address=AT, frames=FRAMES),
            block(512, "active_pending_free", requested_size=512, address=AT + 1024, frames=[]),
            block(2 * MiB - 1536, requested_size=0, address=AT + 1536, frames=[]),
            segment_type="small",
            segment_pool_id=(0, 0),
            is_expandable=False,
            frames=FRAMES,
        )
    ],
    "device_traces": [
        [
            {
                "action": "segment_alloc",
                "addr": AT,
                "size": 2 * MiB,
                "stream": 0,
                "frames": FRAMES,
                "time_us": 5,
            },
            {"action": "alloc", "addr": AT, "size": 700, "stream": 0, "frames": FRAMES, "time_us": 6},
            {"action": "snapshot", "addr": 0, "size": 0, "stream": 0},
            {"action": "oom", "device_free": 3, "size": 4096, "stream": 9, "time_us": 8},
        ],
        [],
    ],
    "allocator_settings": {"max_split_size": -1, "expandable_segments": False},
}


def refusal(plain) -> str:
    with pytest.raises(TraceFault) as refused:
        snapshot_from(plain, "file")
    return str(refused.value)


def write(path, plain):
    data = json.dumps(plain).encode() if ".json" in path.name else pickle.dumps(plain)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.pickle", "a.json", "a.pickle.gz", "a.json.gz", "no-ending"])
def test_a_snapshot_of_today_reads_the_same_in_every_form(tmp_path, name):
    found = read_snapshot(write(tmp_path / name, TODAY))

    owner = "attention (model.py:40)"
    assert found.segments == (
        Segment(
            AT,
            2 * MiB,
            0,
            "pool",
            False,
            (
                Block(AT, 1024, 700, "held", owner),
                Block(AT + 1024, 512, 512, "awaiting", NO_STACK),
                Block(AT + 1536, 2 * MiB - 1536, 2 * MiB - 1536, "free", NO_STACK),
            ),
        ),
    )
    assert found.traces == (
        (
            Event("segment_alloc", AT, 2 * MiB, 0, 5, 0, owner),
            Event("alloc", AT, 700, 0, 6, 0, owner),
            Event("snapshot", 0, 0, 0, -1, 0, NO_STACK),
            Event("oom", -1, 4096, 9, 8, 3, NO_STACK),
        ),
        (),
    )
    assert (found.max_split_size, found.unknown, found.devices) == (None, {}, (0,))


def test_a_bare_list_of_segments_without_addresses_in_blocks_is_a_snapshot_of_2020():
    """pytorch/pytorch issue 35901 quotes this form."""
    found = snapshot_from([segment(block(512, "active_allocated"), block(1024))])

    assert [(part.address, part.asked) for part in found.segments[0].blocks] == [(AT, 512), (AT + 512, 1024)]
    assert found.traces == ()


def test_a_block_with_a_history_is_a_snapshot_of_2022():
    """pytorch, torch/cuda/_memory_viz.py, ``_block_extra_legacy``."""
    old = block(1024, "active_allocated", history=[{"addr": AT, "real_size": 900, "frames": FRAMES}])

    found = snapshot_from({"segments": [segment(old)]})

    assert found.segments[0].blocks == (Block(AT, 1024, 900, "held", "attention (model.py:40)"),)


def test_streams_private_pools_and_expandable_segments_are_told_apart():
    plain = [
        segment(block(512), stream=7),
        segment(block(512), address=AT + 512, segment_pool_id=[0, 3], is_expandable=True, device=2),
    ]

    first, second = snapshot_from(plain).segments

    assert (first.lender, first.expandable) == ("pool, stream 7", False)
    assert (second.lender, second.expandable) == ("pool, private", True)
    assert snapshot_from(plain).devices == (0, 2)


def test_an_action_of_a_later_version_is_left_out_and_counted():
    trace = [{"action": "workspace_snapshot"}, {"action": "\x1b[2J"}, {"action": "workspace_snapshot"}]

    found = snapshot_from({"segments": [segment(block(512))], "device_traces": [trace]})

    assert found.traces == ((),)
    assert found.unknown == {"workspace_snapshot": 2, "?[2J": 1}


def test_max_split_size_is_read_from_the_settings():
    plain = {"segments": [segment(block(512))], "allocator_settings": {"max_split_size": 20 * MiB}}
    assert snapshot_from(plain).max_split_size == 20 * MiB


@pytest.mark.parametrize(
    ("frames", "owner"),
    [
        (FRAMES, "attention (model.py:40)"),
        (FRAMES[:1], "torch::unwind (??:0)"),
        (FRAMES[:2], "forward (linear.py:114)"),
        ([{"name": "f"}], "f"),
        ([{"name": 3, "filename": "C:\\me\\a.py", "line": "x"}], "? (a.py:?)"),
        ([{"name": "\x1b]0;pwned\x07", "filename": "a.py", "line": 1}], "?]0;pwned? (a.py:1)"),
        ([3], NO_STACK),
    ],
)
def test_the_owner_is_the_innermost_frame_of_the_users_own_code(frames, owner):
    assert owner_of(frames) == owner


def test_a_text_for_the_terminal_is_short_and_steers_nothing():
    assert printable("a" * 200) == "a" * 80
    assert printable("x\r\n\u202e\ud800") == "x????"
    assert printable(None) == "?"


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (7, "it holds one int without 'segments'"),
        ({"state_dict": {}}, "it holds a dict of 1 keys without 'segments'"),
        ({"segments": []}, "it has no segments and no history"),
        ({"segments": [], "device_traces": [[], []]}, "it has no segments and no history"),
        ({"segments": 3}, "segments is of type int, not a list"),
        ({"segments": [3]}, "segments[0] is of type int, not a dict"),
        ([segment()], "the blocks of segments[0] are 0 B, its total_size is 0 B"),
        ([{**segment(block(512)), "total_size": 1024}], "are 512 B, its total_size is 1,024 B"),
        ([{**segment(block(512)), "address": -1}], "address of segments[0] is -1, not a whole number"),
        ([{**segment(block(512)), "address": 1 << 63}], "not a whole number of 0 or more"),
        ([{**segment(block(512)), "address": True}], "address of segments[0] is of type bool"),
        ([{**segment(block(512)), "address": 0.5}], "address of segments[0] is of type float"),
        ([{"total_size": 512, "blocks": []}], "address of segments[0] is missing"),
        ([{**segment(block(512)), "blocks": None}], "segments[0].blocks is of type NoneType, not a list"),
        ([segment(block(512, "lost"))], "the state of segments[0].blocks[0] is none of active_allocated"),
        ([segment(block(512, []))], "the state of segments[0].blocks[0] is none of active_allocated"),
        (
            [segment(block(512), block(0))],
            "segments[0].blocks[1] does not start where the block before it ends",
        ),
        ([segment(block(512), block(512, address=AT))], "segments[0].blocks[1] does not start where"),
        ({"segments": [], "device_traces": {}}, "it has no segments"),
        ({"segments": [], "device_traces": 5}, "device_traces is of type int, not a list"),
        ({"segments": [], "device_traces": [5]}, "device_traces[0] is of type int, not a list"),
        ({"segments": [], "device_traces": [[5]]}, "device_traces[0][0] has no action"),
        (
            {"segments": [], "device_traces": [[{"action": "alloc"}]]},
            "addr of device_traces[0][0] is missing",
        ),
        (
            {"segments": [], "device_traces": [[{"action": "oom", "size": 1, "time_us": "x"}]]},
            "time_us of device_traces[0][0] is of type str",
        ),
    ],
)
def test_what_is_wrong_in_a_snapshot_is_named_by_its_place(plain, said):
    assert said in refusal(plain)


def test_shared_lists_cannot_pretend_to_be_endless(monkeypatch):
    monkeypatch.setattr(snapshot_rows, "MOST_PARTS", 1_000)
    one = segment(*[block(512)] * 100)

    assert "brings it above 1,000 parts" in refusal([one] * 20)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"hello", "no pickle of protocol 2 to 5"),
        (pickle.dumps(TODAY)[:-200], "cut off"),
        (json.dumps(TODAY).encode()[:-200], "it is cut off or no JSON"),
        (gzip.compress(pickle.dumps(TODAY))[:-20], "the gzip file is cut off or damaged"),
        (b"\x1f\x8b" + b"garbage", "the gzip file is cut off or damaged"),
        (b'{"segments": NaN}', "is of type float, not a list"),
        (b"[" * 100_000, "its lists lie too deep in each other"),
        (pickle.dumps(test_shared_lists_cannot_pretend_to_be_endless), "would load or call code"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_with_what_would_be_read(tmp_path, data, said):
    path = tmp_path / "file"
    path.write_bytes(data)

    with pytest.raises(TraceFault) as refused:
        read_snapshot(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)
    assert "Read are pickles and JSON of torch.cuda.memory._dump_snapshot" in str(refused.value)
    assert path.read_bytes() == data


def test_an_archive_of_torch_save_is_told_by_name(tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"")

    with pytest.raises(TraceFault, match=r"a zip archive, as torch\.save writes"):
        read_snapshot(path)


def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_BYTES", 1 << 16)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (1 << 20)))

    with pytest.raises(TraceFault, match="it holds more than 64 KiB"):
        read_snapshot(path)


def test_reading_tells_how_far_it_is(tmp_path):
    told = []
    plain = {"segments": [segment(*[block(512, address=AT + 512 * n) for n in range(20_000)])]}
    path = write(tmp_path / "a.pickle", plain)

    read_snapshot(path, lambda *how: told.append(how))

    assert [what for what, _, of in told if of == path.stat().st_size] == ["reading"] * len(told) != []
