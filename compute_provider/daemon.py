"""The provider's process: a thin shell around :mod:`compute_provider.decide`.

One loop owns the record of the shares. In each turn, the loop applies the outcomes that have arrived, decides by the
last look, and saves the new record. Actions that never wait are carried out in the loop. All other actions run in lanes
of threads (:mod:`host.lanes`), or in worker processes if they compute, and each ends with an outcome. Every call has a
deadline. After a restart, ``decide`` asks again for every action that was under way.
"""

import logging
import queue
import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Lock
from typing import Any

from chain.client.away import WatchedNode, is_away
from chain.client.clock import REMEDY, ClockCheck
from chain.client.errors import ChainError
from compute_provider import metrics
from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.actions import Action, Lane
from compute_provider.decide.duties import decide
from compute_provider.decide.receive import Change
from compute_provider.decide.records import Shares, Stage, name_of
from compute_provider.decide.view import Look
from compute_provider.interfaces import (
    Behaviour,
    ChainReader,
    ChainSender,
    Honest,
    NotAdmitted,
    ProviderConfig,
    ProviderError,
)
from compute_provider.perform import ActionResult, Performer
from compute_provider.store import (
    MachineSpeed,
    Store,
    describe,
    locked,
    title_of,
    write_status,
)
from compute_provider.work.bench import limits_of
from compute_provider.work.elsewhere import ClusterMachines
from compute_provider.work.machines import Machines, ThisMachine
from compute_provider.work.trainer import Listen
from domain import codec
from domain.keys import ShareKey
from host.lanes import Lanes
from host.lock import secret_held
from host.metrics import Meters, MetricsServer
from link.errors import ClusterError, ClusterErrorKind
from link.types import NAN_BITS, TrainTask
from pol.machines.form import number_of
from pol.work.cluster.seen import forget_nodes, write_nodes
from pol.work.executor import LOCAL
from pol.work.records import Boundary

_log = logging.getLogger("assay.provider")
# Longest wait for an event, so that the loop notices a stop.
_IDLE_SECONDS = 0.5
_STATUS_SECONDS = 0.5
_AWAY_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_MEASURED_VALID_SECONDS = 86_400
_COMPUTING_VALID_SECONDS = 600
"""Seconds for which the ``computing`` text of a measurement is used again.

To get a new text, the daemon has to start a process, which takes about a second.
"""
_EXPECTED = (ClusterError, ChainError, ProviderError, OSError, sqlite3.Error)


_THREADS = {Lane.POLL: 1, Lane.LINK: 4, Lane.BOND: 1, Lane.CHAIN: 2, Lane.DISK: 1, Lane.STAND: 2}
"""Number of actions that may run at a time, by lane."""


PURPOSE = "provider"
"""The purpose that is recorded in the lock on a provider's key."""
_LOGGED_SECONDS = 60.0


def _in_use(pid: int) -> ProviderError:
    return ProviderError(
        f"another provider on this machine already uses this key: process {pid or '?'}",
        "stop that provider, or use another key for this one (assay keys add, then --from): each daemon needs its own",
    )


@dataclass
class Idle:
    """The reason why the provider has nothing to train, and the Unix time (seconds) at which that began.

    The reason is empty while the provider has something to train.
    """

    why: str = ""
    since: float = 0.0
    logged: str = ""
    logged_at: float = -_LOGGED_SECONDS

    def take(self, why: str, now: float, steady: float) -> bool:
        """Record the current reason ``why``, and return whether to log it.

        ``now`` is Unix time, ``steady`` is monotonic time.
        """
        if why and not self.why:
            self.since = now
        self.why = why
        if not why:
            self.logged = ""
        if not why or why == self.logged or steady - self.logged_at < _LOGGED_SECONDS:
            return False
        self.logged = why
        self.logged_at = steady
        return True

    def plain(self) -> dict[str, Any] | None:
        """Return the reason and its start, as the status file has them; None if there is something to train."""
        return {"why": self.why, "since": int(self.since)} if self.why else None


