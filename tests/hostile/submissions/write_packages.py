# Tries: to change the packages that the next learner's kernel imports.
# Must: be refused: they are read-only.
# Points: 0.6
# Together: reads
# Says: gpulab: refused | numpy: refused | python: refused
import os
import sys

import numpy

import gpulab

for name, path in (
    ("gpulab", gpulab.__file__),
    ("numpy", numpy.__file__),
    ("python", os.__file__),
):
    try:
        open(path, "a").write("\nprint('hostile')\n")
        print(f"{name}: went through")
    except OSError:
        print(f"{name}: refused")
