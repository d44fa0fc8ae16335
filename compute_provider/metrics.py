"""The metrics of a provider's daemon: their table, and the sources of their values."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_provider.decide.records import Shares, Stage
from compute_provider.decide.view import Look
from compute_provider.store import Store
from domain.keys import ShareKey
from domain.ledger.queries import AccountResponse
from domain.registry.records import Provider
from host.lanes import Lanes, Outcome
from host.metrics import Meters, Metric, MetricKind
from link.blobs import BlobStore

STUCK_SECONDS = 120.0
"""Longest time (s) that one turn of the loop takes in a healthy daemon. The machine is measured before the first
turn."""

JOINED = Metric("assay_provider_joined", MetricKind.GAUGE, "1 while the validator serves this daemon, otherwise 0.")
ADMITTED = Metric(
    "assay_provider_admitted", MetricKind.GAUGE, "1 if the provider is in the cluster on the chain, otherwise 0."
)
POLL_AGE = Metric("assay_provider_poll_age_seconds", MetricKind.GAUGE, "Seconds since the last answered poll.")
SPEED = Metric(
    "assay_provider_speed_flops", MetricKind.GAUGE, "FLOP/s certified on the chain; 0 if no speed is certified."
)
SHARES = Metric(
    name="assay_provider_shares_in_hand",
    kind=MetricKind.GAUGE,
    help="Shares that the provider has now, by stage.",
    labels=("stage",),
)
SHARES_ENDED = Metric(
    name="assay_provider_shares_total",
    kind=MetricKind.COUNTER,
    help=(
        "Shares since the start, by outcome: trained, stopped (by the job), delivered, refused (by the validator), "
        "failed, dropped."
    ),
    labels=("outcome",),
)
STAGE_SECONDS = Metric(
    name="assay_provider_stage_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Seconds that shares spend in a stage, by stage.",
    labels=("stage",),
)
STEPS = Metric("assay_provider_steps_total", MetricKind.COUNTER, "Training steps done.")
WORKERS = Metric("assay_provider_workers", MetricKind.GAUGE, "Worker processes that run.")
BYTES = Metric(
    name="assay_provider_bytes_total",
    kind=MetricKind.COUNTER,
    help="Bytes of files moved, by direction: in (from the validator) or out (to it).",
    labels=("direction",),
)
EARNED = Metric("assay_provider_earned_uassay", MetricKind.GAUGE, "Coins that all orders have paid so far (uassay).")
BALANCE = Metric("assay_provider_balance_uassay", MetricKind.GAUGE, "Coins in the provider's account (uassay).")
BOND = Metric("assay_provider_bond_uassay", MetricKind.GAUGE, "Free coins in the provider's bond account (uassay).")
ACTIONS = Metric(
    name="assay_provider_open_actions",
    kind=MetricKind.GAUGE,
    help="Actions by lane and state: running, waiting (for a thread), paused (after a failure).",
    labels=("lane", "state"),
)
ACTIONS_ENDED = Metric(
    name="assay_provider_actions_total",
    kind=MetricKind.COUNTER,
    help="Actions that have ended, by lane and outcome (done, failed, bug).",
    labels=("lane", "outcome"),
)
BLOBS = Metric("assay_provider_blob_bytes", MetricKind.GAUGE, "Bytes of the files of orders that the provider has.")
DISK_FREE = Metric("assay_provider_disk_free_bytes", MetricKind.GAUGE, "Free bytes on the disk of the home.")
METRICS = (
    JOINED,
    ADMITTED,
    POLL_AGE,
    SPEED,
    SHARES,
    SHARES_ENDED,
    STAGE_SECONDS,
    STEPS,
    WORKERS,
    BYTES,
    EARNED,
    BALANCE,
    BOND,
    ACTIONS,
    ACTIONS_ENDED,
    BLOBS,
    DISK_FREE,
)


class ProviderCounts:
    """The counters of a daemon, and the times that shares stay in a stage. Only the loop's thread may call ``took``."""

    def __init__(self, meters: Meters, now: Callable[[], float] = time.monotonic) -> None:
        """Use ``meters`` for all counts. ``now`` returns the seconds of a steady clock."""
        self._meters = meters
        self._now = now
        self._since: dict[ShareKey, float] = {}

    def ended(self, lane: str, outcome: Outcome) -> None:
        """Count an action that has ended, by its lane and its outcome."""
        self._meters.count(ACTIONS_ENDED, lane, outcome.value)

    def moved(self, direction: str, size: int) -> None:
        """Count ``size`` bytes moved from the validator (``in``) or to it (``out``)."""
        self._meters.count(BYTES, direction, by=size)

    def took(self, before: Shares, after: Shares) -> None:
        """Count the steps, stages and outcomes of the shares that changed from the record ``before`` to ``after``."""
        now = self._now()
        old = {work.key: work for work in before.works}
        for work in after.works:
            was = old.pop(work.key, None)
            if was is not None and work.stage is was.stage:
                if work.step > was.step:
                    self._meters.count(STEPS, by=work.step - was.step)
                continue
            if was is not None:
                self._observe_stage(was.key, was.stage, now)
                outcome = _OUTCOMES.get(work.stage, "")
                if outcome == "trained" and not work.update_root:
                    outcome = "stopped"
                if outcome:
                    self._meters.count(SHARES_ENDED, outcome)
            self._since[work.key] = now
        for work in old.values():
            self._observe_stage(work.key, work.stage, now)
            if not work.signed and work.stage is not Stage.FAILED:
                self._meters.count(SHARES_ENDED, "dropped")

    def _observe_stage(self, key: ShareKey, stage: Stage, now: float) -> None:
        # The time is unknown if the share was in this stage when the daemon started.
        since = self._since.pop(key, None)
        if since is not None:
            self._meters.observe(STAGE_SECONDS, now - since, stage.name.lower())


