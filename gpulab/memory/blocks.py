"""A pool of KV blocks in two halves: counting who holds what is final, which blocks come next is a hook.

A block keeps the keys and values of ``block_tokens`` tokens. Any block serves any claim, so nothing is ever
fragmented; several holders may share one, and it is free when the last lets go. A learner writes ``take``
(these blocks, please) and ``give`` (these came back). Kwon et al., PagedAttention (SOSP 2023), section 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from gpulab.memory import block_checks, explain
from gpulab.memory.grants import BlockGrants
from gpulab.memory.hooks import prepare_safely, refuse_taken_names
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.events import Claimed, Granted, Opened, Refused, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units
from gpulab.units import whole

_HOOKS = ("prepare", "take", "give", "touch")


class BlockPool(ABC):
    """Hands out the blocks 0 to ``n_blocks - 1``. Subclass it and write ``take`` and ``give``.

    In the ledger a unit is a block, or with ``block_tokens`` above 1 a slot for one token: then *used* are the
    slots with a token in them, and *stranded* those that a block keeps empty.

    Args:
        n_blocks: blocks of the pool. block_tokens: tokens that one holds.
        rules: constants of an exercise, for the hooks to read as ``self.rules``.
        clock, ledger: share them between parts of one run; fresh ones otherwise. Whoever shares a ledger
            shares its claim serials, so one ledger takes one pool.

    Raises:
        AllocatorFault: a number that is none, or a subclass took a name that every block pool has.
    """

    def __init__(
        self,
        n_blocks: int,
        *,
        block_tokens: int = 1,
        rules: dict | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        resource: str = "kv",
    ) -> None:
        others = set(vars(self))
        self.n_blocks = block_checks.positive("n_blocks", n_blocks)
        self.block_tokens = block_checks.positive("block_tokens", block_tokens)
        self.resource = resource
        self.rules = dict(rules or {})
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self._holders: dict[int, dict[str, None]] = {}  # held block -> who holds it, oldest first
        self._grants = BlockGrants(self.ledger, self.block_tokens)
        self._wanted: dict[int, tuple[int, str]] = {}  # waiting claims: blocks and owner
        self._claims = 0
        unit = "block" if self.block_tokens == 1 else "token"
        self.ledger.append(Opened(self.clock.now_ns, resource, self.n_blocks * self.block_tokens, unit))
        prepare_safely(self, BlockPool, others, "block pool")

    # -- what a subclass writes ------------------------------------------------------------------

    def prepare(self) -> None:
        """Called once while the pool is empty; set up your own books here."""

    @abstractmethod
    def take(self, n: int, urgent: bool = False) -> list[int] | None:
        """``n`` free blocks, all or none: None when you do not give that many.

        ``urgent`` says that a running request needs them to go on. Take the blocks off your books; if the
        answer is refused with ``AllocatorFault`` nothing was granted.
        """

    @abstractmethod
    def give(self, blocks: list[int]) -> None:
        """Nobody holds ``blocks`` any more; they come in the order in which their holder has them."""

    def touch(self, blocks: list[int]) -> None:
        """These free blocks are taken as they are, for what they still contain; take them off your books."""
        raise NotImplementedError("this pool cannot hand out a block of the caller's choice")

    # -- what every block pool does --------------------------------------------------------------

    @final
    def allocate(
        self,
        n: int,
        owner: str = "",
        *,
        hits: Sequence[int] = (),
        urgent: bool = False,
        claim: int | None = None,
    ) -> list[int]:
        """The blocks that ``owner`` holds now: ``hits``, whose contents it reuses, then ``n`` of ``take``.

        All or nothing. Hits are held before ``take`` is asked, so no block is both. A hit that others hold is
        shared and costs nothing; the rest is one claim. Records ``Claimed`` (not for a retry: ``claim`` names
        a refused claim that still waits, and keeps its owner), then ``Granted`` or ``Refused``. A retry for
        another number of blocks withdraws the old claim and makes a new one.

        Raises:
            OutOfMemory: ``take`` gave nothing. The claim waits: retry it or ``withdraw`` it.
            AllocatorFault: a number, block or owner that is none, or an answer of ``take`` that is not
                ``n`` free blocks of this pool. The ledger keeps all facts up to there.
        """
        owner = self._named(owner) if claim is None else self._waiting(claim)[1]
        hits = block_checks.checked_blocks(self, hits, "allocate")
        for block in hits:
            if owner in self._holders.get(block, ()):
                raise block_checks.held_already(self, block, owner)
        cached = [block for block in hits if block not in self._holders]
        count = block_checks.checked_count(self, n, 0 if hits else 1)
        need, new = count + len(cached), []
        if claim is not None and self._wanted[claim][0] != need:
            self.withdraw(claim)
            claim = None
        if need:
            claim = self.queue(need, owner) if claim is None else claim
            new = self._taken(count, cached, urgent, claim)
            self._grant(claim, [*cached, *new], owner)
        for block in hits:
            self._holders[block][owner] = None
        return [*hits, *new]

    @final
    def queue(self, n: int, owner: str = "") -> int:
        """Let a claim wait without asking ``take`` yet (others are before it); its serial, for a retry."""
        n = block_checks.checked_count(self, n)
        owner, claim = self._named(owner), self._claims
        self._claims += 1
        self._wanted[claim] = n, owner
        units = n * self.block_tokens
        self.ledger.append(Claimed(self.clock.now_ns, claim, self.resource, units, Units(units), owner))
        return claim

    @final
    def share(self, blocks: Sequence[int], owner: str) -> None:
        """``owner`` holds ``blocks`` too, which somebody holds: one holder more for each, nothing is taken.

        Raises:
            AllocatorFault: a block that nobody holds, or that ``owner`` holds already. Nothing was shared.
        """
        blocks = block_checks.checked_blocks(self, blocks, "share")
        self._named(owner)
        for block in blocks:
            if block not in self._holders:
                raise block_checks.not_held(self, block, "share", owner)
            if owner in self._holders[block]:
                raise block_checks.held_already(self, block, owner)
        for block in blocks:
            self._holders[block][owner] = None

    @final
    def release(self, blocks: Sequence[int], owner: str = "") -> None:
        """``owner`` lets go of ``blocks``; those without a holder left are free and go to ``give``.

        Records ``Freed`` for a claim of which nothing is held any more, ``Returned`` for a part of one.

        Raises:
            AllocatorFault: ``owner`` does not hold one of them (nothing was released), or ``give`` raised.
        """
        blocks = block_checks.checked_blocks(self, blocks, "release")
        for block in blocks:
            self._check_holds(owner, block, "release")
        for block in blocks:
            del self._holders[block][owner]
        idle = [block for block in blocks if not self._holders[block]]
        for block in idle:
            del self._holders[block]
        if idle:
            last = self._grants.last_claim(idle[0])
            self._grants.end(idle, self.clock.now_ns)
            self._call("give", last, idle)

    @final
    def fill(self, block: int, tokens: int, owner: str = "") -> None:
        """``block`` has ``tokens`` tokens in it now; a granted block counts as full until this is said.

        Raises:
            AllocatorFault: more than a block holds, ``owner`` does not hold it, or others do, too: a block
                that is shared is copied before it is written.
        """
        (block,) = block_checks.checked_blocks(self, (block,), "fill")
        count = whole(tokens)
        if count is None or not 0 <= count <= self.block_tokens:
            raise block_checks.overfull(self, block, tokens)
        self._check_holds(owner, block, "fill")
        if count != self._grants.tokens_in(block):
            if len(self._holders[block]) > 1:
                raise block_checks.shared_write(self, block, owner)
            self._grants.fill(block, count, self.clock.now_ns)

    @final
    def withdraw(self, claim: int) -> None:
        """Give up waiting for a refused claim; records ``Withdrawn``. ``AllocatorFault`` if none waits."""
        self._waiting(claim)
        del self._wanted[claim]
        self.ledger.append(Withdrawn(self.clock.now_ns, claim))

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return self.n_blocks - len(self._holders)

    def holders(self, block: int) -> tuple[str, ...]:
        """Who holds ``block``, in the order in which they came; their number is its reference count."""
        return tuple(self._holders.get(block, ()))

    def held(self) -> tuple[int, ...]:
        """The blocks that somebody holds, in order of their ids. Cost: O(n log n) in their number."""
        return tuple(sorted(self._holders))

    def claim_of(self, block: int) -> int | None:
        """The claim that ``block`` was last granted to, held or not; None when it never was."""
        return self._grants.last_claim(block)

    # -- checks ----------------------------------------------------------------------------------

    def __init_subclass__(cls) -> None:
        """Refuse a subclass of a final class, one that writes what is final, or a helper under such a name."""
        refuse_taken_names(cls, BlockPool, _HOOKS, "block pool")

    def _taken(self, n: int, cached: list[int], urgent: bool, claim: int) -> list[int]:
        """What ``take`` answers, checked, after the cached hits left its books; ``OutOfMemory`` if nothing."""
        answer: object = []
        if cached and n + len(cached) > self.free_blocks:
            answer = None  # not asked: the hits would have to go back, and lose their place in the order
        else:
            if cached:
                self._call("touch", claim, list(cached))
            if n:
                answer = self._call("take", claim, n, urgent)
            if answer is None and cached:
                self._call("give", claim, list(cached))
        if answer is None:
            free = self.free_blocks * self.block_tokens
            self.ledger.append(Refused(self.clock.now_ns, claim, free, free))
            raise block_checks.no_blocks(self, claim, n, len(cached))
        return block_checks.checked_answer(self, answer, n, cached, claim)

    def _grant(self, claim: int, blocks: list[int], owner: str) -> None:
        for block in blocks:
            self._holders[block] = {owner: None}
        del self._wanted[claim]
        self._grants.begin(claim, blocks)
        self.ledger.append(Granted(self.clock.now_ns, claim, -1, len(blocks) * self.block_tokens))

    def _call(self, hook: str, claim: int | None, *given: object) -> object:
        try:
            return getattr(self, hook)(*given)
        except Exception as wrong:
            raise explain.hook_raised(self, hook, given, wrong, claim) from wrong

    def _named(self, owner: str) -> str:
        if type(owner) is not str:
            raise explain.bad_owner(self, owner)
        return owner

    def _check_holds(self, owner: str, block: int, verb: str) -> None:
        if self._named(owner) not in self._holders.get(block, ()):
            raise block_checks.not_held(self, block, verb, owner)

    def _waiting(self, claim: int) -> tuple[int, str]:
        if type(claim) is not int or claim not in self._wanted:
            raise explain.not_waiting(self, claim)
        return self._wanted[claim]
