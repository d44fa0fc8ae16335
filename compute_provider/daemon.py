"""The provider's process: a thin shell around :mod:`compute_provider.decide.shares`.

One loop owns the state: it takes an event, asks the logic, saves the new state, and carries the
actions out. What takes time runs on a few threads (network) or in worker processes (numerics), and
comes back as an event. Every call has a deadline; everything that was under way is asked for again
after a restart.
"""

import logging
import os
import queue
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

from chain.client.errors import ChainError
from compute_provider.config import ProviderConfig, ProviderError
from compute_provider.decide import claims, shares
from compute_provider.interfaces import Behaviour, Chain, Honest, Sender
from compute_provider.links import Link
from compute_provider.perform import Performer
from compute_provider.status import describe, write_status
from compute_provider.store import Store, locked, name_of
from compute_provider.work.bench import measure_bandwidth, measure_speed
from compute_provider.work.trainer import Trainer
from domain import codec
from domain.messages import MsgDepositBond, MsgRegisterProvider
from domain.records import ShareKey
from link.errors import ClusterError, Kind
from link.types import NAN_BITS, Benchmark, JoinRequest, PollRequest, TrainTask
from pol.work.records import Boundary

_log = logging.getLogger("assay.provider")
VERSION = "1"
FEATURES = ("exact-15",)
_IDLE_SECONDS = 0.5  # longest wait for an event, so that a stop is seen
_RETRY_SECONDS = 1.0
_POLL_SECONDS_MIN = 0.02  # however often a validator wants to be asked
_STATUS_SECONDS = 0.5
_BENCH_VALID_SECONDS = 86_400
_THREADS = {"link": 4, "bond": 1, "chain": 2}
# A validator that answers slowly, or a bond that hangs, must not keep us from objecting to a report.
_LANES = {"check": "bond", "watch": "chain", "object": "chain"}
_OF_A_KEY = (shares.Stop, shares.Open, shares.Forget)  # the other actions name a task


