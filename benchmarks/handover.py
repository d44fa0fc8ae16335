"""Transfers of gigabytes between parties: a payload to a validator and to a provider, and a result to its consumer.

Each party is a separate process. Files go from disk to disk over the real link, with TLS and signed calls. The
validator seals a result; the consumer fetches it, opens it and writes it as safetensors. In the rows with data, the
provider's worker trains a share, and a process of the validator's pool replays it. A row has the seconds and the growth
of both processes' peak memory, which must not depend on the number of bytes.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from benchmarks.figures import Figures, Row
from benchmarks.handover_job import LARGE, SMALL, payload, replay_shares, train_shares, write_jobs
from benchmarks.memory import memory, reset_peak
from consumer.jobs import write_result
from consumer.unsealing import HandedOver, Unsealer
from host.files import link_whole, write_durably
from link import types as t
from link.blobs import BlobStore
from link.calls import decode, encode
from link.client import ClusterClient
from link.handover import public_point
from link.server import ClusterServer
from link.tls import make_certificate
from pol.rules.handover import ChunkLayout, HandoverId
from pol.state.canonical import state_pieces, state_specs, state_tree
from validator.work.files import materialise
from validator.work.numerics import result_lengths
from validator.work.sealing import seal_into
from wire.keys import Key

NAME = "handover"
SIZE = 2**30
"""Size of a state in bytes."""
TENSOR = 2**24
"""Size of one tensor of the state in bytes: the consumer holds one tensor in memory while it writes a result."""
BOUND = 96 * 2**20
"""Maximum growth of a process in bytes, independent of the size."""
_CHAIN = "assay-local-1"
_CONSUMER, _PROVIDER = Key(b"\x01" * 32), Key(b"\x02" * 32)
_ORDER_SECRET, _SECRET = b"\x03" * 32, b"\x04" * 32
_HANDOVER = HandoverId(chain_id=_CHAIN, order_id=bytes(32), leg=1, round=0)
_ROOT = Path(__file__).parents[1]
_Grown = tuple[float, int]
"""Seconds, and growth of a process in bytes."""
_Client = Callable[[Key], ClusterClient]
Way = Callable[[Path, _Client], _Grown | None] | str
"""A function that another party's process runs, or a command to the validator's process.

The function returns seconds and growth if a child process did the work.
"""


def run(size: int = SIZE) -> Figures:
    """Measure all transfers of a state and of a job's data, each of about ``size`` bytes."""
    return judged([*_rows(WAYS, _write_state, size), *_rows(WAYS_OF_DATA, write_jobs, size)])