_OUTCOMES = {
    Stage.TRAINED: "trained",
    Stage.DELIVERED: "delivered",
    Stage.REFUSED: "refused",
    Stage.FAILED: "failed",
}


@dataclass(slots=True)
class ProviderHealth:
    """The source of a daemon's metrics and of its health.

    The loop sets ``turned`` to the monotonic time of its last turn.
    """

    home: Path
    meters: Meters
    shares: Callable[[], Shares]
    validator: Callable[[], Look]
    known: Callable[[], Provider | None]
    account: Callable[[], AccountResponse | None]
    is_admitted: Callable[[], bool]
    note: Callable[[], str]
    workers: Callable[[], Sequence[int]]
    store: Store
    blobs: BlobStore
    lanes: Lanes[Any]
    turned: float = field(default=0.0)

    def look(self) -> None:
        """Update the metrics that are read at each scrape."""
        show = self.meters.show
        show_all = self.meters.show_all
        shares = self.shares()
        look = self.validator()
        known = self.known()
        show(JOINED, look.joined)
        show(ADMITTED, self.is_admitted())
        show(SPEED, known.capability.speed if known and known.capability else 0)
        if look.picture is not None:
            show(POLL_AGE, time.monotonic() - look.picture.began)
        stages = Counter(work.stage for work in shares.works)
        show_all(SHARES, {(stage.name.lower(),): stages[stage] for stage in Stage})
        show(WORKERS, len(self.workers()))
        show(EARNED, self.store.earned())
        account = self.account()
        if account is not None:
            show(BALANCE, account.balance)
            show(BOND, account.bond.free)
        show(BLOBS, self.blobs.total())
        show(DISK_FREE, shutil.disk_usage(self.home).free)
        show_all(ACTIONS, {(str(lane), kind): n for (lane, kind), n in self.lanes.counts().items()})

    def health(self) -> Sequence[str]:
        """Return the problems of the daemon; empty if it is healthy."""
        still = time.monotonic() - self.turned
        if self.turned and still > STUCK_SECONDS:
            return [f"the main loop has been stuck for {still:.0f} s"]
        return []

    def readiness(self) -> Sequence[str]:
        """Return the reasons why the provider cannot get work; empty if it can."""
        return [] if self.validator().joined else [self.note() or "the provider has not joined its validator yet"]
