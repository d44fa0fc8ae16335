"""Playing the cells of the matrix on a network of real processes: one order per cell, one after another."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from chain.client.errors import ChainError
from compute_provider.api import status
from consumer.request import Request
from consumer.result import fetch_result
from consumer.submit import submit
from domain.errors import Expected
from domain.ledger.moves import BOND_RETURN
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest
from domain.proof.records import ShareState
from host.process import start_child, stop_child
from localnet.comet_scenarios import read_bonds
from localnet.layout import NetworkKind, ValidatorSpec
from localnet.network import comet_pid
from pol.job.checkpoint import MODEL_FILE
from pol.local.run import run_locally
from tests.faults.cells import HOLDS, Cell, Phase, Process, last_panel, open_shares
from tests.support.market_network import JOB, PRICE, MarketNetwork, market_network, quick_params
from tests.support.waiting import is_running, wait_until

CLUSTERS = (("slow", ""), (), (), ())
"""The first validator wins every order. One of its two providers is slow, so that training lasts."""
SLOW, WINNER = "prov0", "val0"
PARAMS = quick_params(round_window=15, accept_base=300, accept_max=600, progress_base=300, stage_base=150)
"""Time enough for a restart on a busy machine: no deadline that ends a phase passes in the meantime."""
SPEED = 20_000
"""FLOP/s of each provider: a share has its time on a busy machine, too."""
SECONDS = 600.0
DEADLINE = 3_000

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ending:
    """How an order ended: why it closed, the SHA-256 of its model, its payments by kind, and how bonds changed."""

    ended: str
    sha256: str
    paid: Mapping[str, int]
    conserved: bool
    lost: Mapping[str, int]


@dataclass(frozen=True)
class Outcome:
    """A cell, how its order ended, and how it would have ended. ``problem`` says what is wrong, if anything."""

    cell: Cell
    ended: str
    expected: str
    hash_equal: bool
    coins_conserved: bool
    seconds: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        """True if the order ended as it would have without the kill."""
        return not self.problem


def play_cells(cells: Sequence[Cell], directory: Path, tell: Tell, minutes: float = 0.0) -> Iterator[Outcome]:
    """Play cells on one network, after an order without a kill; no cell begins after so many ``minutes``, if given."""
    begun = time.monotonic()
    local = run_locally(JOB, out=directory / "local").model
    assert local is not None
    digest = sha256(local.read_bytes()).hexdigest()
    tell("starting a network of four nodes, four validators and two providers")
    with _network(directory / "network") as market:
        expected = _Order(market, "undisturbed", directory).play(None, tell)
        problem = _compare(expected, Ending("settled", digest, expected.paid, True, {}))
        assert not problem, f"the order without a kill: {problem}"
        tell(f"an order without a kill took {time.monotonic() - begun:.0f} s with the start of the network")
        for number, cell in enumerate(cells):
            if minutes and time.monotonic() - begun > 60 * minutes:
                tell(f"{len(cells) - number} of {len(cells)} cells are left out: {minutes} minutes are over")
                return
            yield _play_one(market, cell, directory, expected, tell)


@contextmanager
def _network(directory: Path) -> Iterator[MarketNetwork]:
    with market_network(directory, CLUSTERS, PARAMS, lambda _: SPEED, kind=NetworkKind.COMETBFT) as market:
        yield market


def _play_one(market: MarketNetwork, cell: Cell, directory: Path, expected: Ending, tell: Tell) -> Outcome:
    begun = time.monotonic()
    ending, problem = Ending("", "", {}, False, {}), ""
    try:
        ending = _Order(market, cell.name, directory).play(cell, tell)
        problem = _compare(ending, expected)
        _wait_until_whole(market)
    except (AssertionError, Expected, subprocess.TimeoutExpired) as error:
        problem = str(error)
    return Outcome(
        cell=cell,
        ended=ending.ended,
        expected=expected.ended,
        hash_equal=ending.sha256 == expected.sha256,
        coins_conserved=ending.conserved,
        seconds=round(time.monotonic() - begun, 1),
        problem=problem,
    )


def _compare(ending: Ending, expected: Ending) -> str:
    """Return what differs between two ends, or an empty text."""
    if ending.ended != expected.ended:
        return f"the order ended as {ending.ended}"
    if ending.sha256 != expected.sha256:
        return "the result is another one"
    if ending.paid != expected.paid:
        return f"other payments: {dict(ending.paid)} instead of {dict(expected.paid)}"
    if ending.lost:
        return f"bonds were cut: {dict(ending.lost)}"
    return "" if ending.conserved else "coins of the deposit are missing"


def _wait_until_whole(market: MarketNetwork) -> None:
    """Wait until all nodes are at the height of the chain, all providers have joined, and all validators serve."""
    network, layout = market.network, market.layout
    network.wait_for_height(market.client.status().height, [spec.moniker for spec in layout.validators], SECONDS)

    def joined() -> bool:
        network.check_alive()
        reports = [status(Path(spec.home) / "provider") for spec in layout.providers]
        return all(report is not None and report["joined"] for report in reports)

    wait_until(joined, "the providers to join again", SECONDS)
    wait_until(lambda: all(map(_serves, layout.validators)), "the validators to serve again", SECONDS)


def _serves(spec: ValidatorSpec) -> bool:
    """Return whether the daemon of a validator takes connections."""
    try:
        socket.create_connection(("127.0.0.1", spec.cluster), timeout=5).close()
    except OSError:
        return False
    return True


class _Order:
    """One order on the network, with the commands of its consumer."""

    def __init__(self, market: MarketNetwork, name: str, directory: Path) -> None:
        self._market = market
        self._name = name.replace("/", "-")
        self._model = directory / f"{self._name}.safetensors"
        self._log = directory / "logs" / f"{self._name}.log"
        self._log.parent.mkdir(exist_ok=True)
        self._command: subprocess.Popen[bytes] | None = None
        self._fetch: subprocess.Popen[bytes] | None = None
        self._tower: subprocess.Popen[bytes] | None = None
        self._tower_log = self._log.with_suffix(".watchtower.log")
        self._id = b""

    def play(self, cell: Cell | None, tell: Tell) -> Ending:
        """Submit the order, kill and start again what the cell says, and wait for the end."""
        market = self._market
        before = read_bonds(market.client, market.layout)
        try:
            if cell is not None and cell.process is Process.WATCHTOWER:
                self._start_tower()
            deposit = self._submit()
            if cell is not None and cell.phase is Phase.MATCHING:
                tell(f"{cell.name}: {self._disturb(cell)}")
            market.bid(WINNER, self._name)
            if cell is not None and cell.phase is not Phase.MATCHING:
                tell(f"{cell.name}: {self._disturb(cell)}")
            self._wait(lambda on_chain: on_chain.order.state is OrderState.CLOSED, "the end of the order")
            on_chain = self._look()
            assert on_chain is not None
            self._finish_commands()
            return self._ending(on_chain, deposit, before)
        finally:
            for child in (self._command, self._fetch, self._tower):
                if child is not None:
                    stop_child(child)

    def _submit(self) -> int:
        market = self._market
        terms = Request(Conditions(regions=(self._name,), tiers=("exact",)), PRICE, DEADLINE, DEADLINE)
        submitted = submit(market.client, market.sender, market.key, market.job, terms)
        self._id = submitted.order_id
        self._watch()
        return submitted.deposit

    def _watch(self) -> None:
        """Start the waiting command, until it has shown the order: it then waits for a node that is away."""
        shown = self._log.stat().st_size if self._log.exists() else 0
        self._command = self._start_command("watch")
        wait_until(lambda: self._log.stat().st_size > shown, "the first line of assay order watch", SECONDS)

    def _start_tower(self) -> None:
        command = [sys.executable, "-m", "assay.cli", "watchtower", "--home", self._market.layout.consumer_home]
        self._tower = start_child(command, log_path=self._tower_log)

    def _start_command(self, name: str, *options: str) -> "subprocess.Popen[bytes]":
        """Start a command of the consumer about its order."""
        command = [sys.executable, "-m", "assay.cli", "order", name, self._id.hex(), *options]
        home = ["--home", self._market.layout.consumer_home, "--job", str(self._market.job_directory)]
        return start_child([*command, *home], log_path=self._log)

    # The fault

    def _disturb(self, cell: Cell) -> str:
        """Wait for the phase, kill the process, start it again, and return a sentence about it."""
        holds = HOLDS[cell.phase]
        if cell.phase is Phase.TAKING:
            self._take_early()
        on_chain = self._wait(holds, f"the phase {cell.phase}")
        if cell.phase is Phase.HAND_OVER:
            self._fetch = self._start_result(cell.phase)
        victim = self._kill(cell, on_chain)
        after = self._look()
        still = after is not None and holds(after)
        self._restart(cell, victim)
        if self._fetch is not None:
            self._fetch_again(cell)
        return f"killed {victim}, and the phase " + ("went on" if still else "ended in that moment")

    def _take_early(self) -> None:
        """Let the consumer take the last round; auditors pause meanwhile, so that the round is not verified before."""
        auditors = [f"{spec.moniker}.validator" for spec in self._market.layout.validators if spec.moniker != WINNER]
        self._wait(lambda on_chain: len(on_chain.rounds) == on_chain.order.terms.rounds, "the last round")
        for name in auditors:
            self._market.network.pause(name)
        try:
            self._fetch = self._start_result(Phase.TAKING)
            self._wait(HOLDS[Phase.TAKING], "the message that takes the last round")
        finally:
            for name in auditors:
                self._market.network.resume(name)

    def _start_result(self, phase: Phase) -> "subprocess.Popen[bytes]":
        early = ("--early", "--yes") if phase is Phase.TAKING else ()
        return self._start_command("result", "-o", str(self._model), *early)

    def _kill(self, cell: Cell, on_chain: OrderResponse) -> str:
        network, layout = self._market.network, self._market.layout
        match cell.process:
            case Process.CONSUMER:
                waiting = self._fetch or self._command
                assert waiting is not None
                waiting.kill()
                waiting.wait()
                return "the consumer's command"
            case Process.WATCHTOWER:
                assert self._tower is not None
                assert self._tower.poll() is None, self._tower_log.read_text()[-500:]
                self._tower.kill()
                self._tower.wait()
                return "the watchtower"
            case Process.COMETBFT:
                pid = comet_pid(layout.validator(WINNER))
                assert is_running(pid), "CometBFT does not run"
                os.kill(pid, signal.SIGKILL)
                return f"{WINNER}.cometbft"
            case Process.WORKER:
                name = self._provider(cell, on_chain)
                (daemon,) = (state.pid for state in network.states() if state.name == name)
                for pid in wait_until(lambda: _children(daemon), f"the worker of {name}", SECONDS):
                    os.kill(pid, signal.SIGKILL)
                return f"{name}.worker"
            case Process.PROVIDER:
                name = self._provider(cell, on_chain)
            case Process.AUDITOR:
                name = f"{self._auditor(on_chain)}.validator"
            case Process.NODE | Process.VALIDATOR:
                name = f"{WINNER}.{cell.process}"
        network.kill(name)
        return name

    def _provider(self, cell: Cell, on_chain: OrderResponse) -> str:
        """Return the provider whose share is being delivered, or else the slow one."""
        delivers = [s.claim.provider for s in open_shares(on_chain) if s.state is ShareState.COMMITTED]
        if cell.phase is Phase.SHARE_DELIVERY and delivers:
            return next(spec.name for spec in self._market.layout.providers if spec.address == delivers[0])
        return SLOW

    def _auditor(self, on_chain: OrderResponse) -> str:
        """Return a validator with a seat that still has work in the newest panel, or else one that may get a seat."""
        panel = last_panel(on_chain)
        seats = self._market.client.query(SeatsRequest(*panel.key)).seats if panel else ()
        at_work = [seat for seat in seats if not (seat.revealed or (panel and panel.committed and seat.commitment))]
        chosen = at_work or [seat for seat in seats if not seat.revealed] or list(seats)
        return self._market.moniker_of(chosen[0].validator) if chosen else "val1"

    def _restart(self, cell: Cell, victim: str) -> None:
        match cell.process:
            case Process.CONSUMER if self._fetch is None:
                self._watch()
            case Process.WATCHTOWER:
                self._start_tower()
            case Process.NODE | Process.VALIDATOR | Process.AUDITOR | Process.PROVIDER:
                self._market.network.start_one(victim)
            case _:  # its parent starts it again, or the command is given again
                pass

    def _fetch_again(self, cell: Cell) -> None:
        """Let the command end: with the result, or with a sentence, after which it is given again."""
        assert self._fetch is not None
        if cell.process is not Process.CONSUMER and self._fetch.wait(SECONDS) == 0:
            return
        _wait_until_whole(self._market)
        self._fetch = self._start_result(cell.phase)

    # The end

    def _look(self) -> OrderResponse | None:
        """Return what the chain says of the order, or None if the node does not answer."""
        try:
            return self._market.client.query(OrderRequest(self._id))
        except ChainError:
            return None

    def _wait(self, condition: Callable[[OrderResponse], bool], what: str) -> OrderResponse:
        last: list[OrderResponse] = []

        def holds() -> OrderResponse | None:
            self._market.network.check_alive()
            if self._command is not None and self._command.poll():
                raise AssertionError(f"assay order watch ended: {self._log.read_text()[-500:]}")
            on_chain = self._look()
            if on_chain is None:
                return None
            last[:] = [on_chain]
            if condition(on_chain):
                return on_chain
            over = on_chain.order.state is OrderState.CLOSED
            assert not over, f"the order closed before {what}: {CloseReason(on_chain.order.close_reason).name}"
            return None

        try:
            found = wait_until(holds, what, SECONDS)
        except AssertionError as error:
            state = last[0].order.state.name if last else "unknown"
            raise AssertionError(f"{error}; it is {state}; {self._market.network.last_log_lines()}") from None
        assert found is not None
        return found

    def _finish_commands(self) -> None:
        """Wait for the consumer's commands, which end in order when the order does."""
        for name, child in (("watch", self._command), ("result", self._fetch)):
            if child is not None:
                code = child.wait(SECONDS)
                assert code == 0, f"assay order {name} ended with {code}: {self._log.read_text()[-500:]}"
        assert "Traceback" not in self._log.read_text(), f"a command of the consumer has a bug: {self._log}"
        if self._tower is not None:
            assert stop_child(self._tower, SECONDS) == 0, self._tower_log.read_text()[-500:]
        if self._fetch is not None:
            taken = sha256(self._model.read_bytes()).hexdigest()
            assert taken == self._fetched(), "the consumer's command wrote another result"

    def _fetched(self) -> str:
        market = self._market
        scratch = self._model.with_suffix(".scratch")
        result = fetch_result(market.client, market.key, self._id, market.job, scratch)
        folder = self._model.with_suffix("")
        folder.mkdir(exist_ok=True)
        return result.save(folder / MODEL_FILE).hex()

    def _ending(self, on_chain: OrderResponse, deposit: int, before: Mapping[str, int]) -> Ending:
        paid: Counter[str] = Counter()
        for payment in on_chain.payments:
            # A slot that is issued again has one bond more, which also returns.
            if payment.kind != BOND_RETURN.name:
                paid[payment.kind] += payment.amount
        rows = on_chain.escrow.depositors
        market = self._market
        after = read_bonds(market.client, market.layout)
        return Ending(
            ended=CloseReason(on_chain.order.close_reason).name.lower(),
            sha256=self._fetched(),
            paid=dict(sorted(paid.items())),
            conserved=deposit == sum(row.paid + row.refunded for row in rows) and not on_chain.escrow.bonds,
            lost={name: after[name] - before[name] for name in before if after[name] < before[name]},
        )


def _children(parent: int) -> list[int]:
    """Return the processes that a process started."""
    children = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[1] == str(parent) and fields[0] != "Z":
            children.append(int(folder.name))
    return children
