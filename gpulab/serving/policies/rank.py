"""Who goes first is one number a job."""

from abc import abstractmethod
from typing import final

from gpulab.serving.policies.choosing import chunks, relieve
from gpulab.serving.policy import JobView, Policy, View


class RankPolicy(Policy):
    """Jobs in the order of ``rank``, lowest first; ties go to whoever came first. Write ``rank``.

    It is asked with a job's own facts only, and again when that job changed; with ``moving`` all waiting
    jobs are ranked at each event. Chunks and budget are those of ``Chunked``; when blocks are short the
    running job of the highest rank is put out.
    """

    moving: bool = False

    @abstractmethod
    def rank(self, job: JobView) -> int | float | tuple:
        """The place of ``job`` in the line: the lowest goes first."""

    @final
    def decide(self, view: View) -> dict:
        def ranked(job: JobView) -> tuple:
            return self._rank(job), job.arrival_ns, job.id

        if view.need_blocks:
            return relieve(view, sorted(view.running, key=ranked, reverse=True))
        waiting = sorted(view.waiting, key=ranked) if view.waiting else ()
        running = sorted((job for job in view.running if job.left), key=ranked)
        return chunks(view, waiting, running)

    def _rank(self, job: JobView) -> object:
        """The rank of ``job``, remembered until it has made a token or computed a chunk more."""
        known = self.__dict__.setdefault("_ranks", {})
        change = job.computed, job.generated
        found = known.get(job.id)
        if found is None or found[0] != change or (self.moving and not job.blocks):
            found = known[job.id] = change, self.rank(job)
        return found[1]
