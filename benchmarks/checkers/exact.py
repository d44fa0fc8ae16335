"""The product's own checks, as columns of the matrix: the hashes on the chain, and replays by the code of validators.

A column is a tier with a way to choose places. ``Panels`` takes the tier's draws: the duty of the share's own validator
and one panel per round, with the number of places that the order's parameters pay for. ``Everything`` replays all
places, as any party may that has the states, with ``assay trace verify`` or before a challenge.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.checkers.checker import Draw, Verdict
from domain.amount import BPS
from domain.hashing import u32
from domain.keys import ShareKey
from domain.params import Params
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, ShareRoots
from escrow.settle import audit_fee
from matching_engine.records import price_bps
from pol.errors import StateError
from pol.executor.names import NATIVE, Engine
from pol.replay.trace_file import ShareRecord, share_record
from pol.rules.commitment import boundary_root, share_commitment
from pol.rules.lots import draw, seed
from pol.rules.panels import ShareExtent, audit_floor, count_groups, segment_count
from pol.rules.schedule import round_work, share_segments, total_work
from pol.rules.tiers.tier import Tier
from pol.rules.tolerance import TIER_NAME
from pol.state.arrays import State
from pol.state.canonical import encode_state, state_tree
from pol.work.records import Boundary, RoundSlot
from tests.security.setting import PROVIDER, SEGMENT, Checkpoint, Claim, ClaimedRound, Setting
from validator.work.checks.check import Checks
from validator.work.checks.table import checks_of
from validator.work.requests import (
    AggregationAudit,
    OpenedStates,
    RootedFile,
    SegmentCheck,
    StateFiles,
    UpdateCheck,
)

CHAIN = "assay-matrix"
PRICE = 10**6
"""Price of the order (uassay per PFLOP)."""
SEATS = 33
"""Validators that are free for a panel."""
PARAMS = Params().for_order()
ENGINE = Engine(NATIVE)
END = -1
"""The number of a place that is no segment: the update or the aggregation."""


def root_of(state: State) -> bytes:
    """Return the root of a state. A state that may not exist, such as one with NaN, gets any hash: a provider may
    commit to anything.
    """
    try:
        return state_tree(state).root
    except StateError:
        return sha256(b"".join(np.asarray(value).tobytes() for value in state.values())).digest()


class Ledger:
    """The hashes that the chain has of a claim, and the files that its provider shows."""

    def __init__(self, setting: Setting, claim: Claim, folder: Path) -> None:
        """Write files to ``folder``."""
        self.setting, self.claim, self._folder = setting, claim, folder
        self._roots: dict[int, bytes] = {}  # By identity, since the claim holds all its states.
        self.shares = [self._share(number, each) for number, each in enumerate(claim.rounds)]
        self.after = [self.root(each.after) for each in claim.rounds]

    def root(self, state: State) -> bytes:
        """Return the root of a state of the claim."""
        if id(state) not in self._roots:
            self._roots[id(state)] = root_of(state)
        return self._roots[id(state)]

    def _share(self, number: int, claimed: ClaimedRound) -> ShareRecord:
        count = len(claimed.checkpoints)
        steps = SEGMENT if count == self.setting.segments + 1 else 0
        boundaries = tuple(
            self._boundary(each, index, number * self.setting.segments * SEGMENT + index * steps)
            for index, each in enumerate(claimed.checkpoints)
        )
        roots = self.root(claimed.update), self.root(claimed.local_out)
        return share_record(RoundSlot(number, 0), boundaries, *roots)

    def _boundary(self, at: Checkpoint, index: int, step: int) -> Boundary:
        first, second = self.root(at.weights), self.root(at.velocity)
        return Boundary(
            index=index,
            step=step,
            global_root=first,
            local_root=second,
            root=boundary_root(first, second, at.metrics),
            metrics=at.metrics,
        )

    def fault(self) -> str:
        """Return what the chain and the share's own validator see without a replay, or empty text."""
        opening, local = self.setting.loaded.job.document.global_root, self.setting.loaded.job.document.local_root
        for number, share in enumerate(self.shares):
            if share.segments != self.setting.segments:
                return f"round {number} has {share.segments} segments"
            if share.boundaries[0].root != boundary_root(opening, local, ()):
                return f"round {number} does not begin where the chain says"
            if self._commitment(number, PROVIDER) != self._commitment(number, self.claim.committed_by):
                return "the commitment is that of another provider"
            opening, local = self.after[number], share.local_out_root
        if self.root(self.claim.delivered) != opening:
            return "the delivered model is not the one on the chain"
        return ""

    def _commitment(self, number: int, provider: str) -> bytes:
        share = self.shares[number]
        roots = ShareRoots(
            trace_root=share.trace_root,
            update_root=share.update_root,
            local_out=share.local_out_root,
            metrics=share.boundaries[-1].metrics,
            segments=share.segments,
            steps=0,
        )
        key = ShareKey(order_id=bytes(32), leg=1, round=number, slot=0, issue=0)
        opening = share.boundaries[0].global_root, share.boundaries[0].local_root
        return share_commitment(CHAIN, key, provider, opening, 1, roots)

    def opened(self, number: int, index: int) -> OpenedStates | None:
        """Return the states that the provider shows for a boundary; None if it shows none."""
        shown = self.claim.shown[number].checkpoints[index]
        if shown.is_withheld:
            return None
        paths = self.file(shown.weights, shown.file), self.file(shown.velocity, None)
        boundary = self.shares[number].boundaries[index]
        return OpenedStates(StateFiles(*paths), boundary.metrics, boundary.root)

    def file(self, state: State, other: bytes | None = None) -> Path:
        """Return a file with the bytes of a state, or with ``other`` bytes."""
        name = sha256(other).hexdigest() if other is not None else self.root(state).hex()
        path = self._folder / name
        if not path.exists():
            path.write_bytes(other if other is not None else _bytes(state))
        return path


