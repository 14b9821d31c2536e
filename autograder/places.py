"""Where a course keeps its files: one place that every command and nbgrader's config ask."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent

COURSE_ID = "gpulab"
"""nbgrader's name of the course: the folder below the exchange. Not the secret-derived id on the card."""


@dataclass(frozen=True)
class Places:
    """The folders of one course.

    Attributes:
        labs: the source notebooks, with solutions; one folder a lab, named like its notebook.
        course: everything that is generated, and the secret. exchange: nbgrader's exchange.
    """

    labs: Path
    course: Path
    exchange: Path

    @classmethod
    def found(cls, environ: Mapping[str, str] | None = None) -> "Places":
        """The folders in force: the repository's own, or what the environment names instead.

        ``GPULAB_LABS``, ``GPULAB_COURSE`` and ``GPULAB_EXCHANGE`` each replace one of them.
        """
        environ = os.environ if environ is None else environ
        # Resolved, because nbgrader joins "..": behind a link that would lead somewhere else.
        course = Path(environ.get("GPULAB_COURSE") or _REPOSITORY / "course").resolve()
        return cls(
            labs=Path(environ.get("GPULAB_LABS") or _REPOSITORY / "labs").resolve(),
            course=course,
            exchange=Path(environ.get("GPULAB_EXCHANGE") or course / "exchange").resolve(),
        )

    def lab_names(self) -> list[str]:
        """The labs that have a source notebook, in order."""
        return sorted(path.stem for path in self.labs.glob("*/*.ipynb") if path.stem == path.parent.name)

    def source(self, lab: str) -> Path:
        """The source notebook of ``lab``. ``LookupError`` when there is no such lab."""
        if lab not in self.lab_names():
            raise LookupError(
                f"There is no lab {lab!r} in {self.labs}. There is: {', '.join(self.lab_names()) or 'none'}."
            )
        return self.labs / lab / f"{lab}.ipynb"

    def step(self, step: str, student: str, lab: str) -> Path:
        """nbgrader's folder of one step (``submitted``, ``autograded``, ``feedback``)."""
        return self.course / step / student / lab
