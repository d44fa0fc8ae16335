"""Fetching a result: encrypted chunks against the ciphertext root, plaintext against the roots of the round."""

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
from consumer.panels import stopped_round, tell_stop
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

LATE_SECONDS, PAUSE_SECONDS = 5.0, 0.2
"""How long a validator may take to see what is on chain, and between two questions."""
_CHUNK_MAX = MAX_HEADER + 4
Left = tuple[Sequence[TensorSpec], bytes]
"""The tensors of a state that a round left, and its root."""


@dataclass(frozen=True, slots=True)
class Result(Shown):
    """What a hand-over round left, decrypted and checked: the global state, and the local one of each slot.

    Their tensors stay on disk, each until it is used. Another job goes on from there: ``JobSpec(resume=result)``.

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
        """Return what it is of, and how much."""
        return (
            ("round", self.round),
            ("leg", self.leg),
            ("tensors", len(self.state)),
            ("root", self.root),
            ("validator", self.validator),
        )

    def save(self, path: Path | str) -> bytes:
        """Write what ``assay order result`` writes, and return the SHA-256 of the file with the model.

        That is the global state as safetensors; beside it is the folder that another job goes on from.
        """
        return save_result(self, Path(path))


def handed_over(answer: OrderResponse, round: int | None = None) -> tuple[Leg, Round]:
    """Return the current leg and the round whose states it handed over: the last one, if none is named.

    ConsumerError where there is none (yet).
    """
    current, wanted = answer.current, answer.order.terms.rounds - 1 if round is None else round
    rounds = answer.order.terms.rounds
    if not 0 <= wanted < rounds:
        raise ConsumerError(f"the job has no round {wanted}", f"name one of 0 to {rounds - 1}")
    stop = stopped_round(answer)
    if stop is not None and (round is None or round >= stop.round):
        left = [r.round for r in answer.rounds_of(stop.leg) if r.ciphertext_root]
        remedy = f"fetch what a round before it left (--round {left[-1]}, or round={left[-1]})" if left else ""
        raise ConsumerError(tell_stop(answer), remedy or "no round before it handed anything over")
    lives = (LegState.RUNNING, LegState.PROVEN, LegState.DONE)
    if current is not None and current.state in lives:
        found = answer.round(current.number, wanted)
        if found is not None and found.ciphertext_root:
            return current, found
        if found is not None:
            every = answer.order.params.handover_every
            raise ConsumerError(f"round {wanted} hands nothing over", f"each {every}th round does, and the last")
    closed = answer.order.state == OrderState.CLOSED
    raise ConsumerError(
        "the order closed without a result" if closed else "there is no result yet",
        "see why (assay order why, or order.why())" if closed else "wait for it (assay order watch, or order.wait())",
    )


def _left(job: Job, answer: OrderResponse, closed: Round) -> list[Left]:
    """Return the states that a round left, by job and chain: the global one, and the local ones in slot order."""
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
    """Fetch what the last round left, or another hand-over round; check against the roots on chain, and decrypt.

    ``scratch`` keeps what was fetched, so that a second try goes on where the first stopped. HandoverError names the
    chunk that is not what was promised; ClusterError where the link fails.

    Example::

        job = assay.read_job("my-job")
        result = assay.fetch_result(client, key, order_id, job, "results")
    """
    scratch, answer = Path(scratch), client.query(OrderRequest(order_id))
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
            raise HandoverError(-1, "the validator offers another result than the chain has")
        size = terms.result_bytes + count * TAG_SIZE
        if manifest.ciphertext.size != size:
            offered = manifest.ciphertext.size
            raise HandoverError(-1, f"its ciphertext has {offered} bytes instead of {size}")
        ciphertext = _fetched(link, manifest.ciphertext, scratch, progress)
    parts = [(leaf.point, leaf.length) for leaf in manifest.leaves]
    handover = HandoverId(chain_id=chain_id, order_id=order_id, leg=leg.number, round=closed.round)
    with _on_disk(scratch):
        left = _left(job, answer, closed)
        roots = [root for _, root in left[1:]]
        states = open_states(ciphertext, parts, handover, closed.ciphertext_root, secret, left)
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
    """Return what the validator offers; it may see a moment later than others that its round is closed."""
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
    left: Sequence[Left],
) -> tuple[State, ...]:
    """Decrypt a fetched result into the states that were left, which lie beside it in files without a name.

    ``root`` is that of the ciphertext. HandoverError where a root is another one, or a chunk does not open.
    """
    with ciphertext.open("rb") as file:
        if ciphertext_root(handover, split_ciphertext(file, parts, _CHUNK_MAX)) != root:
            raise HandoverError(-1, "its ciphertext is not the one whose root is on chain")
        file.seek(0)
        sealed = enumerate(split_ciphertext(file, parts, _CHUNK_MAX))
        chunks = (open_chunk(handover, index, chunk, secret) for index, chunk in sealed)
        return tuple(_state(number, each, chunks, ciphertext.parent) for number, each in enumerate(left))


def _state(number: int, left: Left, chunks: Iterator[bytes], folder: Path) -> StoredState:
    """Return the state that the next chunks make."""
    specs, root = left
    # its name is gone at once, and its bytes with the last use of the state: nobody else reads them
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
        found = state.checked_root()
    except StateError as error:
        raise HandoverError(-1, f"it decrypts to no state: {what}: {error}") from None
    if found != root:
        raise HandoverError(-1, f"it decrypts to another state than was closed: {what}")
    return state


def _fetched(
    link: ClusterClient,
    blob: BlobRef,
    scratch: Path,
    progress: Callable[[int, int], None] | None,
) -> Path:
    """Return the file of a blob in ``scratch``, fetched as far as it is not there."""
    path = scratch / blob.sha256.hex()
    with _on_disk(scratch):
        # Of an earlier try that ended later on.
        if path.exists():
            with path.open("rb") as file:
                if file_digest(file, "sha256").digest() == blob.sha256:
                    return path
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.get_blob(blob, path, progress)
        return path


@contextmanager
def _on_disk(scratch: Path) -> Iterator[None]:
    """Name the folder whose disk cannot keep a result; ConsumerError."""
    try:
        yield
    except OSError as error:
        raise ConsumerError(
            f"{scratch} cannot keep the result ({error.strerror})", "see to its disk and try again"
        ) from None