def machines_of(config: ProviderConfig, listen: Listen) -> Machines:
    """Return what computes for a provider.

    Raises ClusterUnusable if this machine cannot use the cluster, and ExecutionError if a group cannot have the engine.
    """
    forget_nodes(config.home)
    if config.executor == LOCAL and number_of(config.machines) == 1:
        return ThisMachine(listen, config.home, config.engine)
    nodes = partial(write_nodes, config.home)
    return ClusterMachines(config.executor, config.engine, listen, config.home, nodes, machines=config.machines)


class Daemon:
    """The daemon of a provider that works for one validator. Create it, then call :meth:`run` on the main thread."""

    def __init__(
        self,
        config: ProviderConfig,
        chain_id: str,
        chain: ChainReader,
        sender: ChainSender,
        behaviour: Behaviour | None = None,
        stop: Event | None = None,
    ) -> None:
        """Open the records in the home.

        :meth:`run` ends when ``stop`` is set. Without a ``behaviour``, the provider uses :class:`Honest`.
        """
        self._config = config
        self._chain_id = chain_id
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store = Store(config.home)
        self._shares = self._store.load()
        self._look = Look()
        self._stop = stop or Event()
        self._wake = Event()
        self._behaviour = behaviour or Honest()
        self._clock = ClockCheck()
        self._meters = Meters(metrics.METRICS)
        self._counts = metrics.ProviderCounts(self._meters)
        self._machines = machines_of(config, self._on_worker)
        self._performer = Performer(
            config,
            chain_id,
            chain,
            sender,
            store=self._store,
            behaviour=self._behaviour,
            shares=lambda: self._shares,
            stop=self._stop,
            moved=self._counts.moved,
            clock=self._clock,
            warn=self._warn_operator,
            machines=self._machines,
        )
        self._lanes = Lanes(_THREADS, self._stop, self._wake, _EXPECTED, ended=self._counts.ended)
        self._outcomes: queue.SimpleQueue[ActionResult] = queue.SimpleQueue()
        self._note = "starting"
        self._computing = ""
        self._on_waiting: Callable[[str], None] = _log.warning
        self._node = WatchedNode(config.node, self._stop, self._warn_operator)
        self._idle = Idle()
        self._rival = ""
        self._status_lock = Lock()
        self._server: MetricsServer | None = None
        self._steps: dict[ShareKey, int] = {}
        self._health = metrics.ProviderHealth(
            home=config.home,
            meters=self._meters,
            shares=lambda: self._shares,
            validator=lambda: self._look,
            known=lambda: self._performer.known,
            account=lambda: self._performer.account,
            is_admitted=self._is_admitted,
            note=lambda: self._note,
            workers=self._machines.pids,
            store=self._store,
            blobs=self._performer.blobs,
            lanes=self._lanes,
        )
        self._meters.before_scrape(self._health.look)

    def run(
        self,
        on_joined: Callable[[], None] | None = None,
        on_waiting: Callable[[str], None] = _log.warning,
    ) -> None:
        """Work until the stop event is set; ProviderError if the home, the key's lock or the back end cannot be used.

        ``on_waiting`` is called with the reason why the provider cannot join, ``on_joined`` once it has joined. After
        the stop, this method returns within a few seconds, if the caller ends the calls of ``chain`` and ``sender``.
        """
        self._on_waiting = on_waiting
        key = self._config.key
        try:
            with locked(self._config.home), secret_held(key.secret, PURPOSE, _in_use):
                self._run(on_joined, on_waiting)
        except sqlite3.Error as error:
            raise ProviderError(
                f"the provider's records in {self._config.home} cannot be written ({error})",
                "free some space on this disk, or make it writable, then start again: earlier records are not lost",
            ) from None
        finally:
            self._stop.set()
            if self._server is not None:
                self._server.close()
            self._performer.close()
            self._machines.close()
            forget_nodes(self._config.home)
            self._lanes.close()
            self._performer.blobs.close()
            self._store.close()

    def _run(self, on_joined: Callable[[], None] | None, on_waiting: Callable[[str], None]) -> None:
        last_note = ""
        self._check_home()
        port = self._config.metrics_port
        health = self._health
        if port:
            self._server = MetricsServer(port, self._meters, health=health.health, ready=health.readiness)
        self._performer.sweep(self._shares)
        try:
            self._identify_machine()
            while not self._stop.is_set():
                # If an action ends after this moment, the next turn finds its outcome in the queue.
                began = health.turned = time.monotonic()
                self._apply_outcomes()
                self._machines.tend({work.key.order_id for work in self._shares.works})
                if self._look.joined and on_joined is not None:
                    on_joined()
                    on_joined = None
                note = "" if self._look.joined else self._note
                if note and note != last_note:
                    on_waiting(note)
                last_note = note or last_note
                self._update_idle()
                self._decide(began)
                self._wake.wait(min(self._performer.poll_seconds, _IDLE_SECONDS))
                self._wake.clear()
        finally:
            self._write_status()

    def _check_home(self) -> None:
        """Check that the home belongs to this key on this chain: shares of another key cannot be finished here."""
        for kind, mine in (("owner", self._config.key.address), ("chain", self._chain_id)):
            owner = self._store.belong(kind, mine)
            if owner != mine:
                raise ProviderError(f"{self._config.home} belongs to {owner}, not to {mine}", "use another --home")

    def _identify_machine(self) -> None:
        """Measure the machine and log its back end. Call this on the main thread, because it starts child processes."""
        try:
            self._measure()
            _log.info("computing with %s", self._computing)
        except ProviderError:
            if not self._stop.is_set():
                raise

    def _measure(self) -> None:
        """Measure the machine and set ``_computing``; use the last measurement if it is recent."""
        engine = self._config.engine
        now = int(time.time())
        known = self._store.measured(engine)
        if known and limits_of(known.computing) != self._machines.limits:
            # The limits of the process (cores, memory) or the cluster have changed since the known measurement, so that
            # measurement does not count.
            known = None
        if known and known.computing and now - known.at < _COMPUTING_VALID_SECONDS:
            self._computing = known.computing
        elif known and now - known.at < _MEASURED_VALID_SECONDS:
            self._computing = self._machines.computing(self._stop)
        else:
            speed = self._machines.measure(seconds=1.0, stop=self._stop)
            measured = MachineSpeed(flops=speed.flops, memory=speed.memory, at=now, computing=speed.computing)
            self._store.put_measured(engine, measured)
            self._computing = speed.computing
            for text in speed.open_ends:
                _log.warning("sandbox: %s", text)

    # Outcomes, and their effects on the record

    def _queue(self, outcome: ActionResult) -> None:
        self._outcomes.put(outcome)
        self._wake.set()

    def _apply_outcomes(self) -> None:
        while not self._outcomes.empty():
            outcome = self._outcomes.get()
            for change in outcome.changes:
                self._put(change(self._shares))
            if outcome.seen is not None:
                self._update_look(outcome.seen)

    def _update_idle(self) -> None:
        """Record the reason why there is nothing to train, with its start, and log the reason if it is new."""
        why = "" if not self._look.joined else self._why_idle()
        if self._idle.take(why, time.time(), time.monotonic()):
            _log.info("nothing to train: %s", why)

    def _why_idle(self) -> str:
        works = [work for work in self._shares.works if work.stage < Stage.TRAINED]
        if not works:
            return self._look.idle
        # A share cannot be trained if the chain contradicts its task, or if it has no bond.
        blocked = [work.text for work in works if work.stage <= Stage.BONDING and work.text]
        return blocked[0] if len(blocked) == len(works) else ""

    def _update_look(self, look: Look) -> None:
        """Replace the last look by ``look``, but keep what the last look had about this machine.

        Write the status file if ``joined`` has changed.
        """
        if look.joined and look.picture is not None:
            self._warn_rival(look.warning)
        before = self._look
        self._look = replace(look, training=before.training, slots=before.slots)
        if look.joined != before.joined:
            self._write_status()

    def _warn_operator(self, text: str) -> None:
        self._on_waiting(text)

    def _warn_rival(self, text: str) -> None:
        """Record the warning that another daemon uses the key, and warn the operator once.

        An empty ``text`` means that no other daemon uses the key.
        """
        if text and not self._rival:
            self._warn_operator(text)
        self._rival = text

    def _put(self, after: Shares) -> None:
        """Replace the record by ``after``.

        Shares that have left the stage TRAINING leave the look's field ``training``.
        """
        before = self._shares
        self._store.save(before, after)
        self._shares = after
        self._counts.took(before, after)
        training = frozenset(work.key for work in after.works if work.stage is Stage.TRAINING) & self._look.training
        if training != self._look.training:
            self._look = replace(self._look, training=training)

    def _decide(self, began: float) -> None:
        """Decide, carry out the actions of the lane HERE, and start all other actions in their lanes."""
        slots = self._machines.slots
        if slots != self._look.slots:
            self._look = replace(self._look, slots=slots)
        after, actions = decide(self._shares, self._look)
        self._put(after)
        picture = self._look.picture
        for action in actions:
            if action.lane is Lane.HERE:
                self._act(action)
            else:
                # If an action ended after the validator made its picture, that picture does not start it again.
                seen = picture.began if action.drawn and picture is not None else began
                self._lanes.start(action.key, partial(self._do, action), action.lane, seen)

    def _act(self, action: Action) -> None:
        """Carry out an action of the lane HERE."""
        try:
            match action:
                case do.Train(task):
                    _log.info("training %s", title_of(task.key))
                    self._train(task)
                case do.ForgetShare(key):
                    # At level debug: most of these shares were delivered long ago, and the chain has settled them.
                    _log.debug("deleting the files of %s", title_of(key))
                    self._steps.pop(key, None)
                    self._machines.stop(key)
                    self._performer.forget(key)
        # The disk failed, or no process could be started.
        except OSError as error:
            self._fail(action, error)

    def _train(self, task: TrainTask) -> None:
        work = self._shares.get(task.key)
        assert work is not None, "only shares in the record are trained"
        order = self._performer.work_order(work)
        # Set before the worker can send its first message.
        self._look = replace(self._look, training=self._look.training | {task.key})
        self._machines.start(task.key, order, self._behaviour.worker(task.key))

    # Actions

    def _do(self, action: Action) -> float | None:
        """Carry out an action, on a thread of its lane; return the pause (seconds) before it may run again."""
        if isinstance(action, do.Status):
            self._write_status()
            return _STATUS_SECONDS
        try:
            outcome = self._perform(action)
        except _EXPECTED as error:
            if isinstance(action, do.Watch | do.Glance) and isinstance(error, ChainError) and is_away(error):
                self._node.lost(error)
                return _AWAY_SECONDS
            last_note = self._note
            self._fail(action, error)
            if not isinstance(action, do.Join | do.Poll):
                raise
            if self._look.joined and self._note != last_note:
                _log.warning("%s", self._note)
            # Spread at random, so that a validator that comes back is not asked by all its providers at once.
            seconds = error.seconds if isinstance(error, NotAdmitted) else _RETRY_SECONDS
            return random.uniform(0.5, 1.5) * seconds
        except Exception:
            self._fail(action, RuntimeError("internal error; see the log"))
            raise
        if isinstance(action, do.Join | do.Poll):
            self._note = ""
        if isinstance(action, do.Watch | do.Glance):
            self._node.back()
        self._queue(outcome)
        return outcome.pause

    def _perform(self, action: Action) -> ActionResult:
        try:
            return self._performer.perform(action)
        except ClusterError as error:
            if error.kind in (ClusterErrorKind.NOT_ALLOWED, ClusterErrorKind.TAKEN):
                self._queue(ActionResult(seen=Look()))
            if error.kind is ClusterErrorKind.TAKEN:
                self._rival = f"{error.reason}; {error.remedy}"
            if error.kind is ClusterErrorKind.UNREACHABLE and not self._stop.is_set():
                self._performer.renew()
            raise

    def _fail(self, action: Action, error: Exception) -> None:
        # The stop interrupted the action. After the next start, ``decide`` asks for the action again.
        if self._stop.is_set():
            return
        self._note = f"{action.what}: {error}"
        if action.subject is not None:
            failed = partial(receive.failed, key=action.subject, text=str(error), again=True)
            self._queue(ActionResult((failed,)))

    def _queue_change(self, change: Change) -> None:
        self._queue(ActionResult((change,)))

    # Messages of workers, on the threads that read them

    def _on_worker(self, key: ShareKey, message: dict[str, Any]) -> None:
        match message:
            case {"boundary": plain}:
                self._store.put_boundary(key, codec.from_plain(Boundary, plain))
            case {"ready": {"steps": int(steps), "open": open_ends}}:
                self._steps[key] = steps
                for text in open_ends:
                    _log.warning("sandbox: %s", text)
                self._queue_change(partial(receive.progressed, key=key, step=0, steps=steps, loss=NAN_BITS))
            case {"step": int(step), "loss": int(loss)}:
                steps = self._steps.get(key, step)
                self._queue_change(partial(receive.progressed, key=key, step=step, steps=steps, loss=loss))
            case {"done": {"update_root": update, "local_out_root": local_out}}:
                self._queue_change(
                    partial(
                        receive.trained,
                        key=key,
                        update_root=bytes.fromhex(update),
                        local_out_root=bytes.fromhex(local_out),
                    )
                )
            case {"stopped": str(text)}:
                _log.warning("%s: the job stopped itself: %s", name_of(key), text)
                number = message.get("step")
                stop_step = number if isinstance(number, int) else -1
                self._queue_change(partial(receive.trained, key=key, text=text, stop_step=stop_step))
            case {"failed": str(text), "again": bool(again)}:
                _log.warning("%s: training failed: %s", name_of(key), text)
                if message.get("unable") is True:
                    # Every share of the order would fail in the same way, so no further task of it is taken.
                    self._performer.unable[key.order_id] = text
                self._queue_change(partial(receive.failed, key=key, text=text, again=again))

    def _is_admitted(self) -> bool:
        known = self._performer.known
        return known is not None and known.is_in(self._config.validator)

    def _write_status(self) -> None:
        # The record is read under the lock, so that the last writer has the newest state.
        with self._status_lock:
            self._write_status_of(self._shares)

    def _write_status_of(self, shares: Shares) -> None:
        known = self._performer.known
        status = {
            "provider": self._config.key.address,
            "validator": self._config.validator,
            "node": self._config.node,
            "joined": self._look.joined,
            "admitted": self._is_admitted(),
            "speed": known.capability.speed if known and known.capability else 0,
            "newcomer": known is None or known.newcomer,
            "note": self._note,
            "idle": self._idle.plain(),
            "warning": f"{self._clock.problem}; {REMEDY}" if self._clock.problem else self._rival,
            "computing": self._computing,
            "shares": describe(shares),
            "orders": sorted({work.key.order_id.hex() for work in shares.works}),
            "earned": self._store.earned(),
            "earned_by_day": self._store.earned_by_day(),
            "earned_by_order": self._store.earned_by_order(),
            "covered": {order_id.hex(): rounds for order_id, rounds in self._performer.covered.items()},
            "workers": self._machines.pids(),
            "slots": self._machines.slots,
        }
        try:
            write_status(self._config.home, status)
        # No work depends on the status file.
        except OSError as error:
            self._fail(do.Status(), error)
