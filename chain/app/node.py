"""A whole node: store, application, ABCI server, gRPC server, and CometBFT (or the solo block maker)."""

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from threading import Event, Lock, Thread

from chain.app.abci_log import AbciLog
from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.abci_server import AbciServer, Method, stop_loudly
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.comet import CometProcess, RestartPolicy, find_binary
from chain.app.comet_files import HomeError, check_signer, read_genesis, set_comet_ports
from chain.app.comet_log import CometTrouble, LogKind
from chain.app.homes import (
    beacon_keys_path,
    check_genesis,
    comet_home,
    genesis_path,
    read_home_keys,
    read_node_table,
    read_signer,
)
from chain.app.interfaces import BlockReader, Broadcaster
from chain.app.ports import Port, check_ports, comet_ports, own_ports, rest_port
from chain.app.remote_signer import RemoteSigner, check_no_own_key, check_signs, set_remote_signer
from chain.app.signing import SigningCheck, home_held, key_held
from chain.app.solo import SoloEngine
from chain.app.storage import Maker, Storage
from chain.app.verifier import start_verifier
from domain.errors import Refusal
from domain.proof.params import ProofParams
from host.addresses import PORT_MAX, HostPort, bare
from host.daemon import calm_collector, log_to_file, on_stop_signal
from host.files import write_whole
from wire.canonical import IMPLEMENTATION, implementation

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.05  # polled, because CometBFT does not report when its RPC listens


class Consensus(StrEnum):
    """The program that makes a node's blocks."""

    MANAGED = "managed"  # CometBFT, started and supervised by the node
    EXTERNAL = "external"  # CometBFT that another program runs, connected to the node's socket
    SOLO = "solo"  # the block maker in this process


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings for :func:`run_node`; :meth:`of_home` reads those that ``assay node init`` wrote."""

    home: Path
    moniker: str
    grpc_port: int
    rpc_port: int
    consensus: Consensus = Consensus.MANAGED
    min_gas_price_millionths: int = 0
    socket_path: Path | None = None  # default: in a directory of the user with a short path
    solo_interval_seconds: float = 0.25
    grpc_host: str = "127.0.0.1"
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    # Ports on 127.0.0.1 of the node's metrics and health, and of CometBFT's metrics; 0: none.
    metrics_port: int = 0
    comet_metrics_port: int = 0
    # The REST gateway: its address (port 0: none), and the origins of the pages that may use it.
    rest_host: str = "127.0.0.1"
    rest_port: int = 0
    rest_origins: str = "*"

    @classmethod
    def of_home(
        cls, home: Path, consensus: Consensus = Consensus.MANAGED, min_gas_price_millionths: int = 0
    ) -> "NodeConfig":
        """Return the settings in the table ``node`` of the home's ``config.toml``.

        Raise HomeError if the table is missing, or is not that of a node.
        """
        table = read_node_table(home)
        try:
            return cls(
                home=home,
                moniker=str(table["moniker"]),
                grpc_port=_port(table["grpc_port"]),
                rpc_port=_port(table["rpc_port"]),
                consensus=consensus,
                min_gas_price_millionths=min_gas_price_millionths or int(table.get("min_gas_price_millionths", 0)),
                grpc_host=str(table.get("grpc_host", "127.0.0.1")),
                metrics_port=_port(table.get("metrics_port", 0)),
                comet_metrics_port=_port(table.get("comet_metrics_port", 0)),
                rest_host=str(table.get("rest_host", "127.0.0.1")),
                rest_port=_port(table.get("rest_port", 0)),
                rest_origins=str(table.get("rest_origins", "*")),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"has a wrong value ({error})"
            reason = f"the table node of {home / 'config.toml'} {what}"
            raise HomeError(reason, "correct it, or restore the file from a copy") from None

    @property
    def grpc(self) -> str:
        """The address at which the node answers clients, as host:port."""
        return str(HostPort(bare(self.grpc_host), self.grpc_port))


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The announcement that a node is up: its addresses and process ids (0 for a process that it did not start)."""

    pid: int
    comet_pid: int
    moniker: str
    chain_id: str
    height: int
    grpc: str
    rest: str  # URL of the REST gateway; empty if there is none
    rpc: str  # empty for solo
    socket: str
    auditors: int  # auditors of each round; 0 for a chain without audits


def ready_path(home: Path) -> Path:
    """Return the file that exists while a node is up; it holds :class:`NodeReady` as JSON."""
    return comet_home(home) / "ready.json"


