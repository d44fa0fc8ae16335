"""The provider's process: a thin shell around :mod:`compute_provider.decide`.

One loop owns the record of the shares: it takes outcomes into it, decides with the last look, saves the record that
follows, does at once what waits for nothing, and starts the other actions. Those run in lanes of threads
(:mod:`host.lanes`) or, for numerics, in worker processes, and end in an outcome. Every call has a deadline; everything
that was under way is asked for again after a restart.
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
from compute_provider.work.bench import limits_here, limits_of, measure_speed, what_computes
from compute_provider.work.trainer import Trainer
from domain import codec
from domain.keys import ShareKey
from host.lanes import Lanes
from host.lock import secret_held
from host.metrics import Meters, MetricsServer
from link.errors import ClusterError, ClusterErrorKind
from link.types import NAN_BITS, TrainTask
from pol.work.records import Boundary

_log = logging.getLogger("assay.provider")
# The longest wait for an event, so that a stop is seen.
_IDLE_SECONDS = 0.5
_STATUS_SECONDS = 0.5
_AWAY_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_MEASURED_VALID_SECONDS = 86_400
_COMPUTING_VALID_SECONDS = 600
"""What computes was found out with a measurement of a moment ago: a process that says it again costs a second."""
_EXPECTED = (ClusterError, ChainError, ProviderError, OSError, sqlite3.Error)


_THREADS = {Lane.POLL: 1, Lane.LINK: 4, Lane.BOND: 1, Lane.CHAIN: 2, Lane.DISK: 1}
"""How many actions of a lane run at a time."""


PURPOSE = "provider"
"""What a provider's key is in use for, as its lock has it."""
_LOGGED_SECONDS = 60.0


def _in_use(pid: int) -> ProviderError:
    return ProviderError(
        f"another provider of this machine uses this key, as process {pid or '?'}",
        "end that one, or give this one a key of its own (assay keys add, --from): a key is for one daemon",
    )


@dataclass
class Idle:
    """Why there is nothing to train, and since when (Unix seconds)."""

    why: str = ""
    since: float = 0.0
    logged: str = ""
    logged_at: float = -_LOGGED_SECONDS

    def take(self, why: str, now: float, steady: float) -> bool:
        """Take the reason of now, and return whether it is worth a line in the log."""
        if why and not self.why:
            self.since = now
        self.why = why
        if not why:
            self.logged = ""
        if not why or why == self.logged or steady - self.logged_at < _LOGGED_SECONDS:
            return False
        self.logged, self.logged_at = why, steady
        return True

    def plain(self) -> dict[str, Any] | None:
        """Return what the status file has of it."""
        return {"why": self.why, "since": int(self.since)} if self.why else None


