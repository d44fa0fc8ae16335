"""Fetching a result: encrypted chunks against the ciphertext root, plaintext against the verified root."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nacl.bindings import crypto_aead_chacha20poly1305_ietf_ABYTES as TAG_SIZE

from chain.client.client import ChainClient
from consumer.deliver import find_validator
from consumer.errors import ConsumerError
from consumer.jobs import check_ordered
from consumer.submit import recover_secret
from domain.queries import OrderRequest, OrderResponse
from domain.records import Assignment, AssignmentState, OrderState
from link.client import ClusterClient, connect
from link.handover import (
    HandoverError,
    HandoverId,
    ciphertext_root,
    open_chunk,
    split_ciphertext,
)
from link.types import BlobRef
from pol.job.document import Job
from pol.state.arrays import State
from pol.state.canonical import decode_state, state_tree
from pol.state.layout import MAX_HEADER, encoded_size
from wire.keys import Key


@dataclass(frozen=True, slots=True)
class Result:
    """A decrypted and checked result."""

    state: State
    root: bytes
    attempt: int
    validator: str


def proven_assignment(answer: OrderResponse) -> Assignment:
    """Return the attempt whose proof is on chain; ConsumerError where there is none (yet)."""
    states = (AssignmentState.PROVEN, AssignmentState.DONE)
    proven = [a for a in answer.assignments if a.state in states and a.ciphertext_root]
    if proven:
        return proven[-1]
    closed = answer.order.state == OrderState.CLOSED
    raise ConsumerError(
        "the order closed without a result" if closed else "there is no result yet",
        "see why: assay order why" if closed else "wait for it: assay order watch",
    )


def fetch_result(
    client: ChainClient,
    key: Key,
    order_id: bytes,
    job: Job,
    scratch: Path,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Fetch, check against both roots on chain, and decrypt.

    ``scratch`` keeps what was fetched, so that a second try goes on where the first stopped. HandoverError names the
    chunk that is not what was promised; ClusterError where the link fails.
    """
    answer = client.query(OrderRequest(order_id))
    proof = proven_assignment(answer)
    check_ordered(job, answer.order)
    validator = find_validator(client, proof.validator)
    chain_id = client.status().chain_id
    secret = recover_secret(client, key, answer.order)
    count = answer.order.terms.result_chunks
    with connect(validator, key, chain_id) as link:
        manifest = link.whole_result(order_id, count)
        if manifest.attempt != proof.attempt:
            raise HandoverError(-1, "the validator offers another result than the chain has")
        size = encoded_size(job.document.global_tensors) + count * TAG_SIZE
        if manifest.ciphertext.size != size:
            offered = manifest.ciphertext.size
            raise HandoverError(-1, f"its ciphertext has {offered} bytes instead of {size}")
        data = _fetched(link, manifest.ciphertext, scratch, progress)
    parts = [(leaf.point, leaf.length) for leaf in manifest.leaves]
    sealed = split_ciphertext(data, parts, MAX_HEADER + 4)
    handover = HandoverId(chain_id, order_id, proof.attempt)
    if ciphertext_root(handover, sealed) != proof.ciphertext_root:
        raise HandoverError(-1, "its ciphertext is not what the proof of execution names")
    chunks = [open_chunk(handover, i, chunk, secret) for i, chunk in enumerate(sealed)]
    state = decode_state(b"".join(chunks), job.document.global_tensors)
    root = state_tree(state).root
    if root != proof.final_root:
        raise HandoverError(-1, "it decrypts to another state than the one that was verified")
    return Result(state, root, proof.attempt, proof.validator)


def _fetched(
    link: ClusterClient,
    blob: BlobRef,
    scratch: Path,
    progress: Callable[[int, int], None] | None,
) -> bytes:
    """Return a blob, from ``scratch`` as far as it is there; ConsumerError where it cannot be kept there."""
    path = scratch / blob.sha256.hex()
    try:
        # Of an earlier try that ended later on.
        if path.exists():
            data = path.read_bytes()
            if sha256(data).digest() == blob.sha256:
                return data
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.get_blob(blob, path, progress)
        return path.read_bytes()
    except OSError as error:
        raise ConsumerError(
            f"{scratch} cannot keep the result ({error.strerror})", "see to its disk and try again"
        ) from None
