"""Signed transfers per second until they are in blocks: one validator, and the sender on the same cores.

``--baseline go`` compares with the least chain of the Cosmos SDK (``benchmarks/minimal_chain``), which is built from
public modules if Go is there. Both chains get the same transactions, the same configuration of CometBFT, and at most
``WINDOW`` transactions that are in no block yet. The time of a transfer runs from the call that sends it until a block
with it was read. The columns with ``ms`` say where the processor time of a transfer goes: the application with its
process for signatures, CometBFT, and the sender. The Cosmos SDK's application is a part of its CometBFT.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from threading import Event, Thread

from benchmarks.figures import Figures, Row
from benchmarks.nodes import Rpc, children_of, command_of, cpu_of, free_ports, wait_until_up
from chain.app.comet_files import LOCAL_TIMING, Ports
from chain.app.homes import NodeSpec, comet_home, genesis_path, init_network
from domain.genesis import DENOM, GenesisAccount
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.params import local_params
from host.process import start_child, stop_child
from wire.address import PREFIX
from wire.keys import Key
from wire.tx import build_tx

NAME = "tps"
CHAIN_ID = "assay-bench-1"
ACCOUNTS = 1_000
COINS = 10**12
WINDOW = 1_000
"""Most transactions under way, some blocks' worth: those that wait longer are checked again after each block."""
BATCH = 10  # the most calls that CometBFT takes in one request
SECONDS = 10.0
REPEATS = 3
STALL_SECONDS = 30.0
TXS = {"assay": 80, "go": 20}
"""Transfers of each account that are signed for a run: more than the chain takes in."""
_GO_FOLDER = Path(__file__).with_name("minimal_chain")
Chain = AbstractContextManager[tuple[int, dict[str, list[int]]]]
"""A chain that runs: the port of its RPC, and the processes of each part."""


@dataclass(frozen=True)
class Run:
    """The figures of one run: transfers per second, times (s) of transfers, and processor time per transfer (s)."""

    rate: float
    times: Sequence[float]
    cpu: dict[str, float]


def run(baseline: str | None = None) -> Figures:
    """Measure Assay, and the chain that ``baseline`` names, in turns."""
    notes = []
    binary = None
    with tempfile.TemporaryDirectory(prefix="assay-tps-") as folder:
        if baseline == "go":
            binary = _build(Path(folder) / "minimal_chain")
            if binary is None:
                notes.append("Go is not on PATH: the chain of the Cosmos SDK was not built")
        keys = [Key(sha256(b"tps %d" % number).digest()) for number in range(ACCOUNTS)]
        txs = _transfers(keys, TXS["assay"])
        ours, theirs = [], []
        for repeat in range(REPEATS):
            home = Path(folder) / f"home{repeat}"
            ours.append(_measure(_assay(home / "assay", keys), txs))
            if binary is not None:
                theirs.append(_measure(_go(home / "go", keys, binary), txs[: TXS["go"] * ACCOUNTS]))
    rows = []
    if theirs:
        rows.append(_row("Cosmos SDK 0.50, minimal chain", theirs))
    rows.append(_row("Assay", ours, theirs))
    return Figures(NAME, rows, notes)


