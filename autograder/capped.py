"""nbgrader's Execute that keeps of each cell only so much: a flood ends here, not in the notebook."""

from nbclient.exceptions import DeadKernelError
from nbgrader.preprocessors import Execute
from traitlets import Integer

_SHOWN = ("stream", "display_data", "execute_result", "error", "update_display_data")


class CappedExecute(Execute):
    """``begin_count()`` before each cell; what that cell shows beyond ``cell_output_chars`` is dropped."""

    cell_output_chars = Integer(1_000_000, help="Characters of output kept of one cell.").tag(config=True)
    notebook_output_chars = Integer(5_000_000, help="Characters of output kept of all cells.").tag(
        config=True
    )
    _chars = _before = 0

    def begin_count(self) -> None:
        """From now on it is another cell's output."""
        self._before, self._chars = self._before + min(self._chars, self._most), 0

    @property
    def _most(self) -> int:
        """What this cell may still show."""
        return max(0, min(self.cell_output_chars, self.notebook_output_chars - self._before))

    def process_message(self, msg, cell, cell_index):
        """As nbclient's, but what a cell shows beyond ``cell_output_chars`` is dropped when it arrives."""
        kind = msg["msg_type"]
        if kind in _SHOWN or kind.startswith("comm"):
            pictures = sum(len(buffer) for buffer in msg.get("buffers") or ())  # of widgets: kept, too
            before, self._chars = self._chars, self._chars + len(str(msg["content"])) + pictures
            if self._chars > self._most:
                if before > self._most:
                    return None
                cut = f"\n... more than {self._most:,} characters of output: cut here\n"
                msg = {**msg, "msg_type": "stream", "content": {"name": "stdout", "text": cut}}
                msg["header"] = {**msg["header"], "msg_type": "stream"}
        return super().process_message(msg, cell, cell_index)

    def on_cell_executed(self, **kwargs):
        """As nbgrader's; of an error that only the reply tells no more than a cell may show."""
        content = kwargs["execute_reply"]["content"]
        if len(str(content)) > self.cell_output_chars:
            content["traceback"] = ["... a longer traceback than a cell may show"]
            content["evalue"] = str(content.get("evalue"))[:1000]
        super().on_cell_executed(**kwargs)

    async def _async_check_alive(self) -> None:
        """As nbclient's; its watch may look once more after a run that ended in nonsense, and finds nobody."""
        if self.kc is None:
            raise DeadKernelError("Kernel died")
        await super()._async_check_alive()
