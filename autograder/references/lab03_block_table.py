"""Lab 03: the reference of 03.block-table."""


class MyTables:
    """One list of blocks a sequence; a block that went back stays in it, so that positions keep their index."""

    def __init__(self, block_tokens: int, rules: dict) -> None:
        self.block_tokens, self.window = block_tokens, rules["window_tokens"]
        self.blocks: dict[str, list[int]] = {}
        self.length: dict[str, int] = {}
        self.dropped: dict[str, int] = {}  # how many of the first blocks went back

    def missing(self, seq: str, length: int) -> int:
        return -(-length // self.block_tokens) - len(self.blocks.get(seq, []))

    def grow(self, seq: str, length: int, blocks: list[int]) -> None:
        self.blocks.setdefault(seq, []).extend(blocks)
        self.length[seq] = length

    def slots(self, seq: str, start: int, end: int) -> list[int]:
        found = []
        for position in range(start, end):
            index, place = divmod(position, self.block_tokens)
            found.append(self.blocks[seq][index] * self.block_tokens + place)
        return found

    def reads(self, seq: str) -> list[int]:
        length = self.length[seq]
        return self.slots(seq, max(0, length - self.window), length)

    def drop(self, seq: str) -> list[int]:
        first = self.dropped.get(seq, 0)
        unread = max(0, self.length[seq] - self.window) // self.block_tokens
        self.dropped[seq] = unread
        return self.blocks[seq][first:unread]
