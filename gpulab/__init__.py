"""gpulab: GPU allocation and scheduling for AI serving, small enough to read.

A workload goes in, the learner's code decides, a device takes the time, a ledger remembers, and
everything else only reads the ledger. The rooms, in the order in which they may import each other::

    units, errors <- telemetry <- memory <- device <- sharing <- serving        report <- telemetry

``gpulab/DESIGN.md`` walks through them. Importing ``gpulab`` itself loads nothing but this page.
"""

__version__ = "0.1.0"
