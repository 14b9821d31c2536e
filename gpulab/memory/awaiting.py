"""Chunks that were freed while other streams still used them: free when the last of those marks is reached."""

from collections import deque
from typing import final

from gpulab.memory.chunks import Chunk
from gpulab.memory.streams import Progress


@final
class Awaiting:
    """One line of marks a stream, so that a slow stream holds up only what it uses itself.

    Source: pytorch, CUDACachingAllocator.cpp, ``insert_events`` and ``process_events``.
    """

    def __init__(self, progress: Progress) -> None:
        self.uses: dict[int, list[int]] = {}  # held claim -> the other streams that use it
        self.counts: dict[int, int] = {}  # freed claim -> marks that it waits for; empty: nothing waits
        self._lines: dict[int, deque[tuple[object, Chunk]]] = {}
        self._progress = progress

    def record(self, chunk: Chunk, stream: int) -> None:
        """The held ``chunk`` is used on ``stream``, too."""
        streams = self.uses.setdefault(chunk.extent.claim, [])
        if stream not in streams and stream != chunk.stream:
            streams.append(stream)

    def begin(self, chunk: Chunk) -> bool:
        """True if ``chunk``, freed now, must wait for other streams; it stands in their lines then."""
        claim = chunk.extent.claim
        for stream in self.uses.pop(claim, ()):
            mark = self._progress.mark(stream)
            if not self._progress.done(mark):
                self.counts[claim] = self.counts.get(claim, 0) + 1
                self._lines.setdefault(stream, deque()).append((mark, chunk))
        return claim in self.counts

    def reached(self) -> list[Chunk]:
        """The chunks that wait no more, and leave the lines."""
        free = []
        for stream, line in list(self._lines.items()):
            while line and self._progress.done(line[0][0]):
                chunk = line.popleft()[1]
                claim = chunk.extent.claim
                self.counts[claim] -= 1
                if not self.counts[claim]:
                    del self.counts[claim]
                    free.append(chunk)
            if not line:
                del self._lines[stream]
        return free

    def wait(self) -> None:
        """Let the host wait until all marks are reached."""
        for line in self._lines.values():
            self._progress.wait_for(line[-1][0])
