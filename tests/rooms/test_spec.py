"""gpulab/device/spec.py: the boards, their sources, and what is refused."""

import pytest

from gpulab.device.spec import CONSTANTS, load, names, parse
from gpulab.errors import SpecFault
from gpulab.units import MiB

TEXT = load("h100-80").to_toml()


def test_seven_boards_are_shipped_and_each_is_read_back_as_it_was_written():
    assert names() == ["a100-40", "a100-80", "h100-80", "h200", "l4", "rtx-4090", "t4"]
    for name in names():
        assert parse(load(name).to_toml(), name) == load(name)


def test_every_constant_of_every_board_says_where_it_comes_from():
    for name in names():
        spec = load(name)
        assert spec.sources.keys() == set(CONSTANTS)
        assert all(source.startswith(("[V] ", "[M] ", "[D] ", "[R] ")) for source in spec.sources.values())
        assert spec.badge == f"simulated: {spec.name}, published constants"


# Data sheets and captures, as the spec files name them: multiprocessors, MiB in all, GB/s, threads and blocks of a multiprocessor.
PUBLISHED = {
    "t4": (40, 15_360, 320, 1024, 16),
    "l4": (58, 23_034, 300, 1536, 24),
    "a100-40": (108, 40_960, 1_555, 2048, 32),
    "a100-80": (108, 81_920, 2_039, 2048, 32),
    "h100-80": (132, 81_559, 3_350, 2048, 32),
    "h200": (132, 143_771, 4_800, 2048, 32),
}


@pytest.mark.parametrize(("name", "numbers"), PUBLISHED.items())
def test_the_boards_have_the_published_numbers(name, numbers):
    spec = load(name)
    assert numbers == (
        spec.sms,
        spec.memory_bytes // MiB,
        spec.bandwidth_bytes_per_s // 10**9,
        spec.max_threads_per_sm,
        spec.max_blocks_per_sm,
    )


def test_an_unknown_board_is_answered_with_the_names():
    with pytest.raises(SpecFault) as fault:
        load("b200")
    assert "'b200'" in str(fault.value)
    assert all(name in str(fault.value) for name in names())


def test_a_users_own_file_is_read_and_its_date_is_on_the_badge(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        TEXT.replace('date = ""', 'date = "2026-11-30"').replace('driver = ""', 'driver = "580.1"')
    )
    assert load(path).badge == (
        "simulated: NVIDIA H100 80GB HBM3, constants measured 2026-11-30, driver 580.1"
    )
    assert load(str(path)) == load(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sms = {", "sns = {", "without sms; unknown sns"),
        ("value = 132", "value = 132.5", "sms is"),
        ("value = 132", "value = 0", "1 or more"),
        ("value = 132", "value = true", "sms is"),
        ('source = "[V] nvidia-smi capture of the 7g instance"', 'source = ""', "the source of sms"),
        ('date = ""', "date = 3", "date is 3"),
        ('date = ""', 'date = "today"', "not YYYY-MM-DD"),
        ("value = 503_316_480", "value = 85_520_809_984", "nothing is left"),
        (
            "copy_efficiency_permille = { value = 900",
            "copy_efficiency_permille = { value = 1001",
            "above 1000",
        ),
        ("max_threads_per_sm = { value = 2_048", "max_threads_per_sm = { value = 31", "less than a warp"),
        ("sms = {", "sms = ", "no TOML file"),
    ],
)
def test_a_file_that_is_no_whole_spec_is_refused_with_the_entry(old, new, words):
    assert old in TEXT
    with pytest.raises(SpecFault, match=words):
        parse(TEXT.replace(old, new), "mine.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecFault, match="cannot be read"):
        load(path)


def test_blocks_of_a_multiprocessor_are_limited_by_blocks_by_whole_warps_and_by_shared_memory():
    spec = load("a100-40")
    assert spec.blocks_per_sm(32) == 32  # of blocks: 2048 threads would be 64
    assert spec.blocks_per_sm(256) == 8
    assert spec.blocks_per_sm(257) == 7  # 9 warps
    assert spec.blocks_per_sm(64, 64 * 1024) == 2
    assert spec.blocks_per_sm(64, 200 * 1024) == 0


def test_an_allocation_costs_a_fixed_part_a_part_per_mib_and_at_most_the_most():
    spec = load("h100-80")
    assert spec.alloc_cost_ns(MiB) == 75_000
    assert spec.alloc_cost_ns(1) == 60_001
    assert spec.alloc_cost_ns(96 * MiB) == spec.alloc_cost_ns(10**10) == 1_500_000


def test_copies_cost_a_start_and_the_rate_of_their_way_and_of_their_memory():
    spec = load("a100-80")
    cost = {
        (way, pinned): spec.copy_cost_ns(257_000_000, way, pinned=pinned)
        for way in ("in", "out")
        for pinned in (True, False)
    }
    assert cost["in", True] == 25_000 + 10_000_000  # 25.7 GB/s
    assert cost["in", False] == 25_000 + 25_700_000  # 10 GB/s: 2.6 times slower
    assert cost["out", True] < cost["in", True] < cost["out", False] < cost["in", False]
