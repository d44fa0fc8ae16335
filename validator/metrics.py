"""The metrics of a validator's daemon: their table, and the sources of their values."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chain.client.client import ChainClient
from chain.client.errors import ChainError
from domain.ledger.queries import AccountResponse
from domain.registry.queries import ValidatorsRequest
from domain.registry.records import Validator
from host.lanes import Lanes, Outcome
from host.metrics import Meters, Metric, MetricKind
from link.blobs import BlobStore
from pol.work.executor import Ended, Executor
from validator.decide.actions import Lane
from validator.decide.deadlines import DutyKind, open_duties
from validator.decide.view import ChainView
from validator.serve.service import Service
from validator.work.outbox import TxOutcome

STUCK_SECONDS = 120.0
"""Longest time (s) that one turn of the loop takes in a healthy daemon."""

CLOCK = Metric("assay_validator_chain_clock", MetricKind.GAUGE, "Chain clock at the last look, in seconds.")
LOOK_AGE = Metric(
    "assay_validator_look_age_seconds",
    MetricKind.GAUGE,
    "Seconds since the last successful look at the chain.",
)
NODE_UP = Metric("assay_validator_node_up", MetricKind.GAUGE, "1 if the node answers, otherwise 0.")
DUTIES = Metric(
    name="assay_validator_duties",
    kind=MetricKind.GAUGE,
    help="Open duties by kind: accept (a match), train (a running order), window (an own round that a panel"
    " recomputes), commit and reveal (a seat in a panel about another validator's round).",
    labels=("kind",),
)
DEADLINE = Metric(
    name="assay_validator_deadline_seconds",
    kind=MetricKind.GAUGE,
    help="Chain seconds until the nearest deadline of a kind of duty; negative if it has passed.",
    labels=("kind",),
)
REPLAYS = Metric(
    name="assay_validator_replays",
    kind=MetricKind.GAUGE,
    help="Computing tasks, by pool (own rounds, seats, trials) and state (running, waiting).",
    labels=("pool", "state"),
)
REPLAY_SECONDS = Metric(
    name="assay_validator_replay_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Seconds that ended computing tasks took, by pool and outcome (done, failed).",
    labels=("pool", "outcome"),
)
ACTIONS = Metric(
    name="assay_validator_open_actions",
    kind=MetricKind.GAUGE,
    help="Actions by lane and state: running, waiting (for a thread), paused (after a failure).",
    labels=("lane", "state"),
)
ACTIONS_ENDED = Metric(
    name="assay_validator_actions_total",
    kind=MetricKind.COUNTER,
    help="Actions that have ended, by lane and outcome (done, failed, bug).",
    labels=("lane", "outcome"),
)
FAILURES = Metric(
    name="assay_validator_failures_in_a_row",
    kind=MetricKind.GAUGE,
    help="Most failures in a row of one action, by lane; the pause before the next try doubles with each failure.",
    labels=("lane",),
)
SEATS_MISSED = Metric(
    "assay_validator_seats_missed",
    MetricKind.GAUGE,
    "Seats that the validator did not answer since genesis, as counted on the chain.",
)
SEATS_ANSWERED = Metric(
    "assay_validator_seats_answered",
    MetricKind.GAUGE,
    "Seats that the validator answered correctly since genesis, as counted on the chain.",
)
LEGS_FAILED = Metric(
    "assay_validator_legs_failed",
    MetricKind.GAUGE,
    "Legs that the validator won and failed since genesis, as counted on the chain.",
)
JAILED = Metric("assay_validator_jailed", MetricKind.GAUGE, "1 while the validator is jailed by panels, otherwise 0.")
CONSENSUS_JAILED = Metric(
    "assay_validator_consensus_jailed",
    MetricKind.GAUGE,
    "1 while the validator is jailed by the consensus, because it was absent or signed twice; otherwise 0.",
)
BALANCE = Metric("assay_validator_balance_uassay", MetricKind.GAUGE, "Coins in the operator's account (uassay).")
STAKE = Metric("assay_validator_stake_uassay", MetricKind.GAUGE, "Stake of the validator (uassay).")
BOND = Metric("assay_validator_bond_uassay", MetricKind.GAUGE, "Free coins in the operator's bond account (uassay).")
BLOBS = Metric("assay_validator_blob_bytes", MetricKind.GAUGE, "Bytes of the files of orders that the validator has.")
DISK_FREE = Metric("assay_validator_disk_free_bytes", MetricKind.GAUGE, "Free bytes on the disk of the home.")
PROVIDERS = Metric(
    name="assay_validator_providers",
    kind=MetricKind.GAUGE,
    help="Providers by state: admitted, polling (admitted ones that poll now), asking (to be admitted).",
    labels=("state",),
)
TXS = Metric(
    name="assay_validator_txs_total",
    kind=MetricKind.COUNTER,
    help="Transactions by outcome: arrived, refused, failed (the outcome is unknown).",
    labels=("outcome",),
)
SIGNATURES = Metric(
    name="assay_validator_signatures_total",
    kind=MetricKind.COUNTER,
    help="Checked signatures of providers, by outcome: right, wrong.",
    labels=("outcome",),
)
ALARMS = Metric(
    name="assay_validator_alarms_total",
    kind=MetricKind.COUNTER,
    help="Shares with a sign that they may be made up, by alarm: quick, still, repeated, metric.",
    labels=("alarm",),
)
METRICS = (
    CLOCK,
    LOOK_AGE,
    NODE_UP,
    DUTIES,
    DEADLINE,
    REPLAYS,
    REPLAY_SECONDS,
    ACTIONS,
    ACTIONS_ENDED,
    FAILURES,
    SEATS_MISSED,
    SEATS_ANSWERED,
    LEGS_FAILED,
    JAILED,
    CONSENSUS_JAILED,
    BALANCE,
    STAKE,
    BOND,
    BLOBS,
    DISK_FREE,
    PROVIDERS,
    TXS,
    SIGNATURES,
    ALARMS,
)


class ValidatorCounts:
    """The counters of a daemon."""

    def __init__(self, meters: Meters) -> None:
        """Use ``meters`` for all counts."""
        self._meters = meters

    def ended(self, lane: Lane, outcome: Outcome) -> None:
        """Count an action that has ended, by its lane and its outcome."""
        self._meters.count(ACTIONS_ENDED, lane.value, outcome.value)

    def sent(self, outcome: TxOutcome) -> None:
        """Count a transaction that was sent."""
        self._meters.count(TXS, outcome.value)

    def alarmed(self, alarm: str) -> None:
        """Count an alarm of a share."""
        self._meters.count(ALARMS, alarm)

    def replays(self, pool: str) -> Ended:
        """Return the function that records the ended tasks of a pool."""

        def ended(seconds: float, error: BaseException | None) -> None:
            outcome = "failed" if error is not None else "done"
            self._meters.observe(REPLAY_SECONDS, seconds, pool, outcome)

        return ended

    def verifying(self, verify: Callable[[bytes, bytes, bytes], bool]) -> Callable[[bytes, bytes, bytes], bool]:
        """Return a function that calls ``verify`` and counts its outcomes."""

        def counted(key: bytes, message: bytes, signature: bytes) -> bool:
            right = verify(key, message, signature)
            self._meters.count(SIGNATURES, "right" if right else "wrong")
            return right

        return counted


@dataclass(slots=True)
class ValidatorHealth:
    """The source of a daemon's metrics and of its health.

    ``service`` is set once the node has answered. The loop sets the fields that are declared after ``service``.
    ``turned`` is the time of the loop's last turn, and ``looked`` is the time of its last look (monotonic seconds).
    ``clock`` and ``rival`` are problems in words.
    """

    me: str
    node: str
    home: Path
    meters: Meters
    client: ChainClient
    blobs: BlobStore
    lanes: Lanes[Lane]
    pools: Mapping[str, Executor]
    service: Service | None = None
    turned: float = 0.0
    looked: float = 0.0
    away: bool = True
    clock: str = ""
    rival: str = ""
    published: bool = False

    def look(self) -> None:
        """Update the metrics that are read at each scrape."""
        show = self.meters.show
        show_all = self.meters.show_all
        show(NODE_UP, not self.away)
        show(BLOBS, self.blobs.total())
        show(DISK_FREE, shutil.disk_usage(self.home).free)
        show_all(ACTIONS, {(str(lane), state): n for (lane, state), n in self.lanes.counts().items()})
        show_all(FAILURES, {(str(lane),): n for lane, n in self.lanes.failures().items()})
        replays: dict[tuple[str, ...], float] = {}
        for name, pool in self.pools.items():
            replays[name, "running"] = pool.running
            replays[name, "waiting"] = pool.waiting
        show_all(REPLAYS, replays)
        if self.service is None or not self.looked:
            return
        show(LOOK_AGE, time.monotonic() - self.looked)
        view = self.service.view
        show(CLOCK, view.clock)
        self._show_duties(view)
        self._show_standing(view)
        polling = set(self.service.presence.live()) & view.providers.keys()
        states = {"admitted": view.providers, "polling": polling, "asking": view.applicants}
        show_all(PROVIDERS, {(state,): len(providers) for state, providers in states.items()})

    def health(self) -> Sequence[str]:
        """Return the problems of the daemon; empty if it is healthy."""
        still = time.monotonic() - self.turned
        if self.turned and still > STUCK_SECONDS:
            return [f"the main loop has been stuck for {still:.0f} s"]
        return []

    def readiness(self) -> Sequence[str]:
        """Return the reasons why the daemon cannot do its duties; empty if it can."""
        if self.away:
            return [f"the node at {self.node} does not answer"]
        if self.clock or self.rival:
            return [problem for problem in (self.clock, self.rival) if problem]
        return [] if self.published else ["the daemon's endpoint is not on the chain yet"]

    def _show_duties(self, view: ChainView) -> None:
        legs = [leg for order in view.orders.values() if (leg := order.current)]
        remaining: dict[DutyKind, list[int | None]] = {kind: [] for kind in DutyKind}
        for duty in open_duties(legs, view.duties.values(), view.clock, self.me):
            remaining[duty.kind].append(duty.left)
        self.meters.show_all(DUTIES, {(kind.value,): len(each) for kind, each in remaining.items()})
        nearest: dict[tuple[str, ...], float] = {}
        for kind, each in remaining.items():
            seconds = [one for one in each if one is not None]
            if seconds:
                nearest[kind.value,] = min(seconds)
        self.meters.show_all(DEADLINE, nearest)

    def _show_standing(self, view: ChainView) -> None:
        show = self.meters.show
        own = view.validators.get(self.me)
        if own is not None:
            show(SEATS_MISSED, own.audits_missed)
            show(SEATS_ANSWERED, own.audits_answered)
            show(LEGS_FAILED, own.legs_failed)
            show(JAILED, own.jailed)
            show(CONSENSUS_JAILED, self._is_consensus_jailed(own))
            show(STAKE, own.stake)
        account = None if self.away else self._account()
        if account is not None:
            show(BALANCE, account.balance)
            show(BOND, account.bond.free)

    def _is_consensus_jailed(self, own: Validator) -> bool:
        if own.stake or self.away:  # the stake of a jailed validator is 0
            return False
        try:
            return self.me in self.client.query(ValidatorsRequest()).consensus_jailed
        except ChainError:
            return False

    def _account(self) -> AccountResponse | None:
        try:
            return self.client.account(self.me)
        except ChainError:
            return None
