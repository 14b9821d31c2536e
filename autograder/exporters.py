"""How notebooks go through nbgrader's steps here: read once, not copied at each turn, written in one line."""

import json
import os
from typing import final

from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import Exporter
from nbformat.v4.rwbase import strip_transient


class Uncopied(Exporter):
    """Steps work on the notebook itself: it has just been read, so it is nobody else's.

    nbconvert copies it three times before the first step, which takes as long as the steps do.
    """

    def from_notebook_node(self, nb, resources=None, **options):
        """The notebook after all steps, checked once, and the resources."""
        resources, step = self._init_resources(resources), None
        for step in self._preprocessors:
            nb, resources = step(nb, resources)
        self._validate_preprocessor(nb, step)
        about = resources.get("metadata", {})
        self._nb_metadata[os.path.join(about.get("path", ""), about.get("name", ""))] = nb.metadata
        return nb, resources


@final
class GradedNotebook(NotebookExporter, Uncopied):
    """A notebook file for programs: ``nbformat.writes`` copies, checks and indents, all of it in Python."""

    def from_notebook_node(self, nb, resources=None, **options):
        """The text of the file, and the resources."""
        nb, resources = Uncopied.from_notebook_node(self, nb, resources, **options)
        resources["output_suffix"] = ".nbconvert"
        return json.dumps(strip_transient(nb), ensure_ascii=False) + "\n", resources
