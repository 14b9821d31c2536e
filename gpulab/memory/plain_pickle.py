"""Reads pickles that hold plain data, and nothing else: here is no instruction that could call anything.

A pickle is a program for a small stack machine. Python's own runs it whole, so a file from elsewhere may
run any code. This one knows the instructions for numbers, texts, lists, tuples and dicts, which is all that
a memory snapshot needs, and stops at any other. Source: the instruction table of Python's ``pickletools``.
"""

import struct
from collections.abc import Callable

_MARKS = 64  # open groups inside each other; a snapshot needs seven
_LONG_BYTES = 16
_TICK = 1 << 16  # instructions between two calls of ``tick``
_MEMO = "remembers value"
_STOP = 0x2E

# Names of what is refused, for the message; a file that holds one of them wants to run code.
_CALLS = {
    0x63: "GLOBAL",
    0x93: "STACK_GLOBAL",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x69: "INST",
    0x6F: "OBJ",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    0x50: "PERSID",
    0x51: "BINPERSID",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
}


class NotPlain(ValueError):
    """The pickle is cut off, holds more than plain data, or contradicts itself; nothing of it was run."""


def read_plain_pickle(data: bytes, tick: Callable[[int], object] | None = None) -> object:
    """The numbers, texts, lists, tuples and dicts (of text and number keys) in a pickle of protocol 2 to 5.

    ``tick`` is told now and then how many bytes are read. Cost: linear in the bytes, about half a
    microsecond an instruction. Values that the pickle shares are shared, so a list may hold itself.

    Raises:
        NotPlain: says at which byte what was met.
    """
    if len(data) < 2 or data[0] != 0x80 or not 2 <= data[1] <= 5:
        version = f"protocol {data[1]}" if len(data) > 1 and data[0] == 0x80 else "protocol 0 or 1"
        raise NotPlain(f"this is no pickle of protocol 2 to 5 ({version}, or no pickle)")
    machine = _Machine(data)
    steps, at = machine.steps, 2
    try:
        while True:
            for _ in range(_TICK):
                op = data[at]
                if op == _STOP:
                    return machine.result(at + 1)
                at = steps[op](at + 1)
            if tick is not None:
                tick(at)
    except KeyError as unknown:
        if unknown.args and unknown.args[0] == _MEMO:
            raise NotPlain(f"byte {at:,} asks for a value that was never remembered") from None
        raise NotPlain(_refusal(data[at], at)) from None
    except (IndexError, struct.error):
        raise NotPlain(
            f"the pickle is cut off, or takes what is not there: byte {at:,} of {len(data):,}"
        ) from None
    except (UnicodeDecodeError, TypeError, AttributeError) as wrong:
        raise NotPlain(
            f"byte {at:,} holds what its instruction cannot take ({type(wrong).__name__})"
        ) from None


def _refusal(op: int, at: int) -> str:
    if op in _CALLS:
        return f"byte {at:,} ({_CALLS[op]}) would load or call code; only plain data is read, and nothing was run"
    return f"byte {at:,} is the instruction {op:#04x}, which plain data does not need"