class Daemon:
    """A provider of one validator. Make it, then :meth:`run` it on the main thread."""

    def __init__(
        self,
        config: ProviderConfig,
        chain_id: str,
        chain: Chain,
        sender: Sender,
        behaviour: Behaviour | None = None,
    ) -> None:
        """Open the home; the provider is honest where ``behaviour`` does not say otherwise."""
        self._config = config
        self._chain_id = chain_id
        self._chain = chain
        self._sender = sender
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store = Store(config.home)
        self._link = Link(chain, config.validator, config.key, chain_id)
        self._behaviour = behaviour or Honest()
        self._performer = Performer(
            config,
            chain_id,
            chain,
            sender,
            link=self._link,
            store=self._store,
            behaviour=self._behaviour,
        )
        self._trainer = Trainer(self._on_worker, config.home / "worker.log")
        self._pools = {
            lane: ThreadPoolExecutor(count, thread_name_prefix=lane)
            for lane, count in _THREADS.items()
        }
        self._events: queue.Queue[shares.Event | None] = queue.Queue()  # None: just wake up
        self._state = self._store.load()
        self._in_flight: set[tuple[str, ShareKey | None]] = set()
        self._lock = Lock()
        self._stop = Event()
        self._joined = False
        self._note = "starting"
        self._said: dict[str, str] = {}  # the last trouble of each kind: said once, not each second
        self._poll_at = self._chain_at = self._status_at = 0.0
        self._poll_seconds = 1.0
        self._steps: dict[ShareKey, int] = {}

    def run(self, stop: Event | None = None, on_joined: Callable[[], None] | None = None) -> None:
        """Work until ``stop``; ProviderError where the provider can do nothing about it.

        It ends within a few seconds: whoever made ``chain`` and ``sender`` ends their calls at ``stop``.
        """
        self._stop = stop or self._stop
        try:
            with locked(self._config.home):
                self._run(on_joined)
        except sqlite3.Error as error:
            raise ProviderError(
                f"nothing can be kept in {self._config.home} ({error})",
                "see to its disk and start again: what was kept is not lost",
            ) from None
        finally:
            self._stop.set()
            self._link.close()
            self._trainer.close()
            for pool in self._pools.values():
                pool.shutdown(wait=True, cancel_futures=True)
            self._performer.close()
            self._store.close()

    def _run(self, on_joined: Callable[[], None] | None) -> None:
        self._check_home()
        self._performer.sweep(self._state)
        try:
            self._take(shares.Restarted())
            self._bench()
            while not self._stop.is_set():
                if not self._joined:
                    self._spawn("join", None, self._join)
                elif on_joined is not None:
                    on_joined()
                    on_joined = None
                self._tick(time.monotonic())
                self._wait_for_events()
        finally:
            self._write_status()

    # The loop

    def _check_home(self) -> None:
        """A home belongs to one key on one chain: the shares of others are not ours to finish."""
        for name, mine in (("owner", self._config.key.address), ("chain", self._chain_id)):
            known = self._store.fact(name)
            if known not in (None, mine):
                raise ProviderError(
                    f"{self._config.home} belongs to {known}, not to {mine}", "use another home"
                )
            self._store.put_fact(name, mine)

    def _wait_for_events(self) -> None:
        now = time.monotonic()
        wait = min(self._poll_at, self._chain_at) - now if self._joined else _IDLE_SECONDS
        try:
            event = self._events.get(timeout=min(max(wait, 0.001), _IDLE_SECONDS))
        except queue.Empty:
            return
        if event is not None:
            self._take(event)

    def _tick(self, now: float) -> None:
        if self._joined and now >= self._poll_at:
            self._poll_at = now + 60.0  # the poll itself says when the next one is due
            self._spawn("poll", None, self._poll)
        if now >= self._chain_at:
            self._chain_at = now + self._config.chain_seconds
            if any(work.signed for work in self._state.works):
                self._spawn("watch", None, self._watch)
        if now >= self._status_at:
            self._status_at = now + _STATUS_SECONDS
            self._write_status()

    def _take(self, event: shares.Event) -> None:
        before = self._state
        after, actions = shares.step(before, event)
        if not isinstance(event, shares.Progressed):  # progress is on disk as boundaries
            self._store.save(before, after)
        self._state = after
        for action in actions:
            _log.info("%s", type(action).__name__.lower())
            try:
                self._act(action)
            except OSError as error:  # the disk, or no process to be had
                key = action.key if isinstance(action, _OF_A_KEY) else action.task.key
                self._failed(type(action).__name__.lower(), key, error)

    def _act(self, action: shares.Action) -> None:
        match action:
            case shares.Check(task):
                self._spawn("check", task.key, lambda: self._check(task))
            case shares.Fetch(task):
                self._spawn("fetch", task.key, lambda: self._fetch(task))
            case shares.Train(task):
                self._work(task)
            case shares.Stop(key):
                self._trainer.stop(key)
            case shares.Submit(task):
                self._spawn("submit", task.key, lambda: self._submit(task))
            case shares.Open(key, indices):
                self._spawn("open", key, lambda: self._performer.open(key, indices))
            case shares.Object(task, segment):
                if not self._store.fact(f"objected/{name_of(task.key)}"):
                    self._work(task, segment)
            case shares.Forget(key):
                self._steps.pop(key, None)
                self._trainer.stop(key)
                self._forget(key)

    def _work(self, task: TrainTask, replay: int = -1) -> None:
        order = self._performer.work_order(task, replay)
        self._trainer.start(task.key, order, self._behaviour.worker(task.key))

    def _forget(self, key: ShareKey) -> None:
        others = (work.key.order_id for work in self._state.works)
        self._performer.forget(key, last_of_order=key.order_id not in others)

    # What runs on threads

    def _spawn(self, what: str, key: ShareKey | None, act: Callable[[], None]) -> None:
        """Run ``act`` on a thread, unless the same is under way."""
        name = (what, key)
        with self._lock:
            if name in self._in_flight:
                return
            self._in_flight.add(name)

        def guarded() -> None:
            try:
                act()
            except (ClusterError, ChainError, ProviderError, OSError, sqlite3.Error) as error:
                self._failed(what, key, error)
            except Exception:  # noqa: BLE001 - a bug must not end the provider silently
                _log.exception("bug in %s", what)
                self._failed(what, key, RuntimeError("internal error; see the log"))
            else:
                self._said.pop(what, None)
            finally:
                with self._lock:
                    self._in_flight.discard(name)

        self._pools[_LANES.get(what, "link")].submit(guarded)

    def _failed(self, what: str, key: ShareKey | None, error: Exception) -> None:
        if self._stop.is_set():  # it was ended, and is asked for again at the next start
            return
        if self._said.get(what) != str(error):
            _log.warning("%s: %s", what, error)
        self._said[what] = str(error)
        self._note = f"{what}: {error}"
        if key is not None:
            self._events.put(shares.Failed(key, str(error), again=True))
        if what == "poll":
            self._poll_at = time.monotonic() + random.uniform(0.5, 1.5) * _RETRY_SECONDS
        if isinstance(error, ClusterError):
            if error.kind is Kind.NOT_ALLOWED:
                self._joined = False  # no longer registered, or the validator does not know it yet
            if error.kind is Kind.UNREACHABLE:
                self._renew()
        if what == "join":
            self._stop.wait(random.uniform(0.5, 1.5) * _RETRY_SECONDS)

    def _renew(self) -> None:
        try:
            self._link.renew()
        except (ChainError, ProviderError) as error:
            self._note = str(error)

    def _join(self) -> None:
        me, operator = self._config.key.address, self._config.validator
        if self._chain.provider(me, operator) is None:
            self._sender.send(MsgRegisterProvider(me, operator))
        lacking = self._config.bond - self._chain.account(me).bond.free
        if self._config.bond and lacking > 0 and not self._state.works:
            self._sender.send(MsgDepositBond(me, lacking))
        client = self._link.client()
        measured = self._store.fact("bench")
        benchmark = Benchmark(
            device_class=self._config.device_class,
            speed=measured["flops"],
            memory=measured["memory"],
            bandwidth=measure_bandwidth(client),
        )
        reply = client.join(JoinRequest(VERSION, benchmark, FEATURES))
        if not reply.accepted:
            raise ProviderError(f"the validator does not take it: {reply.reason}", "trying again")
        self._poll_seconds = reply.limits.poll_ms / 1000
        self._note = ""
        self._poll_at = 0.0
        self._joined = True
        self._events.put(None)

    def _poll(self) -> None:
        doing = tuple(work.doing() for work in self._state.works)
        reply = self._link.client().poll(PollRequest(VERSION, doing[-64:]))
        self._events.put(shares.Polled(reply.train, reply.open))
        self._note = ""
        told = max(reply.retry_after_ms / 1000 or self._poll_seconds, _POLL_SECONDS_MIN)
        self._poll_at = time.monotonic() + (self._config.poll_seconds or told)

    def _watch(self) -> None:
        """Read from the chain what became of the shares that are signed. An order that only the
        validator knows of is none of it: it must not keep us from seeing the others.
        """
        clock = self._chain.status().clock
        works = [work for work in self._state.works if work.signed]
        for order_id in sorted({work.key.order_id for work in works}):
            order = self._chain.order(order_id)
            paid = claims.earned(order, self._config.key.address)
            self._store.put_fact(f"earned/{order_id.hex()}", paid)
            for work in works:
                if work.key.order_id != order_id:
                    continue
                segment = claims.open_report(work.key, order)
                if segment is not None:
                    self._events.put(shares.Reported(work.key, segment))
                if claims.is_over(work.key, order, clock):
                    self._events.put(shares.Released(work.key))

    def _check(self, task: TrainTask) -> None:
        problem = self._performer.check(task)
        # A node may be a block behind the validator: ask again while the task is listed.
        event = shares.Failed(task.key, problem, again=True) if problem else None
        self._events.put(event or shares.Checked(task.key))

    def _fetch(self, task: TrainTask) -> None:
        try:
            self._performer.fetch(task, lambda: self._check_wanted(task))
        finally:
            if self._state.get(task.key) is None:  # dropped meanwhile; what came since goes, too
                self._performer.claim(task)
                self._forget(task.key)
        self._events.put(shares.Fetched(task.key))

    def _check_wanted(self, task: TrainTask) -> None:
        work = self._state.get(task.key)
        if self._stop.is_set() or work is None or work.task is not task:
            raise ProviderError("the share is not wanted any more", "")

    def _submit(self, task: TrainTask) -> None:
        work = self._state.get(task.key)
        verdict = self._performer.submit(work, self._stop.wait) if work else None
        if verdict is not None:
            self._events.put(shares.Submitted(task.key, verdict.accepted, verdict.text))

    # What workers say, on the threads that read it

    def _on_worker(self, key: ShareKey, message: dict[str, Any]) -> None:
        match message:
            case {"boundary": plain}:
                self._store.put_boundary(key, codec.from_plain(Boundary, plain))
            case {"ready": {"steps": int(steps), "open": open_ends}}:
                self._steps[key] = steps
                for text in open_ends:
                    _log.warning("sandbox: %s", text)
                self._events.put(shares.Progressed(key, 0, steps, NAN_BITS))
            case {"step": int(step), "loss": int(loss)}:
                self._events.put(shares.Progressed(key, step, self._steps.get(key, step), loss))
            case {"done": {"update_root": update, "local_out_root": local_out}}:
                roots = bytes.fromhex(update), bytes.fromhex(local_out)
                self._events.put(shares.Trained(key, *roots))
            case {"replayed": True}:
                self._spawn("object", key, lambda: self._object(key))
            case {"replayed": False}:
                _log.warning("a report of %s is right: no objection", name_of(key))
            case {"failed": str(text), "again": bool(again)} if message.get("replay", -1) < 0:
                _log.warning("%s: training failed: %s", name_of(key), text)
                self._events.put(shares.Failed(key, text, again))

    def _object(self, key: ShareKey) -> None:
        self._performer.object(key)
        self._store.put_fact(f"objected/{name_of(key)}", True)

    # The rest

    def _bench(self) -> None:
        """Measure the machine, unless that was done lately (on the main thread: it starts a child)."""
        known = self._store.fact("bench")
        wanted = self._config.backend
        now = time.time()
        if known and known["backend"] == wanted and now - known["at"] < _BENCH_VALID_SECONDS:
            return
        try:
            speed = measure_speed(wanted, seconds=1.0, stop=self._stop)
        except ProviderError:
            if self._stop.is_set():
                return
            raise
        fact = {"backend": wanted, "flops": speed.flops, "memory": speed.memory, "at": now}
        self._store.put_fact("bench", fact)

    def _write_status(self) -> None:
        orders = {work.key.order_id.hex() for work in self._state.works}
        status = {
            "provider": self._config.key.address,
            "validator": self._config.validator,
            "pid": os.getpid(),
            "joined": self._joined,
            "note": self._note,
            "shares": describe(self._state),
            "orders": sorted(orders),
            "earned": self._store.total("earned/"),
            "workers": self._trainer.pids(),
        }
        try:
            write_status(self._config.home, status)
        except OSError as error:  # nobody's work hangs on it
            self._failed("status", None, error)
