"""Fetching of results.

The encrypted chunks of a result are checked against the ciphertext root on the chain, and the decrypted states against
the roots that the chain has for the round.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from nacl.bindings import crypto_aead_chacha20poly1305_ietf_ABYTES as TAG_SIZE

from chain.client.client import ChainClient
from consumer.deliver import find_validator
from consumer.errors import ConsumerError
from consumer.jobs import check_ordered, save_result
from consumer.panels import describe_stop, stopped_round
from consumer.submit import recover_secret
from domain.legs.records import Leg, LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import Round
from domain.readable import Shown
from link.client import ClusterClient, connect
from link.errors import ClusterError, ClusterErrorKind
from link.handover import (
    HandoverError,
    HandoverId,
    ciphertext_root,
    open_chunk,
    split_ciphertext,
)
from link.types import BlobRef, ResultManifest
from pol.errors import StateError
from pol.job.checkpoint import Position, position_after
from pol.job.document import Job
from pol.state.arrays import State
from pol.state.layout import MAX_HEADER, chunk_count
from pol.state.stored import StoredState
from pol.values import TensorSpec
from wire.keys import Key

LATE_SECONDS = 5.0
"""Longest time that a validator may need to see a new block."""
PAUSE_SECONDS = 0.2
"""Pause between two requests to a validator that does not know the round yet."""
_CHUNK_MAX = MAX_HEADER + 4
StateEntry = tuple[Sequence[TensorSpec], bytes]
"""The tensors of a state at the end of a round, and the state's root."""


@dataclass(frozen=True, slots=True)
class Result(Shown):
    """The decrypted and checked states at the end of a hand-over round: the global state, and a local state per slot.

    The tensors stay on disk until they are used. Another job can continue from a result: ``JobSpec(resume=result)``.

    Example::

        result = order.result()
        print(result.round, result.root.hex())
        result.save("model.safetensors")
        assay.load_result(model, result)
    """

    state: State
    locals: tuple[State, ...]
    root: bytes
    leg: int
    round: int
    validator: str
    position: Position

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the rows that notebooks show."""
        return (
            ("round", self.round),
            ("leg", self.leg),
            ("tensors", len(self.state)),
            ("root", self.root),
            ("validator", self.validator),
        )

    def save(self, path: Path | str) -> bytes:
        """Write the same files as ``assay order result``, and return the SHA-256 of the model's file.

        The model's file has the global state as safetensors. Another job can continue from the folder beside it.
        """
        return save_result(self, Path(path))


def handed_over(answer: OrderResponse, round: int | None = None) -> tuple[Leg, Round]:
    """Return the order's current leg, and the record of a round whose states the leg handed over.

    ``round`` is the number of the round, by default the job's last one. Raise ConsumerError with the reason if that
    round has no result.
    """
    current = answer.current
    rounds = answer.order.terms.rounds
    wanted = rounds - 1 if round is None else round
    if not 0 <= wanted < rounds:
        raise ConsumerError(f"the job has no round {wanted}", f"choose one of 0 to {rounds - 1}")
    stop = stopped_round(answer)
    if stop is not None and (round is None or round >= stop.round):
        handovers = [r.round for r in answer.rounds_of(stop.leg) if r.ciphertext_root]
        remedy = (
            f"fetch the state after an earlier round: --round {handovers[-1]} (in Python: round={handovers[-1]})"
            if handovers
            else "there is no result: no earlier round handed its state over"
        )
        raise ConsumerError(describe_stop(answer), remedy)
    serving = (LegState.RUNNING, LegState.PROVEN, LegState.DONE)
    if current is not None and current.state in serving:
        record = answer.round(current.number, wanted)
        if record is not None and record.ciphertext_root:
            return current, record
        if record is not None:
            every = answer.order.params.handover_every
            raise ConsumerError(
                f"round {wanted} is not a hand-over round",
                f"choose a hand-over round: one in {every} rounds, and the last round",
            )
    if answer.order.state == OrderState.CLOSED:
        raise ConsumerError(
            "the order closed without a result", "see why with assay order why (in Python: order.why())"
        )
    raise ConsumerError("there is no result yet", "wait for it with assay order watch (in Python: order.wait())")


def _state_entries(job: Job, answer: OrderResponse, closed: Round) -> list[StateEntry]:
    """Return the tensors and the root of each state at a round's end: the global state, then the local ones by slot."""
    shares = (answer.share(key) for key in closed.share_keys)
    roots = (share.roots.local_out for share in shares if share is not None and share.roots)
    document = job.document
    return [
        (document.global_tensors, closed.next_root),
        *((document.local_tensors, root) for root in roots),
    ]