def _bytes(state: State) -> bytes:
    try:
        return encode_state(state)
    except StateError:
        # An honest file with NaN in place of its last number: the canonical bytes of such a state do not exist.
        finite = {name: np.nan_to_num(np.asarray(value)) for name, value in state.items()}
        return encode_state(finite)[:-4] + b"\x00\x00\xc0\x7f"


def drawn_segments(setting: Setting) -> int:
    """Return the number of segments that a panel of one round draws."""
    terms = setting.terms
    fee = max(audit_floor(terms, PRICE, PARAMS), audit_fee(round_work(terms), PRICE, PARAMS.audit_bps))
    return segment_count(terms, PARAMS, count_groups(terms, PARAMS, PRICE, fee, SEATS))


def panel_places(setting: Setting, tier: Tier, round: int, beacon: bytes) -> tuple[AuditPlace, ...]:
    """Return the places of a round's panel for a beacon, which no party knows before the round is closed."""
    lot = seed("panel", u32(round), beacon)
    extent = ShareExtent(slot=0, issue=0, segments=setting.segments)
    return tier.draw_places(lot, [extent], drawn_segments(setting), None)


def duty_places(setting: Setting, tier: Tier, round: int, beacon: bytes) -> tuple[int, ...]:
    """Return the segments that the share's own validator must replay."""
    lot = seed("duty", u32(round), beacon)
    return tier.draw_duty(lot, setting.terms, False, PARAMS)


def has_panel(setting: Setting, tier: Tier, round: int, beacon: bytes) -> bool:
    """Return whether a lot gives a round a panel, with the chance of the tier, if nothing speaks against it."""
    terms = setting.terms
    job_bond = price_bps(total_work(terms), PRICE, PARAMS.job_bond_bps)
    (number,) = draw(seed("audit", u32(round), beacon), BPS, 1)
    return number < tier.rate(terms, PRICE, job_bond, PARAMS)


@dataclass(frozen=True)
class Panels:
    """The check of a tier: hashes, the duty of the share's own validator, and a panel for rounds that have one."""

    tier: Tier

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.tier.name

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim, given a beacon."""

        return panel_draw(setting, claim, self, checks_of(self.tier.name))

    def places(self, setting: Setting, lot: bytes) -> Iterator[tuple[int, AuditPlace | int, int]]:
        """Yield each drawn place with its round, and the number of parties that replay it."""
        for round in range(setting.rounds):
            beacon = sha256(lot + u32(round)).digest()
            for segment in duty_places(setting, self.tier, round, beacon):
                yield round, segment, 1
            for place in panel_places(setting, self.tier, round, beacon):
                if has_panel(setting, self.tier, round, beacon):
                    yield round, place, PARAMS.auditors


def panel_draw(setting: Setting, claim: Claim, panels: Panels, checks: Checks) -> Draw:
    """Return a function that judges a claim at the places of panels by the checks of a tier."""
    return _examined(setting, claim, checks, partial(panels.places, setting))


@dataclass(frozen=True)
class Replicas:
    """The check of a tier that replicates: an honest replica trains the same, and panels find where they depart.

    If the roots are equal, the rest is the check of ``Panels``.
    """

    tier: Tier

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.tier.name

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim, given a beacon."""
        departure = _find_departure(
            Ledger(setting, claim, setting.files), Ledger(setting, setting.honest, setting.files)
        )
        others = Panels(self.tier).examine(setting, claim)

        def judge(lot: bytes) -> Verdict:
            if departure:
                return Verdict(departure, steps_of(setting))
            verdict = others(lot)
            return Verdict(verdict.fault, verdict.steps + steps_of(setting))

        return judge


def _find_departure(ledger: Ledger, other: Ledger) -> str:
    """Return the first place at which two claims have other roots, or empty text."""
    for number, (share, theirs) in enumerate(zip(ledger.shares, other.shares, strict=True)):
        for own, right in zip(share.boundaries, theirs.boundaries, strict=False):
            if own.root != right.root:
                return f"round {number} departs from its replica at boundary {own.index}"
        ends = share.trace_root, share.update_root, share.local_out_root, ledger.after[number]
        if ends != (theirs.trace_root, theirs.update_root, theirs.local_out_root, other.after[number]):
            return f"round {number} departs from its replica at its end"
    return ""


