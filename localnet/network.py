"""A running local network: starting and stopping its processes, their state, and faults for tests.

All processes of a :class:`Network` are children of the process that made it (through :mod:`host.process`). They end
when that process ends, even if it is killed. Therefore use a network from the main thread only.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from chain.app.homes import comet_home
from chain.client.client import ChainClient
from chain.client.errors import ChainError
from compute_provider.store import MachineSpeed, Store
from compute_provider.work.bench import measure_speed
from host.files import write_whole
from host.process import start_child, stop_child
from localnet.layout import Layout, NetworkError, NetworkKind, ValidatorSpec
from pol.executor.names import DEFAULT_ENGINE

STATUS_FILE = "status.json"
START_SECONDS = 300.0
"""Longest wait for the network to start; only a very busy machine needs this much time."""
PROVIDER_BOND = 10_000_000_000
"""Bond of each provider in uassay."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of one process of the network."""

    name: str
    pid: int
    running: bool
    exit_code: int | None
    log: str


class Network:
    """The processes of a network. Their names are ``val0.node``, ``val0.validator``, ``prov0`` and so on."""

    def __init__(self, layout: Layout, environment: Mapping[str, str] | None = None) -> None:
        """Store the layout; :meth:`start` starts the processes, with ``environment`` added to that of this process."""
        self.layout = layout
        self._environment = environment or {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    # Starting and stopping

    def names(self) -> list[str]:
        """Return the names of all processes, nodes first."""
        nodes = [f"{spec.moniker}.node" for spec in self.layout.nodes]
        daemons = [f"{spec.moniker}.validator" for spec in self.layout.validators]
        return [*nodes, *daemons, *(spec.name for spec in self.layout.providers)]

    def start(self, names: Sequence[str] | None = None, note: Callable[[str], None] = lambda text: None) -> None:
        """Start the processes ``names`` (all by default), and wait for the first blocks; call ``note`` with messages.

        Nodes and validators start together, because a validator waits for its node. Providers start last.
        """
        chosen = self.names() if names is None else list(names)
        nodes = [name for name in chosen if name.endswith(".node")]
        validators = [name for name in chosen if name.endswith(".validator")]
        providers = [name for name in chosen if name not in (*nodes, *validators)]
        for name in (*nodes, *validators):
            self.start_one(name)
        # The nodes take longer to start than this measurement takes, so the measurement delays nothing.
        self._measure_providers(providers)
        for name in providers:
            self.start_one(name)
        daemons = [*validators, *providers]
        note(f"started {_counted(nodes, 'node')} and {_counted(daemons, 'daemon')}")
        if nodes:
            note("waiting for the first blocks")
            self.wait_for_height(2, [name.removesuffix(".node") for name in nodes])

    def _measure_providers(self, names: Sequence[str]) -> None:
        """Measure the machine's speed once and store an equal part of it for each new provider.

        If each provider measured its own speed, the measurements would disturb one another.
        """
        homes = [Path(p.home) / "provider" for p in self.layout.providers if p.name in names]
        new = [home for home in homes if not _is_measured(home)]
        if not new:
            return
        speed = measure_speed(DEFAULT_ENGINE, seconds=1.0)
        part = max(1, speed.flops // len(self.layout.providers))
        part_speed = MachineSpeed(flops=part, memory=speed.memory, at=int(time.time()), computing=speed.computing)
        for home in new:
            with closing(Store(home)) as store:
                store.put_measured(DEFAULT_ENGINE, part_speed)

    def start_one(self, name: str) -> None:
        """Start a process unless it already runs."""
        child = self._children.get(name)
        if child is not None and child.poll() is None:
            return
        self._children[name] = start_child(
            self._command(name), log_path=self.log_path(name), environment={**os.environ, **self._environment}
        )
        self.write_status()

    def restart(self, name: str) -> None:
        """Stop a process if it runs, and start it."""
        child = self._children.get(name)
        if child is not None:
            stop_child(child)
        self.start_one(name)

    def stop(self) -> None:
        """Stop all processes, providers first."""
        for name in reversed(self.names()):
            child = self._children.get(name)
            if child is not None and child.poll() is None:
                child.terminate()
        for child in self._children.values():
            stop_child(child, 10.0)
        self.write_status()

    def _command(self, name: str) -> list[str]:
        assay = [sys.executable, "-m", "assay.cli"]
        if name.endswith(".node"):
            spec = self.layout.validator(name.removesuffix(".node"))
            command = [*assay, "node", "start", "--home", spec.home]
            return [*command, "--solo"] if self.layout.kind is NetworkKind.SOLO else command
        if name.endswith(".validator"):
            spec = self.layout.validator(name.removesuffix(".validator"))
            return [*assay, "validator", "run", "--home", spec.home]
        provider = self.layout.provider(name)
        validator = self.layout.validator(provider.validator)
        if provider.misbehave:
            cheat = [sys.executable, "-m", "localnet.cheats", "provider", provider.misbehave]
            node = f"127.0.0.1:{validator.grpc}"
            return [*cheat, provider.home, node, validator.operator, str(PROVIDER_BOND)]
        command = [*assay, "provider", "join", validator.operator, "--home", provider.home]
        return [*command, "--bond", f"{PROVIDER_BOND}uassay", "--backend", provider.backend]

    # Faults

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL and wait until it is gone."""
        child = self._child(name)
        child.kill()
        child.wait(10.0)
        self.write_status()

    def pause(self, name: str) -> None:
        """Pause a process (SIGSTOP)."""
        self._child(name).send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a paused process (SIGCONT)."""
        self._child(name).send_signal(signal.SIGCONT)

    def _child(self, name: str) -> subprocess.Popen[bytes]:
        child = self._children.get(name)
        if child is None:
            known = ", ".join(self.names())
            raise NetworkError(f"no process {name} was started", f"choose one of {known}")
        return child

    # State

    def log_path(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.layout.path / "logs" / f"{name}.log"

    def states(self) -> list[ProcessState]:
        """Return the state of every process that was started."""
        return [
            ProcessState(
                name=name,
                pid=child.pid,
                running=child.poll() is None,
                exit_code=child.poll(),
                log=str(self.log_path(name)),
            )
            for name, child in self._children.items()
        ]

    def check_alive(self) -> None:
        """Raise NetworkError if a process ended with an error; a process that was killed with SIGKILL is ignored."""
        for state in self.states():
            if not state.running and state.exit_code not in (None, -signal.SIGKILL, 0):
                tail = _tail(Path(state.log))
                raise NetworkError(f"{state.name} ended with exit code {state.exit_code}: {tail} (log: {state.log})")

    def client(self, validator: ValidatorSpec | None = None) -> ChainClient:
        """Return a client of a validator's node (the first one by default)."""
        spec = validator or self.layout.validators[0]
        return ChainClient(f"127.0.0.1:{spec.grpc}")

    @property
    def console_addresses(self) -> tuple[str, str]:
        """The gRPC address of the first node, and the URL of its CometBFT; the URL is empty in a solo network."""
        spec = self.layout.validators[0]
        rpc = "" if self.layout.kind is NetworkKind.SOLO else f"http://127.0.0.1:{spec.rpc}"
        return f"127.0.0.1:{spec.grpc}", rpc

    @property
    def homes(self) -> tuple[Path, ...]:
        """The homes of all validators and providers."""
        homes = [spec.home for spec in self.layout.validators]
        return tuple(map(Path, homes + [spec.home for spec in self.layout.providers]))

    def wait_for_height(self, height: int, monikers: Sequence[str], seconds: float = START_SECONDS) -> None:
        """Wait until the nodes of these validators have committed ``height``."""
        for moniker in monikers:
            spec = self.layout.validator(moniker)
            with self.client(spec) as client:
                self.wait_until(
                    partial(_reached, client, height),
                    f"{moniker} to reach height {height}",
                    seconds,
                )

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
        """Wait until a condition holds; raise NetworkError after ``seconds``, or if a process ends with an error.

        ``what`` describes the condition in the text of the error.
        """
        ends = time.monotonic() + seconds
        while not condition():
            self.check_alive()
            if time.monotonic() > ends:
                raise NetworkError(f"waited {seconds:.0f} s for {what}; {self.last_log_lines()}")
            time.sleep(0.1)

    def last_log_lines(self) -> str:
        """Return a text with the last line of each process's log, which helps to find the slow process."""
        logs = [f"{state.name}: {_tail(Path(state.log))}" for state in self.states()]
        return "\n".join([f"last lines of {self.layout.path}/logs:", *logs])

    def write_status(self) -> None:
        """Write the states of all processes for ``assay localnet status``."""
        states = [asdict(state) for state in self.states()]
        write_whole(self.layout.path / STATUS_FILE, json.dumps(states))


def comet_pid(validator: ValidatorSpec) -> int:
    """Return the process id of a validator's CometBFT, 0 if it is not known."""
    try:
        ready = json.loads((comet_home(Path(validator.home)) / "ready.json").read_text())
        return int(ready["comet_pid"])
    except (FileNotFoundError, ValueError, KeyError):
        return 0


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}" if len(names) == 1 else f"{len(names)} {what}s"


def _is_measured(home: Path) -> bool:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(Store(home)) as store:
        return store.measured(DEFAULT_ENGINE) is not None


def _reached(client: ChainClient, height: int) -> bool:
    return _height(client) >= height


def _height(client: ChainClient) -> int:
    try:
        return client.status().height
    except ChainError:
        return 0


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1][-300:] if lines else "no output"