def _rows(ways: Mapping[str, Way], write: Callable[[Path, int], int], size: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sent = write(folder, size) / 2**20
        with _validator(folder) as ask:
            for case, way in ways.items():
                print(f"{NAME}: {case}", file=sys.stderr, flush=True)
                ask("begin")
                if isinstance(way, str):
                    seconds, there, grown = ask(way)
                else:
                    seconds, grown = _of_actor(way.__name__, folder)
                    _, there, _ = ask("end")
                columns = {"MiB": sent, "validator grew": there / 2**20}
                if grown is not None:
                    columns["other grew"] = grown / 2**20
                yield Row(case, seconds, "s", columns=columns)


def judged(rows: Sequence[Row]) -> Figures:
    """Return the figures of transfers. They have failed if a process grew by more than ``BOUND``."""
    most = BOUND / 2**20
    grown = ("validator grew", "other grew")
    over = [row.case for row in rows if max(row.columns.get(who) or 0 for who in grown) > most]
    notes = [f"{case}: a process grew by more than {most:g} MiB" for case in over]
    return Figures(name=NAME, rows=rows, notes=notes, failed=bool(over))


def _write_state(folder: Path, size: int) -> int:
    draws, count = np.random.default_rng(1), max(1, size // TENSOR)
    state = {f"w{i:05d}": draws.random(TENSOR // 4, np.float32) for i in range(count)}
    write_durably(folder / "state", state_pieces(state))
    with (folder / "state").open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    about = {"count": count, "root": state_tree(state).root.hex(), "sha256": digest}
    (folder / "about").write_text(json.dumps(about))
    return (folder / "state").stat().st_size


def _about(folder: Path) -> tuple[t.BlobRef, list[Any], bytes]:
    """Return the blob reference of the state, the specifications of its tensors, and its root."""
    about = json.loads((folder / "about").read_text())
    blob = t.BlobRef(bytes.fromhex(about["sha256"]), (folder / "state").stat().st_size)
    empty = np.broadcast_to(np.float32(0), (TENSOR // 4,))
    specs = state_specs({f"w{i:05d}": empty for i in range(about["count"])})
    return blob, list(specs), bytes.fromhex(about["root"])


# --- the validator -------------------------------------------------------------------------------


class _Shelf:
    """The methods of :class:`link.types.Handlers` that transfer blobs, without access control."""

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs

    def roles(self, caller: t.Caller) -> frozenset[t.Role]:
        role = t.Role.CONSUMER if caller.address == _CONSUMER.address else t.Role.PROVIDER
        return frozenset({role})

    def stat_blob(self, caller: t.Caller, request: t.StatBlobRequest) -> t.BlobStatus:
        return self.blobs.status(request.blob, caller.address)

    def put_chunk(self, caller: t.Caller, request: t.PutChunkRequest) -> t.BlobStatus:
        return self.blobs.put(request.blob, request.offset, request.data, caller.address)

    def get_chunk(self, _caller: t.Caller, request: t.GetChunkRequest) -> t.Chunk:
        data = self.blobs.read(request.sha256, request.offset, request.length)
        return t.Chunk(data, self.blobs.size(request.sha256))


@contextmanager
def _validator(folder: Path) -> Iterator[Callable[[str], tuple[float, int, int | None]]]:
    """Run the validator's process, and yield a function that sends it a command and waits for the result.

    The result is the seconds, the growth of the process in bytes, and the growth of a process of its pool (None if none
    was used).
    """
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "validator", str(folder)]
    process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    commands, answers = process.stdin, process.stdout

    def ask(word: str) -> tuple[float, int, int | None]:
        commands.write(f"{word}\n")
        commands.flush()
        seconds, grown, of_pool = json.loads(answers.readline())
        return seconds, grown, of_pool

    with process:
        try:
            yield ask
        finally:
            process.terminate()


def _serve(folder: Path) -> None:
    blobs = BlobStore(folder / "validator", 2**40)
    certificate = make_certificate(folder / "tls")
    server = ClusterServer("127.0.0.1:0", certificate, cast(t.Handlers, _Shelf(blobs)), _CHAIN)
    server.start()
    (folder / "certificate").write_bytes(certificate.der)
    (folder / "endpoint").write_text(f"127.0.0.1:{server.port}")
    before = 0
    for line in sys.stdin:
        word, seconds, of_pool = line.strip(), 0.0, None
        if word == "begin":
            before = _begin()
        elif word == "seal":
            start = perf_counter()
            _seal(folder, blobs)
            seconds = perf_counter() - start
        elif word == "replay":
            seconds, of_pool = _replay(folder, blobs)
        print(json.dumps([seconds, memory("VmHWM") - before, of_pool]), flush=True)


def _seal(folder: Path, blobs: BlobStore) -> None:
    blob, _, _ = _about(folder)
    path = blobs.path(blob.sha256)

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from (file.read(length) for length in result_lengths(path))

    sealed = seal_into(blobs, _HANDOVER, chunks(), public_point(_ORDER_SECRET), _SECRET)
    leaves = (t.ResultLeaf(*pair) for pair in zip(sealed.leaves, sealed.state_leaves, strict=True))
    manifest = {
        "root": sealed.ciphertext_root.hex(),
        "sha256": sealed.blob.sha256.hex(),
        "size": sealed.blob.size,
        "leaves": [encode(leaf).hex() for leaf in leaves],
    }
    (folder / "manifest").write_text(json.dumps(manifest))


def _replay(folder: Path, blobs: BlobStore) -> _Grown:
    large = materialise(tuple(payload(folder, LARGE)), blobs, folder / "jobs")
    trained = folder / SMALL, folder / "fetched" / LARGE
    return replay_shares((folder / SMALL, large), trained)


# --- the consumer and the provider ---------------------------------------------------------------


def _begin() -> int:
    """Reset the peak memory of this process, and return its current memory in bytes."""
    reset_peak()
    return memory("VmRSS")


def _of_actor(actor: str, folder: Path) -> _Grown:
    command = [sys.executable, "-m", f"benchmarks.{NAME}", actor, str(folder)]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    seconds, grown = json.loads(done.stdout)
    return seconds, grown


def deliver(folder: Path, client: _Client) -> None:
    """Send the state to the validator, as a consumer sends a file of its payload."""
    with client(_CONSUMER) as link:
        link.put_blob(folder / "state")


def train(folder: Path, client: _Client) -> None:
    """Fetch the state from the validator, as a provider does before it trains."""
    blobs = BlobStore(folder / "provider", 2**40)
    with client(_PROVIDER) as link:
        link.fetch(_about(folder)[0], blobs)
    blobs.close()


def receive(folder: Path, client: _Client) -> None:
    """Fetch the sealed state as a consumer, open it, and write it as a model file."""
    manifest = json.loads((folder / "manifest").read_text())
    blob = t.BlobRef(bytes.fromhex(manifest["sha256"]), manifest["size"])
    leaves = [decode(t.ResultLeaf, bytes.fromhex(leaf)) for leaf in manifest["leaves"]]
    _, specs, root = _about(folder)
    expected = HandedOver(
        handover=_HANDOVER,
        layout=ChunkLayout(len(leaves), 1, 0),
        root=bytes.fromhex(manifest["root"]),
        entries=[(specs, root)],
        secret=_ORDER_SECRET,
        consumer=_CONSUMER.address,
    )
    unsealer = Unsealer(expected, leaves, folder)
    with client(_CONSUMER) as link:
        link.get_blob(blob, folder / "ciphertext", take=unsealer.take)
    (state,) = unsealer.states()
    write_result(state, folder / "model.safetensors")


def deliver_data(folder: Path, client: _Client) -> None:
    """Send all files of the job to the validator, as a consumer does."""
    with client(_CONSUMER) as link:
        for file in payload(folder, LARGE):
            link.put_blob(folder / LARGE / file.path)


def fetch_data(folder: Path, client: _Client) -> None:
    """Fetch all files of the job from the validator, as a provider does, and put them where a worker expects them."""
    blobs = BlobStore(folder / "provider", 2**40)
    with client(_PROVIDER) as link:
        for file in payload(folder, LARGE):
            link.fetch(file.blob, blobs)
            target = folder / "fetched" / LARGE / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            link_whole(blobs.path(file.blob.sha256), target)
    blobs.close()


def train_data(folder: Path, _client: _Client) -> _Grown:
    """Train a share of the job as a provider; return the seconds and the worker's additional memory (bytes)."""
    return train_shares((folder / SMALL, folder / "fetched" / LARGE), folder / "shares")


WAYS: Mapping[str, Way] = {
    "payload, consumer to validator": deliver,
    "payload, validator to provider": train,
    "result, sealed by the validator": "seal",
    "result, validator to consumer": receive,
}
"""The transfers of a state, in order."""
WAYS_OF_DATA: Mapping[str, Way] = {
    "data, consumer to validator": deliver_data,
    "data, validator to provider": fetch_data,
    "data, a share by the provider": train_data,
    "data, the share by the validator": "replay",
}


def main(arguments: Sequence[str]) -> None:
    """Run the validator, or do one transfer and print its seconds and this process's growth in bytes."""
    actor, folder = arguments[0], Path(arguments[1])
    if actor == "validator":
        _serve(folder)
        return
    certificate = (folder / "certificate").read_bytes()
    endpoint = (folder / "endpoint").read_text()
    ways = (*WAYS.values(), *WAYS_OF_DATA.values())
    way = {each.__name__: each for each in ways if not isinstance(each, str)}[actor]
    before, start = _begin(), perf_counter()
    other = way(folder, lambda key: ClusterClient(endpoint, certificate, key, _CHAIN))
    print(json.dumps(other or (perf_counter() - start, memory("VmHWM") - before)))


if __name__ == "__main__":
    main(sys.argv[1:])