@dataclass(frozen=True)
class Everything:
    """A replay of every place by any party that has the states."""

    tier: Tier

    @property
    def name(self) -> str:
        """The name of the column."""
        return f"{self.tier.name}, all"

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim; the lot does not matter."""

        def places(_lot: bytes) -> Iterator[tuple[int, AuditPlace | int, int]]:
            for round in range(setting.rounds):
                for segment in range(setting.segments):
                    yield round, segment, 1
                for kind in (AuditKind.UPDATE, AuditKind.AGGREGATION):
                    yield round, AuditPlace(kind=kind, slot=0, issue=0, segment=setting.segments), 1

        return _examined(setting, claim, checks_of(self.tier.name), places)


Places = Callable[[bytes], Iterator[tuple[int, AuditPlace | int, int]]]


def _examined(setting: Setting, claim: Claim, checks: Checks, places: Places) -> Draw:
    ledger = Ledger(setting, claim, setting.files)
    replayer = _Replayer(ledger, checks)
    first = ledger.fault()

    def judge(lot: bytes) -> Verdict:
        if first:
            return Verdict(first, 0)
        steps = 0
        for round, place, parties in places(lot):
            fault, own = replayer.check(round, place)
            steps += parties * own
            if fault:
                return Verdict(fault, steps)
        return Verdict("", steps)

    return judge


class _Replayer:
    """Replays of places of one claim, each done once."""

    def __init__(self, ledger: Ledger, checks: Checks) -> None:
        self._ledger, self._checks = ledger, checks
        self._known: dict[tuple[int, AuditKind, int], str] = {}

    def check(self, round: int, place: AuditPlace | int) -> tuple[str, int]:
        """Return the fault at a place, or empty text, and the number of steps that its replay runs."""
        kind = AuditKind.SEGMENT if isinstance(place, int) else place.kind
        segment = place if isinstance(place, int) else place.segment
        key = round, kind, segment if kind is AuditKind.SEGMENT else END
        if key not in self._known:
            self._known[key] = self._fault(*key)
        return self._known[key], SEGMENT if kind is AuditKind.SEGMENT else 0

    def _fault(self, round: int, kind: AuditKind, segment: int) -> str:
        match kind:
            case AuditKind.SEGMENT:
                fault = self._segment(round, segment)
            case AuditKind.UPDATE:
                fault = self._update(round)
            case _:
                fault = self._aggregation(round)
        return fault and f"round {round}, {kind.name.lower()} {max(0, segment)}: {fault}"

    def _segment(self, round: int, segment: int) -> str:
        ledger = self._ledger
        start, end = ledger.opened(round, segment), None
        if self._checks.tier == TIER_NAME:
            end = ledger.opened(round, segment + 1)
            if end is None:
                return "withheld"
        if start is None:
            return "withheld"
        asked = SegmentCheck(
            directory=ledger.setting.directory,
            part=RoundSlot(round, 0),
            index=segment,
            start=start,
            end_root=ledger.shares[round].boundaries[segment + 1].root,
            engine=ENGINE,
            end=end,
        )
        return _words(self._checks.check_segment(asked).reason)

    def _update(self, round: int) -> str:
        ledger = self._ledger
        claimed, share = ledger.claim.rounds[round], ledger.shares[round]
        closing = ledger.opened(round, share.segments)
        opening = ledger.opened(round, 0)
        if closing is None or opening is None:
            return "withheld"
        asked = UpdateCheck(
            directory=ledger.setting.directory,
            round_opening=opening.files.global_state,
            closing=closing,
            update=ledger.file(claimed.update),
            local_out=ledger.file(claimed.local_out),
            update_root=share.update_root,
            local_root=share.local_out_root,
            engine=ENGINE,
        )
        try:
            return _words(self._checks.check_update(asked).reason)
        except StateError:
            return "malformed"

    def _aggregation(self, round: int) -> str:
        ledger = self._ledger
        claimed, share = ledger.claim.rounds[round], ledger.shares[round]
        opening = RootedFile(ledger.file(claimed.checkpoints[0].weights), share.boundaries[0].global_root)
        asked = AggregationAudit(
            directory=ledger.setting.directory,
            opening=opening,
            updates=(RootedFile(ledger.file(claimed.update), share.update_root),),
            seeds=(bytes(32),),
            engine=ENGINE,
        )
        found = self._checks.recompute_aggregation(asked)
        return "" if not found.fault and found.root == ledger.after[round] else found.fault or "another next state"


def _words(reason: int) -> str:
    return "" if reason == ShareReason.NONE else ShareReason(reason).name.lower()


def steps_of(setting: Setting) -> int:
    """Return the number of training steps of the job."""
    return setting.rounds * share_segments(setting.terms) * SEGMENT
