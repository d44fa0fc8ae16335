"""The growth of a node's files over many blocks with transfers, made as fast as CometBFT makes them.

The network has one validator without daemons, and no commit timeout. Eight keys send transfers through the client of
the commands, each waiting until its transaction is in a block. Bytes are the sizes of files by folder while the node
runs. The first tenth of the blocks is empty, and fills the write buffers of the databases. The growth after that is
divided by the number of blocks, and by the number of transfers. Sizes of databases swing by a few megabytes, so run
thousands of blocks.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, sleep

from benchmarks.figures import Figures, Row
from chain.app.comet_files import Ports, Timing, write_config
from chain.app.homes import comet_home
from chain.app.node import ready_path
from chain.client.client import ChainClient
from chain.client.sender import TxSender
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from localnet.create import KEY, create, test_keyring
from localnet.layout import ValidatorSpec
from localnet.network import Network
from wire.keys import Key

NAME = "disk"
BLOCKS = 10_000
SENDERS = 8
PARTS = {
    "application (assay.db)": "data/assay.db",
    "blocks (blockstore.db)": "data/blockstore.db",
    "CometBFT's state (state.db)": "data/state.db",
    "index of transactions (tx_index.db)": "data/tx_index.db",
    "evidence (evidence.db)": "data/evidence.db",
    "write-ahead log (cs.wal)": "data/cs.wal",
    "logs": "logs",
}
"""Paths in ``node/`` of a home that grow, by description."""
_TIMING = Timing(propose=1_000, vote=500, commit=0, gossip_sleep=25)
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Look:
    """The state of a node at one moment."""

    seconds: float
    height: int
    sizes: Mapping[str, int]
    sent: int = 0


def run(blocks: int = BLOCKS) -> Figures:
    """Make ``blocks`` blocks and return the growth of each part."""
    with tempfile.TemporaryDirectory(prefix="assay-disk-") as folder:
        layout = create(Path(folder), validators=1, providers=0)
        spec = layout.validators[0]
        home = Path(spec.home)
        write_config(comet_home(home), spec.moniker, Ports(spec.p2p, spec.rpc, spec.grpc), _TIMING)
        network = Network(layout)
        try:
            network.start([f"{spec.moniker}.node"])
            with ChainClient(f"127.0.0.1:{spec.grpc}") as client:
                rich = test_keyring(Path(layout.consumer_home)).unlock(KEY)
                senders = _fund(spec, client, rich)
                first = client.status().height
                empty = _wait(home, client, first + blocks // 10, [])
                with _load(spec, senders) as counts:
                    full = _wait(home, client, first + blocks, counts)
            memory = list(_memory(home))
        finally:
            network.stop()
    return Figures(NAME, [*_rows(empty, full), *memory], [_note(empty, full)])


def _rows(empty: _Look, full: _Look) -> Iterator[Row]:
    for part in (*PARTS, "all"):
        grown = _size(full, part) - _size(empty, part)
        columns = {
            "a block": grown / (full.height - empty.height),
            "a transfer": grown / full.sent if full.sent else None,
        }
        yield Row(part, _size(full, part), "bytes", columns=columns)


def _size(look: _Look, part: str) -> int:
    return sum(look.sizes.values()) if part == "all" else look.sizes[part]


def _note(empty: _Look, full: _Look) -> str:
    blocks, seconds = full.height - empty.height, full.seconds - empty.seconds
    return (
        f"{full.height} blocks, the last {blocks} in {seconds:.0f} s ({blocks / seconds:.1f}/s)"
        f" with {full.sent} transfers ({full.sent / blocks:.2f} in a block)"
    )


def _fund(spec: ValidatorSpec, client: ChainClient, rich: Key) -> list[Key]:
    keys = [Key.generate() for _ in range(SENDERS)]
    sender = TxSender(client, rich)
    for key in keys:
        sender.send(MsgSend(rich.address, key.address, (Coin(DENOM, 10**11),)))
    return keys


@contextmanager
def _load(spec: ValidatorSpec, keys: Sequence[Key]) -> Iterator[list[int]]:
    """Send transfers while the ``with`` block runs; yield a list with each key's number of transactions in blocks."""
    counts, stop = [0] * len(keys), Event()

    def send(number: int) -> None:
        with ChainClient(f"127.0.0.1:{spec.grpc}") as client:
            sender = TxSender(client, keys[number])
            to = keys[number - 1].address
            while not stop.is_set():
                sender.send(MsgSend(sender.address, to, (Coin(DENOM, 1 + counts[number]),)))
                counts[number] += 1

    threads = [Thread(target=send, args=(number,)) for number in range(len(keys))]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _wait(home: Path, client: ChainClient, height: int, counts: Sequence[int]) -> _Look:
    reported = 0
    while True:
        look = _look(home, client, counts)
        if look.height >= height or look.height >= reported + 500:
            reported = look.height
            shown = {"height": look.height, "sent": look.sent, **look.sizes}
            print(f"{NAME}: {json.dumps(shown)}", file=sys.stderr, flush=True)
        if look.height >= height:
            return look
        sleep(_LOOK_SECONDS)


def _look(home: Path, client: ChainClient, counts: Sequence[int] = ()) -> _Look:
    height, sent = client.status().height, sum(counts)
    sizes = {part: _bytes(comet_home(home) / folder) for part, folder in PARTS.items()}
    return _Look(seconds=perf_counter(), height=height, sizes=sizes, sent=sent)


def _bytes(folder: Path) -> int:
    """Return the size of all files in a folder in bytes. Files that a database removes meanwhile do not count."""
    total = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(directory) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _memory(home: Path) -> Iterator[Row]:
    ready = json.loads(ready_path(home).read_text())
    for name, pid in (("node", ready["pid"]), ("CometBFT", ready["comet_pid"])):
        status = Path(f"/proc/{pid}/status")
        if status.exists():
            most = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
            yield Row(f"most memory of {name}", 1024 * int(most.split()[1]), "bytes")