class Daemon:
    """A provider of one validator. Make it, then :meth:`run` it on the main thread."""

    def __init__(
        self,
        config: ProviderConfig,
        chain_id: str,
        chain: ChainReader,
        sender: ChainSender,
        behaviour: Behaviour | None = None,
        stop: Event | None = None,
    ) -> None:
        """Open the home. The provider works until ``stop``, honest where ``behaviour`` does not say otherwise."""
        self._config, self._chain_id = config, chain_id
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store = Store(config.home)
        self._shares, self._seen = self._store.load(), Look()
        self._stop, self._wake = stop or Event(), Event()
        self._behaviour = behaviour or Honest()
        self._clock = ClockCheck()
        self._meters = Meters(metrics.METRICS)
        self._counts = metrics.ProviderCounts(self._meters)
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
            warn=self._say,
        )
        self._trainer = Trainer(self._on_worker, config.home)
        self._lanes = Lanes(_THREADS, self._stop, self._wake, _EXPECTED, ended=self._counts.ended)
        self._outcomes: queue.SimpleQueue[ActionResult] = queue.SimpleQueue()
        self._note, self._computing = "starting", ""
        self._tell_operator: Callable[[str], None] = _log.warning
        self._node = WatchedNode(config.node, self._stop, self._say)
        self._idle = Idle()
        self._rival = ""
        self._status_lock = Lock()
        self._server: MetricsServer | None = None
        self._steps: dict[ShareKey, int] = {}
        self._told = metrics.ProviderHealth(
            home=config.home,
            meters=self._meters,
            shares=lambda: self._shares,
            validator=lambda: self._seen,
            known=lambda: self._performer.known,
            account=lambda: self._performer.account,
            is_admitted=self._is_admitted,
            note=lambda: self._note,
            workers=self._trainer.pids,
            store=self._store,
            blobs=self._performer.blobs,
            lanes=self._lanes,
        )
        self._meters.before_scrape(self._told.look)

    def run(
        self,
        on_joined: Callable[[], None] | None = None,
        on_waiting: Callable[[str], None] = _log.warning,
    ) -> None:
        """Work until the stop; ProviderError where the provider can do nothing about it.

        ``on_waiting`` hears what keeps it from joining, ``on_joined`` when it has.
        It ends within a few seconds: whoever made ``chain`` and ``sender`` ends their calls then.
        """
        self._tell_operator = on_waiting
        key = self._config.key
        try:
            with locked(self._config.home), secret_held(key.secret, PURPOSE, _in_use):
                self._run(on_joined, on_waiting)
        except sqlite3.Error as error:
            raise ProviderError(
                f"nothing can be kept in {self._config.home} ({error})",
                "see to its disk and start again: what was kept is not lost",
            ) from None
        finally:
            self._stop.set()
            if self._server is not None:
                self._server.close()
            self._performer.close()
            self._trainer.close()
            self._lanes.close()
            self._performer.blobs.close()
            self._store.close()

    def _run(self, on_joined: Callable[[], None] | None, on_waiting: Callable[[str], None]) -> None:
        told = ""
        self._check_home()
        port, look = self._config.metrics_port, self._told
        if port:
            self._server = MetricsServer(port, self._meters, health=look.health, ready=look.readiness)
        self._performer.sweep(self._shares)
        try:
            self._look_at_machine()
            while not self._stop.is_set():
                # An action that ends from here on has its outcome in the queue when the next turn begins.
                began = self._told.turned = time.monotonic()
                self._take_all()
                self._trainer.tend({work.key.order_id for work in self._shares.works})
                if self._seen.joined and on_joined is not None:
                    on_joined()
                    on_joined = None
                note = "" if self._seen.joined else self._note
                if note and note != told:
                    on_waiting(note)
                told = note or told
                self._look_idle()
                self._decide(began)
                self._wake.wait(min(self._performer.poll_seconds, _IDLE_SECONDS))
                self._wake.clear()
        finally:
            self._write_status()

    def _check_home(self) -> None:
        """A home belongs to one key on one chain: the shares of others are not ours to finish."""
        for kind, mine in (("owner", self._config.key.address), ("chain", self._chain_id)):
            known = self._store.belong(kind, mine)
            if known != mine:
                raise ProviderError(f"{self._config.home} belongs to {known}, not to {mine}", "use another home")

    def _look_at_machine(self) -> None:
        """Say what computes, and measure it (on the main thread: both start a child)."""
        try:
            self._measure()
            _log.info("computing with %s", self._computing)
        except ProviderError:
            if not self._stop.is_set():
                raise

    def _measure(self) -> None:
        """Measure the machine, unless that was done lately, and find out what computes."""
        backend, now = self._config.backend, int(time.time())
        known = self._store.measured(backend)
        if known and limits_of(known.computing) != limits_here():
            # What was measured was another machine, in a way.
            known = None
        if known and known.computing and now - known.at < _COMPUTING_VALID_SECONDS:
            self._computing = known.computing
        elif known and now - known.at < _MEASURED_VALID_SECONDS:
            self._computing = what_computes(backend, self._stop)
        else:
            speed = measure_speed(backend, seconds=1.0, stop=self._stop)
            measured = MachineSpeed(flops=speed.flops, memory=speed.memory, at=now, computing=speed.computing)
            self._store.put_measured(backend, measured)
            self._computing = speed.computing

    # Outcomes, and what follows

    def _tell(self, outcome: ActionResult) -> None:
        self._outcomes.put(outcome)
        self._wake.set()

    def _take_all(self) -> None:
        while not self._outcomes.empty():
            outcome = self._outcomes.get()
            for change in outcome.changes:
                self._put(change(self._shares))
            if outcome.seen is not None:
                self._see(outcome.seen)

    def _look_idle(self) -> None:
        """Take note of why there is nothing to train, and since when; log it when the reason changes."""
        why = "" if not self._seen.joined else self._why_idle()
        if self._idle.take(why, time.time(), time.monotonic()):
            _log.info("nothing to train: %s", why)

    def _why_idle(self) -> str:
        works = [work for work in self._shares.works if work.stage < Stage.TRAINED]
        if not works:
            return self._seen.idle
        # A share that the chain does not bear out, or that has no bond, is no work.
        lacking = [work.text for work in works if work.stage <= Stage.BONDING and work.text]
        return lacking[0] if len(lacking) == len(works) else ""

    def _see(self, seen: Look) -> None:
        """Take a look at the validator; readers of the status file learn there whether it has joined."""
        if seen.joined and seen.picture is not None:
            self._warn(seen.warning)
        before, self._seen = self._seen, replace(seen, training=self._seen.training)
        if seen.joined != before.joined:
            self._write_status()

    def _say(self, text: str) -> None:
        self._tell_operator(text)

    def _warn(self, text: str) -> None:
        """Take note of another daemon that uses the key, and say it once."""
        if text and not self._rival:
            self._tell_operator(text)
        self._rival = text

    def _put(self, after: Shares) -> None:
        """Replace the record. A share that is no longer being trained by it has no worker any more, or a free one."""
        before = self._shares
        self._store.save(before, after)
        self._shares = after
        self._counts.took(before, after)
        given = after.get(self._seen.training) if self._seen.training else None
        if given is None or given.stage is not Stage.TRAINING:
            self._seen = replace(self._seen, training=None)

    def _decide(self, began: float) -> None:
        """Do at once what waits for nothing, and start the other actions."""
        after, actions = decide(self._shares, self._seen)
        self._put(after)
        picture = self._seen.picture
        for action in actions:
            if action.lane is Lane.HERE:
                self._act(action)
            else:
                # What the validator's picture asks for may have been done since that was drawn.
                seen = picture.began if action.drawn and picture is not None else began
                self._lanes.start(action.key, partial(self._do, action), action.lane, seen)

    def _act(self, action: Action) -> None:
        try:
            match action:
                case do.Train(task):
                    _log.info("trains %s", title_of(task.key))
                    self._train(task)
                case do.ForgetShare(key):
                    # Most are over by the chain and were delivered long ago: nothing has happened.
                    _log.debug("forgets %s", title_of(key))
                    self._steps.pop(key, None)
                    self._trainer.stop(key)
                    self._performer.forget(key)
        # The disk, or no process to be had.
        except OSError as error:
            self._fail(action, error)

    def _train(self, task: TrainTask) -> None:
        order = self._performer.work_order(task)
        # Before the worker says anything.
        self._seen = replace(self._seen, training=task.key)
        self._trainer.start(task.key, order, self._behaviour.worker(task.key))

    # Actions

    def _do(self, action: Action) -> float | None:
        """Carry an action out, on a thread of its lane; return the seconds until it makes sense again."""
        if isinstance(action, do.Status):
            self._write_status()
            return _STATUS_SECONDS
        try:
            outcome = self._perform(action)
        except _EXPECTED as error:
            if isinstance(action, do.Watch | do.Glance) and isinstance(error, ChainError) and is_away(error):
                self._node.lost(error)
                return _AWAY_SECONDS
            known = self._note
            self._fail(action, error)
            if not isinstance(action, do.Join | do.Poll):
                raise
            if self._seen.joined and self._note != known:
                _log.warning("%s", self._note)
            # Soon, but not together with all others whose validator came back.
            seconds = error.seconds if isinstance(error, NotAdmitted) else _RETRY_SECONDS
            return random.uniform(0.5, 1.5) * seconds
        except Exception:
            self._fail(action, RuntimeError("internal error; see the log"))
            raise
        if isinstance(action, do.Join | do.Poll):
            self._note = ""
        if isinstance(action, do.Watch | do.Glance):
            self._node.back()
        self._tell(outcome)
        return outcome.pause

    def _perform(self, action: Action) -> ActionResult:
        try:
            return self._performer.perform(action)
        except ClusterError as error:
            if error.kind in (ClusterErrorKind.NOT_ALLOWED, ClusterErrorKind.TAKEN):
                self._tell(ActionResult(seen=Look()))
            if error.kind is ClusterErrorKind.TAKEN:
                self._rival = f"{error.reason}; {error.remedy}"
            if error.kind is ClusterErrorKind.UNREACHABLE and not self._stop.is_set():
                self._performer.renew()
            raise

    def _fail(self, action: Action, error: Exception) -> None:
        # It was ended, and is asked for again at the next start.
        if self._stop.is_set():
            return
        self._note = f"{action.what}: {error}"
        if action.subject is not None:
            failed = partial(receive.failed, key=action.subject, text=str(error), again=True)
            self._tell(ActionResult((failed,)))

    def _hear(self, change: Change) -> None:
        self._tell(ActionResult((change,)))

    # What workers say, on the threads that read it

    def _on_worker(self, key: ShareKey, message: dict[str, Any]) -> None:
        match message:
            case {"boundary": plain}:
                self._store.put_boundary(key, codec.from_plain(Boundary, plain))
            case {"ready": {"steps": int(steps), "open": open_ends}}:
                self._steps[key] = steps
                for text in open_ends:
                    _log.warning("sandbox: %s", text)
                self._hear(partial(receive.progressed, key=key, step=0, steps=steps, loss=NAN_BITS))
            case {"step": int(step), "loss": int(loss)}:
                steps = self._steps.get(key, step)
                self._hear(partial(receive.progressed, key=key, step=step, steps=steps, loss=loss))
            case {"done": {"update_root": update, "local_out_root": local_out}}:
                self._hear(
                    partial(
                        receive.trained,
                        key=key,
                        update_root=bytes.fromhex(update),
                        local_out_root=bytes.fromhex(local_out),
                    )
                )
            case {"stopped": str(text)}:
                _log.warning("%s: the job stops: %s", name_of(key), text)
                self._hear(partial(receive.trained, key=key, text=text))
            case {"failed": str(text), "again": bool(again)}:
                _log.warning("%s: training failed: %s", name_of(key), text)
                self._hear(partial(receive.failed, key=key, text=text, again=again))

    def _is_admitted(self) -> bool:
        known = self._performer.known
        return known is not None and known.is_in(self._config.validator)

    def _write_status(self) -> None:
        # Whoever writes last has the newest state.
        with self._status_lock:
            self._write_status_of(self._shares)

    def _write_status_of(self, shares: Shares) -> None:
        known = self._performer.known
        status = {
            "provider": self._config.key.address,
            "validator": self._config.validator,
            "node": self._config.node,
            "joined": self._seen.joined,
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
            "workers": self._trainer.pids(),
        }
        try:
            write_status(self._config.home, status)
        # Nobody's work hangs on it.
        except OSError as error:
            self._fail(do.Status(), error)
