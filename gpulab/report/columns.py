"""What a run says, as tables: a row a request, a row a stretch of the account, a row a fact."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from typing import final

from gpulab.errors import shown
from gpulab.report.account import TERMS, Account, levels
from gpulab.report.metrics import Slo, summarize
from gpulab.report.waiting import PARTS, Waiting
from gpulab.telemetry.events import KINDS
from gpulab.telemetry.ledger import Ledger


@final
class Tables:
    """The tables of one ledger, each made when it is first asked for. ``slo``: what ``kept`` means, as in ``summarize``."""

    def __init__(self, ledger: Ledger, slo: Slo | Mapping[str, Slo] | None = None) -> None:
        self.ledger, self.slo = ledger, slo

    def rows(self, name: str) -> list[dict]:
        """The rows of table ``name``. ``ValueError`` says which there are."""
        if name == "requests":
            return self._requests
        if name == "account":
            return self._account
        if name not in KINDS:
            raise ValueError(
                f"there is no table {shown(name)}; there are requests, account and the facts: {', '.join(KINDS)}"
            )
        return [asdict(fact) for fact in self.ledger.of(KINDS[name])]

    @cached_property
    def _requests(self) -> list[dict]:
        waiting = Waiting(self.ledger)
        summary = summarize(self.ledger, self.slo, waiting=waiting, accounts={})
        rows = []
        for times, waited in zip(summary.requests, waiting.requests, strict=True):
            parts = {f"{part}_ns": getattr(waited, f"{part}_ns") for part in PARTS}
            promise = self.slo if isinstance(self.slo, Slo) else (self.slo or {}).get(times.tenant, Slo())
            rows.append({**asdict(times), **parts, "kept": int(promise.kept_by(times))})
        return rows

    @cached_property
    def _account(self) -> list[dict]:
        rows = []
        for level in levels(self.ledger):
            account = Account(self.ledger, level)
            steps = [*account.steps(), (account.end_ns, None)]
            for (start, terms), (end, _) in pairwise(steps):
                areas = {term: getattr(terms, term) * (end - start) for term in ("capacity", *TERMS)}
                rows.append({"time_ns": start, "lasts_ns": end - start, "level": level, **areas})
        return rows
