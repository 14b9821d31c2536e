"""The notebook runs, the judge asks, and what the judge says becomes the output of the check cells."""

import copy
import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_output
from traitlets import Bool, Dict, Float, List, Tuple, Unicode

from autograder.better import counted
from autograder.capped import CappedExecute
from autograder.channel import printable
from autograder.feedback import SEEN, TOO_LONG, outputs_of
from autograder.notebooks import graded_exercise
from autograder.places import Places
from autograder.sandbox import UNSAFE, UNSAFE_NOTE, WAYS, Limits, SandboxFailed
from autograder.scratch import Scratch
from autograder.settled import settle
from autograder.unheard import SAID, unheard

_KEPT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "SYSTEMROOT"),
    *("VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "GPULAB_DATA"),
)
"""The only variables of the instructor's environment that a learner's kernel gets to see."""


class JudgedExecute(CappedExecute):
    """nbgrader's Execute with a judge beside the kernel.

    A locked grade cell whose grade id names an exercise gets its points and its feedback from the judge;
    whatever the cell prints, raises or shows is not read. Other grade cells keep nbgrader's own rules.
    Cells tagged ``watch`` (demonstrations) are not run.

    A learner's error, endless loop or dead kernel ends nothing but itself: exercises that could no
    longer be asked get what the judge gives for silence, with the reason. An exception of the judge is
    no learner's fault and is raised, so that the submission is reported and not marked; so are
    ``NoSandbox`` and ``SandboxFailed``.

    The notebook's metadata says under ``gpulab`` how it was shut in: ``{"sandbox": "namespaces"}``.
    """

    notebook_seconds = Float(300, help="Wall time after which no further cell is started.").tag(config=True)
    limits = Dict(help="Fields of autograder.sandbox.Limits that differ from its defaults.").tag(config=True)
    ways = List(list(WAYS), help="Ways into a sandbox that are tried, in order.").tag(config=True)
    record = Tuple(
        Unicode(),
        Unicode(),
        default_value=("", ""),
        help="An exercise, and a file that gets its conversation.",
    ).tag(config=True)
    unsafe_no_sandbox = Bool(False, help="Run learners' code with your own rights.").tag(config=True)

    def preprocess(self, nb, resources, km=None):
        """The notebook with the outputs of this run, and the judge's in the exercise cells."""
        self._way = self._find_way()
        course = self.load_course()
        self.write_card(Path(resources["metadata"]["path"]), course)
        sitting = self.open_sitting(course, resources["nbgrader"]["student"])
        try:
            with Scratch() as scratch:
                verdicts = self._sit(nb, resources, sitting, scratch)
        finally:
            sitting.end()
        nb.metadata["gpulab"] = {"sandbox": self._way}
        settle(nb)
        # Written after the last cell has run: no display can be updated over it any more.
        counts = counted({score.exercise: score for score, _ in verdicts.values()}, self.alternatives())
        for index, (score, note) in verdicts.items():
            grade, line = counts.get(score.exercise, (score.points, ""))
            most = nb.cells[index].metadata["nbgrader"]["points"]
            nb.cells[index].outputs = outputs_of(score, most, f"{note} {line}".strip(), grade)
        return nb, resources

    def load_course(self):
        """The course whose secret the graded inputs are drawn from."""
        from autograder.course import Course

        return Course.load(Places.found().course)

    def exercises(self) -> Collection[str]:
        """The exercise ids the judge knows."""
        from autograder.checks import exercises

        return exercises()

    def builds(self, exercise: str) -> bool:
        """Does the judge ask code in ``exercise``, which then has seen graded inputs?"""
        from autograder.checks import exercises

        found = exercises().get(exercise)
        return found is not None and found.builds

    def alternatives(self) -> Mapping[str, str]:
        """Exercise to the one in whose place it may be done."""
        from autograder.checks import alternatives

        return alternatives()

    def cell_seconds(self, exercise: str) -> int:
        """How long the cell of ``exercise`` may run: as long as the judge talks with it, and no less than any cell."""
        from autograder.checks import exercises

        known = exercises().get(exercise)
        return max(self.timeout, int(known.seconds)) if known else self.timeout

    def open_sitting(self, course, student: str):
        """The judge for one notebook of one learner: ``path``, ``open``, ``close``, ``end``."""
        from autograder.judge import Sitting

        return Sitting(course, student)

    def write_card(self, folder: Path, course) -> None:
        """Put the course's public card beside the notebook, over whatever was handed in under its name."""
        from autograder.release import write_card

        write_card(folder, course.card())

    def _sit(self, nb, resources, sitting, scratch: Path) -> dict:
        """Run the notebook; ``{cell index: (score, note)}`` of its exercise cells."""
        self.nb, self.resources = nb, resources
        self.reset_execution_trackers()
        self._stopped = ""
        self.shutdown_kernel = "immediate"  # nothing a learner's code does at exit is waited for
        self.km = self._kernel_manager(scratch)
        known, verdicts, seen = self.exercises(), {}, None
        deadline = time.monotonic() + self.notebook_seconds
        with self.setup_kernel(env=self._kernel_environment(sitting.path, scratch)):
            if self._way != UNSAFE:
                sitting.expect(self.km.provisioner.root_pid)
            for index, cell in enumerate(nb.cells):
                exercise = graded_exercise(cell)
                if not self._stopped and time.monotonic() > deadline:
                    self._stopped = f"the notebook had run for {self.notebook_seconds:.0f} s before this cell"
                if exercise in known and seen is None and self.builds(exercise):
                    seen = [copy.deepcopy(before.get("outputs")) for before in nb.cells[:index]]
                if seen is not None:
                    tags = cell.metadata.get("tags", [])
                    cell.metadata["tags"] = tags if SEEN in tags else [*tags, SEEN]
                if exercise in known:
                    sitting.overheard = self._recorder() if exercise == self.record[0] else None
                    sitting.open(exercise)
                    usual, self.timeout = self.timeout, self.cell_seconds(exercise)
                    self._run_cell(cell, index)
                    self.timeout = usual
                    notes = self._note(cell)
                    without_code = not sitting.heard and not self._stopped
                    if without_code:
                        self._ask_without_code(exercise, index)
                        notes = f"{notes} {SAID}".strip()
                    score = (
                        unheard(sitting.close(), nb.cells[: index + 1]) if without_code else sitting.close()
                    )
                    verdicts[index] = score, f"{notes} {self._limit_behind(score.text)}".strip()
                elif cell.metadata.get("nbgrader", {}).get("grade") or "watch" not in cell.metadata.get(
                    "tags", []
                ):
                    self._run_cell(cell, index)
        for cell, outputs in zip(
            nb.cells, seen or (), strict=False
        ):  # a display can be updated from a later cell
            if outputs is not None:
                cell.outputs = outputs
        return verdicts

    def _recorder(self) -> Callable[[str, str], None]:
        """What writes question and answer, a JSON pair a line, to the file that ``record`` names."""

        def note(question: str, answer: str) -> None:
            with open(self.record[1], "a", encoding="utf-8") as out:
                out.write(json.dumps([json.loads(question), _as_json(answer)]) + "\n")

        return note

    def _run_cell(self, cell, index: int) -> None:
        """Run one cell unless the run has stopped; remember when and why it stops.

        A cell that did not run to its end shows an error, and first: nbgrader gives a test cell without
        one full marks.
        """
        if cell.cell_type != "code":
            return
        self._limit = ""
        if not self._stopped:
            self.begin_count()
            try:
                self.execute_cell(cell, index, store_history=True)
                self._tell_limits(cell)
                return
            except DeadKernelError:
                self._stopped = self._why_ended(index)
            except CellTimeoutError:
                self._stopped = f"cell {index + 1} went on after {self.timeout} s, and after an interrupt"
            except (
                Exception
            ) as odd:  # only messages of the kernel are read here, and a learner can write those
                name = type(odd).__name__
                self._stopped = (
                    f"the kernel sent no proper messages while cell {index + 1} was running ({name})"
                )
        error = new_output("error", ename="NotRun", evalue=self._stopped)
        error.traceback = [f"This cell was not run to its end: {self._stopped}."]
        cell.outputs.insert(0, error)

    def _why_ended(self, index: int) -> str:
        """Why the kernel is gone. Raises ``SandboxFailed`` when it was no doing of the learner's code."""
        reason = getattr(self.km.provisioner, "reason", "")
        if reason in ("outside", "lost"):
            raise SandboxFailed(f"the sandbox was ended from outside while cell {index + 1} was running")
        if reason:
            why = Limits(**self.limits).ended(reason)
            return f"the sandbox ended the notebook while cell {index + 1} was running, because {why}"
        return f"the kernel ended while cell {index + 1} was running"

    def _limit_behind(self, text: str) -> str:
        """The limit that the learner's code met while the judge asked it; '' if none. ``text``: of the feedback."""
        raised = re.search(r"raised (\w+)(?:: (.*))?", text)
        return (
            Limits(**self.limits).told(raised[1], raised[2] or "") if raised and self._way != UNSAFE else ""
        )

    def _tell_limits(self, cell) -> None:
        """Say below an exception that comes of a limit which limit that is."""
        errors = [output for output in cell.outputs if output.output_type == "error"]
        walls = Limits(**self.limits) if self._way != UNSAFE else None
        told = [walls.told(error.ename, error.evalue) for error in errors if walls]
        told += [
            f"It went on after {self.timeout} s, and was stopped." for e in errors if e.ename == TOO_LONG
        ]
        if any(told):
            self._limit = " ".join(dict.fromkeys(filter(None, told)))
            cell.outputs.append(new_output("stream", name="stdout", text=self._limit + "\n"))

    def _ask_without_code(self, exercise: str, index: int) -> None:
        """Ask the judge for a check cell that failed before it could, as when the class above it has an error.

        What was predicted, reconciled or answered counts all the same.
        """
        source = f"from autograder.learner import check as ask_judge\nask_judge({exercise!r})"
        plain = {"nbgrader": {"grade": False, "solution": False, "locked": False, "schema_version": 3}}
        cell = self.nb.cells[index]
        self._run_cell(new_code_cell(source, metadata=plain), index)
        self.nb.cells[index] = cell  # nbclient puts what it ran there

    def _note(self, cell) -> str:
        notes = []
        if self._way == UNSAFE:
            notes.append(UNSAFE_NOTE)
        if self._limit:
            notes.append(self._limit)
        left_out = getattr(self.km.provisioner, "left_out", ()) if self.km else ()
        if left_out:
            names = ", ".join(printable(name, 60) for name in left_out)
            notes.append(f"Too large for grading, or no plain file, and so not there: {names}.")
        if self._stopped:
            notes.append(f"The run of this notebook stopped early: {self._stopped}.")
        if "restored" in cell.metadata.get("tags", []):
            notes.append("This check cell was missing in what was handed in and has been put back.")
        return " ".join(notes)

    # How a learner's kernel is started: these three methods alone decide it.

    def _find_way(self) -> str:
        """How the notebook will be shut in. ``NoSandbox`` before anything is done, where it cannot be."""
        if self.unsafe_no_sandbox:
            self.log.warning(UNSAFE_NOTE)
            return UNSAFE
        from autograder.sandbox_warm import warm

        return warm(tuple(self.ways)).way

    def _kernel_manager(self, scratch: Path):
        """The manager of a kernel that has not been started."""
        if self._way != UNSAFE:
            from autograder.sandbox_client import CappedClient, PromptManager
            from autograder.sandbox_kernel import SandboxProvisioner

            self.kernel_manager_class = PromptManager
        kernel = self.create_kernel_manager()
        kernel.connection_file = str(scratch / "kernel.json")
        if self._way == UNSAFE:
            if os.name == "posix":
                kernel.transport = "ipc"  # sockets in a folder of our own; TCP ports are open to all here
            return kernel
        kernel.transport, kernel.client_factory = "ipc", CappedClient
        kernel.provisioner = SandboxProvisioner(
            kernel_id=scratch.name, kernel_spec=kernel.kernel_spec, parent=kernel
        )
        kernel.provisioner.limits, kernel.provisioner.ways = Limits(**self.limits), tuple(self.ways)
        places = Places.found()
        kernel.provisioner.hidden = places.course, places.labs, places.exchange
        return kernel

    def _kernel_environment(self, judge: str, scratch: Path) -> dict[str, str]:
        """What the kernel's process sees: the judge's address, and nothing of the course or its secret.

        The sandbox takes still less of it and has folders of its own.
        """
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "GPULAB_JUDGE": str(judge),
            "GPULAB_STILLS": "0",  # nobody looks at a learner's own charts here; the judge's are drawn by the judge
            "IPYTHONDIR": str(scratch / "ipython"),
            "JUPYTER_CONFIG_DIR": str(scratch / "jupyter"),
            "PYTHONNOUSERSITE": "1",
            "PYTHONSAFEPATH": "1",  # a random.py beside the notebook must not keep the kernel from starting
        }
        return environment


def _as_json(text: str) -> object:
    """``text`` as the JSON it is, or as itself: a learner's side may answer anything."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