class _Machine:
    """The stack, the memo and one method an instruction: it takes where its argument starts, says where it ends."""

    def __init__(self, data: bytes) -> None:
        self.data, self.stack, self.marks = data, [], []
        self.memo: dict[int, object] = {}  # a dict: a huge number takes no room, as it would in an array
        self.steps = {
            0x28: self.mark,
            0x29: self.constant(tuple),
            0x47: self.unpacked(">d", 8),
            0x4A: self.unpacked("<i", 4),
            0x4B: self.small_number,
            0x4D: self.unpacked("<H", 2),
            0x4E: self.constant(lambda: None),
            0x58: self.text("<I", 4),
            0x5D: self.constant(list),
            0x61: self.append,
            0x65: self.appends,
            0x68: self.get_short,
            0x6A: self.get_long,
            0x71: self.put_short,
            0x72: self.put_long,
            0x73: self.set_item,
            0x74: self.tuple_from_mark,
            0x75: self.set_items,
            0x7D: self.constant(dict),
            0x85: self.tuple_of(1),
            0x86: self.tuple_of(2),
            0x87: self.tuple_of(3),
            0x88: self.constant(lambda: True),
            0x89: self.constant(lambda: False),
            0x8A: self.long_number,
            0x8C: self.text("<B", 1),
            0x8D: self.text("<Q", 8),
            0x94: self.memoize,
            0x95: lambda at: at + 8,  # FRAME: how much to read ahead, which is read already
        }

    def result(self, end: int) -> object:
        if self.marks or len(self.stack) != 1:
            raise NotPlain(f"the pickle ends at byte {end:,} with {len(self.stack)} values instead of one")
        if self.data[end:].strip(b"\0"):
            raise NotPlain(f"the pickle ends at byte {end:,}, but the file goes on to {len(self.data):,}")
        return self.stack[0]

    # -- values ----------------------------------------------------------------------------------

    def constant(self, make: Callable[[], object]) -> Callable[[int], int]:
        def step(at: int) -> int:
            self.stack.append(make())
            return at

        return step

    def unpacked(self, form: str, size: int) -> Callable[[int], int]:
        unpack = struct.Struct(form).unpack_from

        def step(at: int) -> int:
            self.stack.append(unpack(self.data, at)[0])
            return at + size

        return step

    def small_number(self, at: int) -> int:
        self.stack.append(self.data[at])
        return at + 1

    def long_number(self, at: int) -> int:
        size = self.data[at]
        if size > _LONG_BYTES:
            raise NotPlain(f"byte {at:,} starts a number of {size} bytes; sizes and addresses need 8")
        self.stack.append(int.from_bytes(self.part(at + 1, size), "little", signed=True))
        return at + 1 + size

    def text(self, form: str, size: int) -> Callable[[int], int]:
        unpack = struct.Struct(form).unpack_from

        def step(at: int) -> int:
            length = unpack(self.data, at)[0]
            start = at + size
            self.stack.append(str(self.part(start, length), "utf-8", "surrogatepass"))
            return start + length

        return step

    def part(self, start: int, length: int) -> bytes:
        if start + length > len(self.data):
            raise IndexError
        return self.data[start : start + length]

    # -- groups ----------------------------------------------------------------------------------

    def mark(self, at: int) -> int:
        if len(self.marks) == _MARKS:
            raise NotPlain(f"byte {at:,} opens the group number {_MARKS + 1} inside each other")
        self.marks.append(len(self.stack))
        return at

    def since_mark(self) -> list:
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def append(self, at: int) -> int:
        value = self.stack.pop()
        self.of(list).append(value)
        return at

    def appends(self, at: int) -> int:
        values = self.since_mark()
        self.of(list).extend(values)
        return at

    def set_item(self, at: int) -> int:
        value, key = self.stack.pop(), self.stack.pop()
        return self.fill([key, value], at)

    def set_items(self, at: int) -> int:
        return self.fill(self.since_mark(), at)

    def fill(self, pairs: list, at: int) -> int:
        keys = pairs[::2]
        if len(pairs) % 2 or not {str, int}.issuperset(map(type, keys)):
            raise NotPlain(f"byte {at:,} fills a dict with keys that are neither text nor numbers")
        self.of(dict).update(zip(keys, pairs[1::2], strict=True))
        return at

    def of(self, kind: type) -> object:
        """The value on top, which must be a ``kind``, and not one from before an open group."""
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise IndexError
        if type(self.stack[-1]) is not kind:
            raise TypeError
        return self.stack[-1]

    def tuple_from_mark(self, at: int) -> int:
        self.stack.append(tuple(self.since_mark()))
        return at

    def tuple_of(self, count: int) -> Callable[[int], int]:
        def step(at: int) -> int:
            if len(self.stack) < count:
                raise IndexError
            self.stack[-count:] = [tuple(self.stack[-count:])]
            return at

        return step

    # -- memo ------------------------------------------------------------------------------------

    def memoize(self, at: int) -> int:
        self.memo[len(self.memo)] = self.stack[-1]
        return at

    def put_short(self, at: int) -> int:
        self.memo[self.data[at]] = self.stack[-1]
        return at + 1

    def put_long(self, at: int) -> int:
        self.memo[int.from_bytes(self.part(at, 4), "little")] = self.stack[-1]
        return at + 4

    def get_short(self, at: int) -> int:
        return self.get(self.data[at], at + 1)

    def get_long(self, at: int) -> int:
        return self.get(int.from_bytes(self.part(at, 4), "little"), at + 4)

    def get(self, number: int, end: int) -> int:
        if number not in self.memo:
            raise KeyError(_MEMO)
        self.stack.append(self.memo[number])
        return end