def fetch_result(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    job: Job,
    scratch: Path | str,
    progress: Callable[[int, int], None] | None = None,
    round: int | None = None,
) -> Result:
    """Fetch a result, decrypt its states, and check them against the chain.

    ``round`` is the hand-over round after which the states are fetched, by default the last round. The folder
    ``scratch`` keeps the fetched data, so that a second try continues where the first one stopped. Raise HandoverError
    with the chunk that is wrong, and ClusterError if the connection fails.

    Example::

        job = assay.read_job("my-job")
        result = assay.fetch_result(client, key, order_id, job, "results")
    """
    scratch = Path(scratch)
    answer = client.query(OrderRequest(order_id))
    leg, closed = handed_over(answer, round)
    check_ordered(job, answer.order)
    validator = find_validator(client, leg.validator)
    chain_id = client.status().chain_id
    secret = recover_secret(client, key, answer.order)
    terms = answer.order.terms
    count = terms.result_chunks
    with connect(validator, key, chain_id) as link:
        manifest = _manifest(link, order_id, closed.round, count)
        if (manifest.leg, manifest.round) != (leg.number, closed.round):
            raise HandoverError(-1, "the validator offers the result of another round or leg than the chain has")
        size = terms.result_bytes + count * TAG_SIZE
        if manifest.ciphertext.size != size:
            offered = manifest.ciphertext.size
            raise HandoverError(-1, f"its ciphertext has {offered} bytes instead of {size}")
        ciphertext = _fetch_blob(link, manifest.ciphertext, scratch, progress)
    parts = [(leaf.point, leaf.length) for leaf in manifest.leaves]
    handover = HandoverId(chain_id=chain_id, order_id=order_id, leg=leg.number, round=closed.round)
    with _on_disk(scratch):
        entries = _state_entries(job, answer, closed)
        roots = [root for _, root in entries[1:]]
        states = open_states(ciphertext, parts, handover, closed.ciphertext_root, secret, entries)
    return Result(
        state=states[0],
        locals=states[1:],
        root=closed.next_root,
        leg=leg.number,
        round=closed.round,
        validator=leg.validator,
        position=position_after(job, closed.round + 1, closed.next_root, roots),
    )


def _manifest(link: ClusterClient, order_id: bytes, round: int, count: int) -> ResultManifest:
    """Return the validator's manifest of a result.

    Ask again for up to ``LATE_SECONDS`` if the validator has not seen yet that the round is closed.
    """
    ends = time.monotonic() + LATE_SECONDS
    while True:
        try:
            return link.whole_result(order_id, round, count)
        except ClusterError as error:
            if error.kind is not ClusterErrorKind.WRONG_STATE or time.monotonic() > ends:
                raise
        time.sleep(PAUSE_SECONDS)


def open_states(
    ciphertext: Path,
    parts: Sequence[tuple[bytes, int]],
    handover: HandoverId,
    root: bytes,
    secret: bytes,
    entries: Sequence[StateEntry],
) -> tuple[State, ...]:
    """Decrypt a fetched result, and return its states, which stay in unnamed files in the folder of the ciphertext.

    ``parts`` has the point and the length of each chunk, and ``root`` is the root of the ciphertext. ``entries`` has
    the tensors and the root that each state must have. Raise HandoverError if a root differs, or if a chunk cannot be
    decrypted.
    """
    with ciphertext.open("rb") as file:
        if ciphertext_root(handover, split_ciphertext(file, parts, _CHUNK_MAX)) != root:
            raise HandoverError(-1, "its ciphertext does not have the root that is on the chain")
        file.seek(0)
        sealed = enumerate(split_ciphertext(file, parts, _CHUNK_MAX))
        chunks = (open_chunk(handover, index, chunk, secret) for index, chunk in sealed)
        return tuple(_read_state(number, each, chunks, ciphertext.parent) for number, each in enumerate(entries))


def _read_state(number: int, entry: StateEntry, chunks: Iterator[bytes], folder: Path) -> StoredState:
    """Read the next state from the chunks, and return it; raise HandoverError if its root is not that of ``entry``."""
    specs, root = entry
    # The file has no name, so no other program can open it, and the system deletes it after the state's last use.
    file = cast(BinaryIO, TemporaryFile(dir=folder))  # noqa: SIM115
    try:
        file.writelines(islice(chunks, chunk_count(specs)))
        file.flush()
    except BaseException:
        file.close()
        raise
    what = f"the local state of slot {number - 1}" if number else "the global state"
    try:
        state = StoredState(file, specs)
        actual_root = state.checked_root()
    except StateError as error:
        raise HandoverError(-1, f"it does not decrypt to a state: {what}: {error}") from None
    if actual_root != root:
        raise HandoverError(-1, f"it decrypts to a state with another root than the chain has: {what}")
    return state


def _fetch_blob(
    link: ClusterClient,
    blob: BlobRef,
    scratch: Path,
    progress: Callable[[int, int], None] | None,
) -> Path:
    """Fetch the bytes of a blob that the folder ``scratch`` lacks, and return the path of the blob's file there."""
    path = scratch / blob.sha256.hex()
    with _on_disk(scratch):
        # An earlier try may have fetched the whole file.
        if path.exists():
            with path.open("rb") as file:
                if file_digest(file, "sha256").digest() == blob.sha256:
                    return path
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.get_blob(blob, path, progress)
        return path


@contextmanager
def _on_disk(scratch: Path) -> Iterator[None]:
    """Turn an OSError of the block into a ConsumerError that names the folder ``scratch``."""
    try:
        yield
    except OSError as error:
        raise ConsumerError(
            f"the result cannot be written to {scratch} ({error.strerror})",
            "free some space or set write permission there, and try again",
        ) from None
