import pytest

from gpulab import errors
from gpulab.units import GiB, KiB, MiB, format_bytes, format_ns, parse_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1,023 B"),
        (KiB, "1 KiB"),
        (KiB + 512, "1.50 KiB"),
        (512 * MiB, "512 MiB"),
        (3 * GiB // 2, "1.50 GiB"),
        (5000 * GiB, "5,000 GiB"),
        (-3 * MiB, "-3 MiB"),
    ],
)
def test_bytes_are_shown_with_the_largest_unit_that_leaves_one(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.000 µs"),
        (12_500_000, "12.500 ms"),
        (3_600_000_000_000, "3,600.000 s"),
    ],
)
def test_time_is_shown_with_the_largest_unit_that_leaves_one(time_ns, text):
    assert format_ns(time_ns) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("12 GiB", 12 * GiB),
        ("512MiB", 512 * MiB),
        (" 1.5 gib ", 3 * GiB // 2),
        ("2 kB", 2000),
        ("7b", 7),
    ],
)
def test_a_written_size_is_read_to_the_byte(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "1 TiBs", "-1", "0.3 B", "1,5 GiB", "1e9", "nan"])
def test_what_is_no_whole_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match="bytes"):
        parse_bytes(text)


def test_a_large_whole_size_loses_no_byte():
    assert parse_bytes("9007199254740993") == 9007199254740993


def test_a_full_machine_and_a_broken_rule_are_never_caught_as_each_other():
    full = [errors.OutOfMemory, errors.DeviceUnavailable]
    broken = [errors.AllocatorFault, errors.PolicyFault, errors.StreamFault, errors.BrokenLaw]

    assert all(
        issubclass(kind, errors.MachineFull) and not issubclass(kind, errors.RuleBroken) for kind in full
    )
    assert all(
        issubclass(kind, errors.RuleBroken) and not issubclass(kind, errors.MachineFull) for kind in broken
    )


def test_errors_carry_their_numbers():
    full = errors.OutOfMemory("full", claim=3, size=512, free=100, largest=60)
    fault = errors.AllocatorFault("two owners", law="overlap", offset=0)
    trace = errors.TraceFault("row 2", rows=[(2, 1, "x")], good=[1])

    assert (full.claim, full.size, full.free, full.largest, str(full)) == (3, 512, 100, 60, "full")
    assert (fault.law, fault.numbers) == ("overlap", {"offset": 0})
    assert (trace.rows, trace.good) == ([(2, 1, "x")], [1])
