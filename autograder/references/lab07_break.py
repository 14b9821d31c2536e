"""A reference for 07.break."""


class Breaks:
    """Chats come steadily; a folder of batch's longest documents comes between them.

    Made with the lengths that the learner reads off the envelope, and the place of the first chat that was too late.
    """

    def __init__(self, chat: tuple[int, int], batch: tuple[int, int], first: int) -> None:
        self.chat, self.batch, self.first = chat, batch, first

    def workload(self) -> list:
        every_ms = max(30, self.chat[0] // 3)
        chats = [[every_ms * n, "chat", *self.chat] for n in range(120)]
        return sorted([*chats, *([500, "batch", *self.batch] for _ in range(16))])

    def own(self) -> str:
        return "priority"

    def because(self) -> int:
        return self.first
