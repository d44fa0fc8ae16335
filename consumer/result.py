"""Fetching a result: each chunk is checked when it arrives, against the ciphertext root and the root of its state."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from chain.client.client import ChainClient
from consumer.deliver import find_validator
from consumer.errors import ConsumerError
from consumer.finders import find_result_seats
from consumer.jobs import check_ordered, save_result
from consumer.panels import describe_stop, stopped_round
from consumer.states import fetch_states, is_broken, state_path
from consumer.submit import recover_secret
from consumer.unsealing import HandedOver, StateEntry, Unsealer
from domain.legs.records import Leg, LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import Round
from domain.readable import Shown
from link.client import ClusterClient, connect
from link.errors import ClusterError, ClusterErrorKind
from link.handover import HandoverError
from link.types import BlobRef, ResultManifest
from pol.job.checkpoint import Position, position_after
from pol.job.document import Job
from pol.rules.handover import HandoverId, chunk_layout
from pol.state.arrays import State
from pol.state.stored import StoredState
from wire.keys import Key

LATE_SECONDS = 5.0
"""Longest time that a validator may need to see a new block."""
PAUSE_SECONDS = 0.2
"""Pause between two requests to a validator that does not know the round yet."""
_READ_BYTES = 1 << 20
SERVING = (LegState.RUNNING, LegState.PROVEN, LegState.DONE)
"""States of a leg in which its validator serves the leg's verified hand-over rounds."""


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
    # False if the job has more rounds than these states: its order stopped after the round.
    whole: bool = True

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

        The model's file has the global state as safetensors. Another job can continue from the folder beside that file.
        """
        return save_result(self, Path(path))


def handed_over(answer: OrderResponse, round: int | None = None) -> tuple[Leg, Round]:
    """Return the order's current leg, and the record of a round whose states the leg handed over.

    ``round`` is the number of the round; the default is the job's last round. Raise ConsumerError with the reason if
    that round has no result.
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
    if current is not None and (current.state in SERVING or current.is_taken(wanted)):
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


def check_served(leg: Leg, closed: Round) -> None:
    """Raise ConsumerError if a round is neither verified nor taken early, because no validator then serves its
    states.
    """
    if closed.verified or leg.is_taken(closed.round):
        return
    raise ConsumerError(
        f"round {closed.round} is closed, but not verified yet",
        "wait until it is verified (assay order watch), or take it early, which gives up its refund: --early"
        " (in Python: early=True)",
    )


def _state_entries(job: Job, answer: OrderResponse, closed: Round) -> list[StateEntry]:
    """Return the tensors and the root of each state at a round's end: the global state, then the local states."""
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

    ``round`` is the hand-over round after which the states are fetched, by default the last round. It must be verified,
    or the consumer must have taken it early (:func:`consumer.early.take_early`). The folder
    ``scratch`` keeps the fetched data, so that a second try continues where the first try stopped. Raise HandoverError
    if the data does not match the chain, and ClusterError if the connection fails. If the order's last leg failed, and
    no round is given, fetch the states of the last verified round.

    Example::

        job = assay.read_job("my-job")
        result = assay.fetch_result(client, key, order_id, job, "results")
    """
    scratch = Path(scratch)
    answer = client.query(OrderRequest(order_id))
    if round is None and is_broken(answer):
        return fetch_verified(client, key, answer, job, scratch, progress)
    leg, closed = handed_over(answer, round)
    check_served(leg, closed)
    check_ordered(job, answer.order)
    chain_id = client.status().chain_id
    secret = recover_secret(client, key, answer.order)
    layout = chunk_layout(answer.order.terms, len(closed.shares))
    handover = HandoverId(chain_id=chain_id, order_id=order_id, leg=leg.number, round=closed.round)
    entries = _state_entries(job, answer, closed)
    expected = HandedOver(
        handover=handover,
        layout=layout,
        root=closed.ciphertext_root,
        entries=entries,
        secret=secret,
        consumer=key.address,
    )
    # If the consumer said that it was not served, seats of a panel serve the result, too.
    names = (leg.validator, *find_result_seats(client.query, answer, closed.key))
    for name in names:
        try:
            with connect(find_validator(client, name), key, chain_id) as link:
                states = _unseal(link, expected, scratch, progress)
            break
        except (ClusterError, ConsumerError, HandoverError) as error:
            is_proven = isinstance(error, HandoverError) and error.complaint is not None
            if is_proven or name == names[-1]:
                raise
    roots = [root for _, root in entries[1:]]
    return Result(
        state=states[0],
        locals=states[1:],
        root=closed.next_root,
        leg=leg.number,
        round=closed.round,
        validator=leg.validator,
        position=position_after(job, closed.round + 1, closed.next_root, roots),
    )


def _unseal(
    link: ClusterClient, expected: HandedOver, scratch: Path, progress: Callable[[int, int], None] | None
) -> tuple[State, ...]:
    """Fetch and open a result from one validator."""
    handover = expected.handover
    manifest = _manifest(link, handover.order_id, handover.round, expected.layout.count)
    if (manifest.leg, manifest.round) != (handover.leg, handover.round):
        raise HandoverError(-1, "the validator offers the result of another round or leg than the chain has")
    unsealer = Unsealer(expected, manifest.leaves, scratch)
    if manifest.ciphertext.size != unsealer.size:
        offered = manifest.ciphertext.size
        raise HandoverError(-1, f"the ciphertext has {offered} bytes instead of {unsealer.size}")
    with _on_disk(scratch):
        try:
            _fetch_blob(link, manifest.ciphertext, scratch, unsealer.take, progress)
            return unsealer.states()
        except BaseException:
            unsealer.close()
            raise


def fetch_verified(
    client: ChainClient,
    key: Key,
    answer: OrderResponse,
    job: Job,
    scratch: Path,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Fetch the states of the last verified round of an order whose leg failed.

    The round may be no hand-over round. Its states come over the link without further encryption. Each state is checked
    against its root on the chain, but no complaint is possible about states that are wrong or do not arrive.
    """
    check_ordered(job, answer.order)
    folder = scratch / f"{answer.order.id.hex()}.states"
    with _on_disk(scratch):
        leg, closed = fetch_states(client, key, answer, folder, progress)
        entries = _state_entries(job, answer, closed)
        states = [StoredState(state_path(folder, root).open("rb"), specs) for specs, root in entries]
    roots = [root for _, root in entries[1:]]
    return Result(
        state=states[0],
        locals=tuple(states[1:]),
        root=closed.next_root,
        leg=leg.number,
        round=closed.round,
        validator=leg.validator,
        position=position_after(job, closed.round + 1, closed.next_root, roots),
        whole=closed.round + 1 == answer.order.terms.rounds,
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


def _fetch_blob(
    link: ClusterClient,
    blob: BlobRef,
    scratch: Path,
    take: Callable[[bytes], None],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Fetch the bytes of a blob that are missing in ``scratch``, and call ``take`` with all its bytes, in order."""
    path = scratch / blob.sha256.hex()
    # An earlier try may have fetched the whole file.
    if path.exists():
        with path.open("rb") as file:
            if file_digest(file, "sha256").digest() == blob.sha256:
                file.seek(0)
                while data := file.read(_READ_BYTES):
                    take(data)
                return
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    link.get_blob(blob, path, progress, take)


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