def log_path(home: Path) -> Path:
    """Return the path of the node's log file; CometBFT's log file is next to it."""
    return comet_home(home) / "logs" / "node.log"


def default_socket_path(home: Path) -> Path:
    """Return the default path of the node's socket: at most 107 bytes, even if the path of the home is long."""
    name = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    directory = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return directory / f"assay-{os.getuid()}" / f"{name}.sock"


def run_node(config: NodeConfig, ready_callback: Callable[[NodeReady], None] | None = None) -> None:
    """Run a node until SIGTERM or SIGINT; main thread only. Raises StorageError, HomeError or CometError."""
    log_to_file(log_path(config.home))
    with ExitStack() as stack:
        _Node(config, ready_callback or (lambda ready: None), stack).run()


class _Node:
    """A running node with all its parts. They are stopped in the reverse order of their start."""

    def __init__(self, config: NodeConfig, ready_callback: Callable[[NodeReady], None], stack: ExitStack) -> None:
        self.config = config
        self.stack = stack
        _check_protobuf()
        self.ready_callback = ready_callback
        self.comet_pid = 0
        self.comet_id = ""
        self.rest = ""
        self.stop = Event()
        self.genesis, self.genesis_time_ns = read_genesis(genesis_path(config.home))
        self.socket_path = config.socket_path or default_socket_path(config.home)
        storage = Storage(comet_home(config.home) / "data" / "assay.db")
        stack.callback(storage.close)
        solo = config.consensus is Consensus.SOLO
        storage.claim(Maker.SOLO if solo else Maker.COMETBFT)
        # A solo node gets its transactions one by one, so none could be verified in parallel.
        verifier = None if solo else stack.enter_context(start_verifier())
        self.storage = storage
        self.metrics = _NodeMetrics() if config.metrics_port else None
        self.app = Application(
            storage,
            AppConfig(config.min_gas_price_millionths, solo),
            verifier,
            BeaconKeys(path=beacon_keys_path(config.home)),
            self.metrics.watcher if self.metrics else None,
        )
        self.signing: SigningCheck | None = None
        self.signer: RemoteSigner | None = None
        self.comet: CometProcess | None = None
        self.ended: HomeError | None = None
        self.announcing = Lock()
        self.is_over = False
        if config.consensus is Consensus.MANAGED:
            self._hold_key()
        self._check_genesis()

    def _hold_key(self) -> None:
        """Reserve the home's consensus key for this node; raise HomeError if it is missing or another node uses it."""
        comet = comet_home(self.config.home)
        self.signer = read_signer(self.config.home)
        if self.signer is None:
            check_signer(comet)
            self.stack.enter_context(key_held(comet))
        else:
            check_no_own_key(comet)
            self.stack.enter_context(home_held(comet))
        cons_key = read_home_keys(self.config.home).cons_key
        self.signing = SigningCheck(comet, cons_key, self._end, is_remote=self.signer is not None)

    def _check_genesis(self) -> None:
        """Raise HomeError if no chain can start from the genesis file, or if the store is of another chain."""
        path = genesis_path(self.config.home)
        head = self.app.head
        if head.block.height == 0:
            try:
                check_genesis(self.genesis, self.genesis_time_ns)
            except Refusal as refusal:
                raise HomeError(f"no chain can start from {path}: {refusal}") from None
        elif head.chain_id != self.genesis.chain_id:
            raise HomeError(
                f"{path} is for chain {self.genesis.chain_id}, but the node's store has chain {head.chain_id}",
                "use the genesis file of the store's chain, or another --home",
            )

    def run(self) -> None:
        """Start all parts, wait until the node has to end, and stop all parts."""
        calm_collector()
        ready_path(self.config.home).unlink(missing_ok=True)  # left by a node that was killed
        self.stack.callback(self._withdraw)
        if self.config.consensus is Consensus.SOLO:
            self._run_solo()
        else:
            self._run_comet()
        log.info("node stops at height %d", self.app.head.block.height)

    def _run_solo(self) -> None:
        engine = SoloEngine(self.app, self.genesis, genesis_time_ns=self.genesis_time_ns, on_fatal=stop_loudly)
        check_ports(self._own_ports())
        self._serve_grpc(engine, None)
        if self.metrics:
            self.metrics.serve(self, waiting=lambda: engine.waiting)
        engine.start(self.config.solo_interval_seconds)
        self.stack.callback(engine.stop)
        self._announce()
        on_stop_signal(self.stop.set)
        self.stop.wait()

    def _run_comet(self) -> None:
        # A solo node does not need their HTTP client.
        from chain.app.comet_blocks import CometBlocks
        from chain.app.comet_rpc import CometBroadcaster, CometView

        managed = self.config.consensus is Consensus.MANAGED
        home = comet_home(self.config.home)
        if managed:
            self.comet_id = read_home_keys(self.config.home).node_id
            set_comet_ports(home, self.config.rpc_port, self.config.comet_metrics_port)
            set_remote_signer(home, self.signer)
        check_ports(self._own_ports() | (comet_ports(self.config.home) if managed else {}))
        url = f"http://127.0.0.1:{self.config.rpc_port}"
        blocks = CometBlocks(url)
        self._serve_grpc(CometBroadcaster(url), blocks)
        if self.metrics:
            self.metrics.serve(self, comet=url)
        self._serve_abci(blocks)
        if not managed:
            self._comet_started(0)
            log.warning("waiting for CometBFT on unix://%s", self.socket_path)
            on_stop_signal(self.stop.set)
            self.stop.wait()
            return
        if (wait := self.genesis_time_ns - time.time_ns()) > 0:
            log.warning(
                "the chain begins in %s, at the time in genesis.json; if it has already begun, this machine's clock is"
                " wrong",
                timedelta(seconds=wait // 10**9 + 1),
            )
        self.comet = comet = CometProcess(
            home,
            self.socket_path,
            binary=find_binary(),
            log_path=log_path(self.config.home).with_name("cometbft.log"),
            policy=self.config.restart_policy,
            before_start=self._prepare_signer,
            on_start=self._comet_started,
            on_trouble=self._on_comet_trouble,
        )
        if self.signing is not None:
            self.signing.watch(CometView(url), self.stop)
            self.stack.callback(self.stop.set)
        on_stop_signal(comet.request_stop)
        comet.run()
        if self.ended is not None:
            raise self.ended

    def _prepare_signer(self) -> None:
        if self.signer is not None:
            self.signer.clear_socket()

    def _on_comet_trouble(self, trouble: CometTrouble) -> None:
        if trouble.kind is LogKind.STUCK:
            self._end(HomeError(trouble.reason, trouble.remedy))
        if self.signing is not None and trouble.kind is LogKind.TWICE:
            self.signing.found(trouble.reason)

    def _end(self, error: HomeError) -> None:
        """Keep ``error`` as the reason why the node ends, and stop CometBFT; the node then ends too."""
        self.ended = self.ended or error
        if self.comet is not None:
            self.comet.request_stop()

    def _own_ports(self) -> dict[str, Port]:
        config = self.config
        ports = own_ports(config.home, config.grpc_host, config.grpc_port, config.metrics_port)
        if config.rest_port:
            ports["REST"] = rest_port(config.home, config.rest_host, config.rest_port)
        return ports

    def _serve_abci(self, blocks: BlockReader) -> None:
        from chain.app.services.table import Services

        _own_directory(self.socket_path.parent)
        check = self.signing.check_block if self.signing else lambda request: None
        methods = Methods(self.app, AbciQueries(self.app, Services(self.app, blocks=blocks).call), check)
        table = self.metrics.timed(methods.table) if self.metrics else methods.table
        if calls := AbciLog.of_environment(self.config.home):
            self.stack.callback(calls.close)
            table = calls.logged(table)
        server = AbciServer(table, self.socket_path, prefetch=self.app.prefetch)
        server.start()
        self.stack.callback(server.close)

    def _serve_grpc(self, broadcaster: Broadcaster, blocks: BlockReader | None) -> None:
        from chain.app.grpc_server import GrpcServer
        from chain.app.services.table import Services

        try:
            server = GrpcServer(Services(self.app, broadcaster, blocks), self.config.grpc)
        except OSError as error:
            raise HomeError(str(error), "change grpc_port or grpc_host in the table `node` of config.toml") from None
        server.start()
        self.stack.callback(server.close)
        self._serve_rest()

    def _serve_rest(self) -> None:
        config = self.config
        if not config.rest_port:
            return
        from chain.app.rest.process import RestProcess

        try:
            rest = RestProcess(
                HostPort(bare(config.rest_host), config.rest_port),
                HostPort(bare(config.grpc_host), config.grpc_port),
                config.rest_origins,
                log_path(config.home).with_name("rest.log"),
            )
        except OSError as error:
            reason = f"{config.rest_host}:{config.rest_port}, for REST, cannot be used ({error.strerror})"
            raise HomeError(reason, "change rest_port or rest_host in the table `node` of config.toml") from None
        self.stack.callback(rest.close)
        self.rest = f"http://{rest.address}"

    def _comet_started(self, pid: int) -> None:
        self.comet_pid = pid
        if self.metrics and pid:
            self.metrics.comet_started()
        Thread(target=self._announce_when_up, args=(pid,), name="announce", daemon=True).start()

    def _announce_when_up(self, comet_pid: int) -> None:
        """Wait until the node has a state and its CometBFT answers, then announce the node.

        This is called at the start and, in another thread, after each restart of CometBFT.
        """
        from chain.app.comet_rpc import CometView

        self.app.started.wait()
        view = CometView(f"http://127.0.0.1:{self.config.rpc_port}")
        while comet_pid == self.comet_pid and comet_pid and view.node_id() != self.comet_id:
            time.sleep(_LOOK_AGAIN_SECONDS)
        if comet_pid != self.comet_pid:
            return
        if self.signer is not None and (key := view.consensus_key()):
            try:
                check_signs(self.signer, key)
            except HomeError as error:
                self._end(error)
                return
        self._announce()

    def _withdraw(self) -> None:
        with self.announcing:
            self.is_over = True
            ready_path(self.config.home).unlink(missing_ok=True)

    def _announce(self) -> None:
        """Write the announcement that the node is up, at its start and after each restart of CometBFT."""
        rpc = "" if self.app.solo else f"http://127.0.0.1:{self.config.rpc_port}"
        ready = NodeReady(
            pid=os.getpid(),
            comet_pid=self.comet_pid,
            moniker=self.config.moniker,
            chain_id=self.app.chain_id,
            height=self.app.head.block.height,
            grpc=self.config.grpc,
            rest=self.rest,
            rpc=rpc,
            socket="" if self.app.solo else str(self.socket_path),
            auditors=self.genesis.params.of(ProofParams).auditors,
        )
        path = ready_path(self.config.home)
        with self.announcing:
            if self.is_over:
                return
            write_whole(path, json.dumps(asdict(ready)) + "\n")
        log.info("node %s is up at height %d", ready.moniker, ready.height)
        self.ready_callback(ready)


class _NodeMetrics:
    """The metrics of a node. Only a node with metrics imports the modules for them."""

    def __init__(self) -> None:
        from chain.app import metrics
        from host.metrics import Meters

        self._metrics = metrics
        self._meters = Meters(metrics.METRICS)
        self.watcher = metrics.BlockMetrics(self._meters)

    def serve(self, node: _Node, comet: str = "", waiting: Callable[[], int] | None = None) -> None:
        """Serve metrics on the node's port until the node ends; HomeError if the port is taken."""
        from chain.app.comet_rpc import CometView
        from host.metrics import MetricsServer

        view = CometView(comet) if comet else None
        look = self._metrics.NodeLook(self._meters, node.app, node.storage, view, waiting)

        def ready() -> list[str]:
            return [*look.readiness(), *(node.signing.troubles() if node.signing else ())]

        try:
            server = MetricsServer(node.config.metrics_port, self._meters, health=look.health, ready=ready)
        except OSError as error:
            raise HomeError(str(error.strerror), field=str(error.filename)) from None
        node.stack.callback(server.close)

    def timed(self, methods: Mapping[str, Method]) -> dict[str, Method]:
        """Return the methods in a form that records the duration of each call in a histogram."""
        timed = self._meters.timed
        return {name: timed(self._metrics.ABCI, method, name) for name, method in methods.items()}

    def comet_started(self) -> None:
        """Count a start of CometBFT."""
        self._meters.count(self._metrics.COMET_STARTS)


def _port(value: object) -> int:
    """Return a port of a file; ValueError or TypeError if it is none."""
    port = int(str(value))
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"{value} is not a port: use 0 to {PORT_MAX}")
    return port


def _check_protobuf() -> None:
    """Raise HomeError if protobuf does not use the expected implementation.

    All nodes must refuse the same bytes, and must parse fast enough to keep up with blocks.
    """
    name = implementation()
    if name != IMPLEMENTATION:
        raise HomeError(
            f"protobuf uses its implementation {name!r}, but a node needs {IMPLEMENTATION!r}",
            "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, or install a wheel of protobuf for this platform",
        )


def _own_directory(path: Path) -> None:
    """Make a directory that only this user may enter; HomeError if it belongs to another user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise HomeError(f"{path} belongs to another user", "set XDG_RUNTIME_DIR to your own directory")
