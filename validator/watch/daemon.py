"""The life of a watchtower's process: its home, its connections, its pool, and its loop."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from chain.client.away import PAUSE_SECONDS, WatchedNode
from chain.client.client import ChainClient
from chain.client.clock import ClockCheck
from chain.client.errors import ChainError
from chain.client.sender import TxSender
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditPlace, Round
from domain.registry.queries import ValidatorsRequest
from host.metrics import Meters, MetricsServer
from link.blobs import BlobStore
from link.client import Connections
from link.errors import ClusterError, ClusterErrorKind
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.machines.form import Shape
from pol.work.executor import LOCAL
from pol.work.replayer import Lane, Replayer
from validator.decide.records import Recomputed
from validator.watch import metrics
from validator.watch.recompute import RECOMPUTE_SECONDS, PlaceCheck, Watcher
from validator.watch.store import TowerStore, locked_tower
from validator.watch.tower import LOOK_SECONDS, Tell, TowerBudget, TowerTotals, Watchtower
from validator.work.files import sweep
from validator.work.together import start_together
from wire.keys import Key

_log = logging.getLogger("assay.watchtower")
KEPT_SECONDS = 3_600.0
"""Seconds for which fetched files are kept after their last use."""
STUCK_SECONDS = 1_800.0
"""Longest time (s) that one turn of the loop takes in a healthy watchtower."""
_PLACES = "places"
BLOBS_QUOTA = 1 << 36
"""Bytes of fetched files."""


@dataclass(frozen=True, slots=True)
class TowerConfig:
    """The settings of a watchtower. ``seconds`` limits the wait for the data of a place."""

    home: Path
    node: str  # gRPC address of a node, host:port
    budget: TowerBudget
    engine: Engine = DEFAULT_ENGINE
    # A value of --executor: where places are recomputed.
    executor: str = LOCAL
    # Machines that recompute a segment together, or stages and machines per stage.
    machines: Shape = 1
    seconds: float = 120.0
    only: Sequence[bytes] = ()
    dry_run: bool = False
    unserved: bool = False
    # Port on 127.0.0.1 that serves metrics and health; 0 means no port.
    metrics_port: int = 0


class WatchtowerDaemon:
    """A watchtower's process; :meth:`run` returns when ``stop`` is set or its time is over."""

    def __init__(
        self,
        config: TowerConfig,
        key: Key,
        stop: Event,
        tell: Tell,
        name: Callable[[AuditPlace], str],
        note: Callable[[str], None] = _log.warning,
    ) -> None:
        """Keep the settings; nothing is opened before :meth:`run`.

        ``tell`` reports events, ``name`` returns the name of a place, and ``note`` reports waits.
        """
        self._config = config
        self._key = key
        self._stop = stop
        self._tell = tell
        self._name = name
        self._note = note
        self._meters = Meters(metrics.METRICS)
        self._node = WatchedNode(config.node, stop, note)
        self._clock = ClockCheck()
        self._turned = 0.0
        self._tower: Watchtower | None = None

    def run(self, seconds: float | None = None, ready: Callable[[], None] | None = None) -> TowerTotals:
        """Watch until the stop, or for ``seconds``; return the totals.

        WatchtowerError if the home cannot be used, and ChainError if waiting for the node cannot help.
        """
        config = self._config
        until = None if seconds is None else time.monotonic() + seconds
        with locked_tower(config.home):
            client = ChainClient(config.node)
            links = Connections(self._key)
            folders = config.home / "jobs", config.home / "blobs"
            lane = Lane(name=_PLACES, processes=1, folder=config.home / "scratch", reads=folders)
            replayer = start_together(config.executor, config.engine, (lane,), (_PLACES,), config.machines, config.home)
            blobs = BlobStore(folders[1], BLOBS_QUOTA)
            store = TowerStore(config.home / "watchtower.db")
            server = self._serve_metrics()
            try:
                with _closed(self._stop, client, links, replayer):
                    status = self._node.wait_for(client.status)
                    if status is None:
                        return TowerTotals()
                    self._clock.wait_until_right(lambda: self._node.ask(client.status), self._stop, self._note)
                    store.own(status.chain_id, self._key.address)
                    tower = self._make(client, links, replayer, blobs, store, status.chain_id)
                    self._tower = tower
                    if ready is not None:
                        ready()
                    self._loop(tower, blobs, replayer.tend, until)
                    return tower.totals
            finally:
                if server is not None:
                    server.close()
                store.close()
                blobs.close()

    def _make(
        self,
        client: ChainClient,
        links: Connections,
        replayer: Replayer,
        blobs: BlobStore,
        store: TowerStore,
        chain_id: str,
    ) -> Watchtower:
        config, stop = self._config, self._stop

        def check(on_chain: OrderResponse, closed: Round, place: AuditPlace, left: float) -> PlaceCheck:
            leg = on_chain.leg(closed.leg)
            operator = leg.validator if leg is not None else ""
            validators = client.query(ValidatorsRequest()).validators
            validator = next((known for known in validators if known.operator == operator), None)
            if validator is None:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, f"{operator} is not, or no longer, a validator")
            ends = time.monotonic() + min(left, config.seconds + RECOMPUTE_SECONDS)

            def run(function: Callable[[Any], Recomputed], request: Any) -> Recomputed:
                return replayer.recompute(_PLACES, function, request, max(0.0, ends - time.monotonic()))

            def pause(seconds: float) -> None:
                if stop.wait(seconds):
                    raise ClusterError(ClusterErrorKind.UNREACHABLE, "the watchtower stops")

            watcher = Watcher(
                link=links.client(validator, chain_id),
                blobs=blobs,
                jobs=config.home / "jobs",
                engine=config.engine,
                seconds=min(left, config.seconds),
                pause=pause,
                run=run,
            )
            return watcher.check(on_chain, closed, place)

        return Watchtower(
            client=client,
            sender=TxSender(client, self._key, note=self._note),
            secret=self._key.secret,
            store=store,
            check=check,
            tell=self._tell,
            meters=self._meters,
            name=self._name,
            budget=config.budget,
            only=config.only,
            dry_run=config.dry_run,
            unserved=config.unserved,
            stop=stop,
        )

    def _loop(self, tower: Watchtower, blobs: BlobStore, tend: Callable[[], None], until: float | None) -> None:
        swept = time.monotonic()
        while not self._stop.is_set() and (until is None or time.monotonic() < until):
            self._turned = time.monotonic()
            is_busy = False
            tend()
            try:
                is_busy = tower.step()
                self._node.back()
            except ChainError as error:
                if self._stop.is_set():
                    return
                self._node.lost(error)
                self._stop.wait(PAUSE_SECONDS)
            if time.monotonic() - swept > KEPT_SECONDS / 4:
                swept = time.monotonic()
                sweep(self._config.home / "jobs", KEPT_SECONDS)
                blobs.collect(time.time() - KEPT_SECONDS)
            if not is_busy:
                left = LOOK_SECONDS if until is None else min(LOOK_SECONDS, max(0.0, until - time.monotonic()))
                self._stop.wait(left)

    # --- metrics and health ------------------------------------------------------------------------

    def _serve_metrics(self) -> MetricsServer | None:
        if not self._config.metrics_port:
            return None
        self._meters.before_scrape(self._show)
        return MetricsServer(self._config.metrics_port, self._meters, health=self._health, ready=self._ready)

    def _show(self) -> None:
        self._meters.show(metrics.NODE_UP, not self._node.away)
        if self._tower is not None and self._tower.looked:
            self._meters.show(metrics.CLOCK, self._tower.clock)
            self._meters.show(metrics.LOOK_AGE, time.monotonic() - self._tower.looked)

    def _health(self) -> Sequence[str]:
        still = time.monotonic() - self._turned
        if self._turned and still > STUCK_SECONDS:
            return [f"the main loop has been stuck for {still:.0f} s"]
        return []

    def _ready(self) -> Sequence[str]:
        return [f"the node at {self._config.node} does not answer"] if self._node.away else []


@contextmanager
def _closed(stop: Event, client: ChainClient, links: Connections, replayer: Replayer) -> Iterator[None]:
    """Close the connections and the replayer when ``stop`` is set, so that every wait ends; set ``stop`` at the end."""

    def close() -> None:
        stop.wait()
        client.close()
        links.close()
        replayer.close()

    thread = Thread(target=close, name="close-watchtower", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