def _row(case: str, runs: Sequence[Run], others: Sequence[Run] = ()) -> Row:
    """Return the row of the median of several runs, with the lowest and the highest rate."""
    ranked = sorted(runs, key=lambda each: each.rate)
    middle = ranked[len(ranked) // 2]
    times = sorted(middle.times)
    columns: dict[str, float | None] = {
        "lowest": ranked[0].rate,
        "highest": ranked[-1].rate,
        "p50 ms": 1_000 * times[len(times) // 2],
        "p95 ms": 1_000 * times[len(times) * 95 // 100],
    }
    columns |= {f"{part} ms": 1_000 * middle.cpu.get(part, 0.0) for part in ("application", "CometBFT", "sender")}
    baseline = median(other.rate for other in others) if others else None
    return Row(case=case, value=middle.rate, unit="1/s", baseline=baseline, columns=columns)


def _transfers(keys: Sequence[Key], each: int) -> list[bytes]:
    """Return the transfers: the first of all accounts, then the second of all accounts, and so on."""
    return [
        build_tx(
            (MsgSend(key.address, keys[number - 1].address, (Coin(DENOM, 1 + sequence),)),),
            key,
            chain_id=CHAIN_ID,
            account_number=number,
            sequence=sequence,
            fee=(Coin(DENOM, 100_000),),
            gas_limit=100_000,
        )
        for sequence in range(each)
        for number, key in enumerate(keys)
    ]


# --- the chains ----------------------------------------------------------------------------------


@contextmanager
def _assay(home: Path, keys: Sequence[Key]) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Run a validator of Assay; yield the port of its RPC, and the processes of each part."""
    ports = _make_home(home, keys)
    node = start_child(
        (sys.executable, "-m", "assay.cli", "node", "start", "--home", str(home)), log_path=home / "node.log"
    )
    try:
        wait_until_up(node, ports.rpc, home / "node.log")
        children = children_of(node.pid)
        comet = [pid for pid in children if "cometbft" in command_of(pid)]
        yield ports.rpc, {"application": [node.pid, *(pid for pid in children if pid not in comet)], "CometBFT": comet}
    finally:
        stop_child(node, 60)


@contextmanager
def _go(home: Path, keys: Sequence[Key], binary: Path) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Run the minimal chain with the same home of CometBFT; its genesis file has the accounts alone."""
    ports = _make_home(home, keys)
    path = genesis_path(home)
    document = json.loads(path.read_text())
    key = json.loads((comet_home(home) / "config" / "priv_validator_key.json").read_text())
    document["validators"] = [{"address": key["address"], "pub_key": key["pub_key"], "power": "100", "name": ""}]
    accounts = [[each.address, str(COINS)] for each in keys]
    document["app_state"] = {"prefix": PREFIX, "denom": DENOM, "accounts": accounts}
    document["app_hash"] = ""
    path.write_text(json.dumps(document))
    node = start_child((str(binary), str(comet_home(home))), log_path=home / "node.log")
    try:
        wait_until_up(node, ports.rpc, home / "node.log")
        yield ports.rpc, {"CometBFT": [node.pid]}
    finally:
        stop_child(node, 60)


def _make_home(home: Path, keys: Sequence[Key]) -> Ports:
    ports = free_ports()
    operator = Key(sha256(b"tps operator").digest()).address
    spec = NodeSpec(home=home, moniker="val", operator=operator, stake=10**8, ports=ports)
    accounts = [GenesisAccount(key.address, (Coin(DENOM, COINS),)) for key in keys] + [
        GenesisAccount(operator, (Coin(DENOM, COINS),))
    ]
    init_network(CHAIN_ID, (spec,), accounts, local_params().replace(auditors=0), timing=LOCAL_TIMING)
    return ports


def _build(binary: Path) -> Path | None:
    """Build the minimal chain; return None without Go."""
    if shutil.which("go") is None:
        return None
    print("... building the chain of the Cosmos SDK; the first time takes minutes", file=sys.stderr, flush=True)
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=_GO_FOLDER, check=True)
    return binary


# --- sending -------------------------------------------------------------------------------------


class _Reader:
    """A thread that reads new blocks, and notes when each transaction of ``sent`` was in one."""

    def __init__(self, port: int, sent: Mapping[str, float]) -> None:
        self._rpc = Rpc(port)
        self._sent = sent
        self.seen: dict[str, float] = {}
        self.stop = Event()
        self._next = self._rpc.height() + 1
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self.stop.wait(0.02):
            newest = self._rpc.height()
            while self._next <= newest:
                found = self._rpc.txs(self._next)
                now = time.perf_counter()
                self.seen.update((tx, now) for tx in found if tx in self._sent)
                self._next += 1

    def close(self) -> None:
        self.stop.set()
        self._thread.join()


def _measure(chain: Chain, txs: Sequence[bytes]) -> Run:
    """Send for ``SECONDS``, and wait until all that was sent is in blocks."""
    with chain as (port, parts):
        coded = [base64.b64encode(tx).decode() for tx in txs]
        sent: dict[str, float] = {}
        rpc, reader = Rpc(port), _Reader(port, sent)
        before = {part: cpu_of(pids) for part, pids in parts.items()}
        own = time.process_time()
        began = time.perf_counter()
        at = 0
        while time.perf_counter() - began < SECONDS and at < len(coded):
            if len(sent) - len(reader.seen) >= WINDOW:
                _check(reader, began)
                time.sleep(0.005)
                continue
            batch = coded[at : at + BATCH]
            at += BATCH
            calls = [
                {"jsonrpc": "2.0", "id": number, "method": "broadcast_tx_async", "params": {"tx": tx}}
                for number, tx in enumerate(batch)
            ]
            now = time.perf_counter()
            sent.update(dict.fromkeys(batch, now))
            rpc.post(json.dumps(calls).encode())
        while len(reader.seen) < len(sent):
            _check(reader, began)
            time.sleep(0.005)
        own = time.process_time() - own
        reader.close()
        last = max(reader.seen.values())
        cpu = {part: (cpu_of(pids) - before[part]) / len(sent) for part, pids in parts.items()}
        times = [seen - sent[tx] for tx, seen in reader.seen.items()]
        return Run(len(sent) / (last - began), times, cpu | {"sender": own / len(sent)})


def _check(reader: _Reader, began: float) -> None:
    """Raise RuntimeError if no transaction came into a block for long: one may have been refused."""
    last = max(reader.seen.values(), default=began)
    if time.perf_counter() - last > STALL_SECONDS:
        raise RuntimeError(f"no transfer came into a block for {STALL_SECONDS:.0f} s after {len(reader.seen)}")
