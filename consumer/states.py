"""The states of an order's last verified round: fetching them from validators, and delivering them to the next one.

An order whose leg failed continues from these states. If the validators that have these states are gone, the consumer's
copy is the only one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path

from chain.client.client import ChainClient
from chain.client.errors import ChainError
from consumer.deliver import Progress, find_validator
from consumer.errors import ConsumerError
from consumer.trouble import RepeatedTrouble
from domain.keys import RoundKey
from domain.legs.messages import MsgAckState
from domain.legs.records import Leg, LegState
from domain.proof.queries import OrderResponse, SeatsRequest
from domain.proof.records import Round
from domain.readable import Readable
from link.client import connect
from link.errors import ClusterError
from link.types import GET_STATES, OFFER_STATES, BlobRef, StateRef, StatesOffer, StatesRequest
from pol.errors import StateError
from pol.rules.states import is_asking, panel_number
from pol.state.stored import file_root
from wire.keys import Key

PAUSES = 10
"""Length of the pause before newer states are copied, as a multiple of the time that the last copy took."""


def states_folder(home: Path, order_id: bytes) -> Path:
    """Return the folder in which a consumer keeps the states of an order's last verified round."""
    return home / "states" / order_id.hex()


def newest_verified(answer: OrderResponse) -> tuple[Leg, Round] | None:
    """Return the last verified round of an order, and the leg of this round; None if no round is verified, or if the
    job stopped.

    If the order went back, because later states are lost, it is the round to which it went back.
    """
    current = answer.current
    leg = answer.leg(current.verified_leg) if current is not None else None
    closed = answer.round(leg.number, answer.order.next_round - 1) if leg is not None else None
    return (leg, closed) if leg is not None and closed is not None and closed.next_root else None


def left_roots(answer: OrderResponse, closed: Round) -> tuple[bytes, ...]:
    """Return the roots of the states at the end of a round: first of the global state, then of the local state of each
    slot.
    """
    shares = (answer.share(key) for key in closed.share_keys)
    return (closed.next_root, *(s.roots.local_out for s in shares if s is not None and s.roots is not None))


def is_broken(answer: OrderResponse) -> bool:
    """Return whether the last leg of an order failed after some rounds of the order were verified."""
    current = answer.current
    return current is not None and answer.order.next_round > 0 and current.state is LegState.FAILED


def state_path(folder: Path, root: bytes) -> Path:
    """Return the file of a state in a folder of states."""
    return folder / f"{root.hex()}.state"


def fetch_states(
    client: ChainClient, key: Key, answer: OrderResponse, folder: Path, progress: Progress | None = None
) -> tuple[Leg, Round]:
    """Fetch the states of an order's last verified round into a folder, and delete those of earlier rounds there.

    Those of the last hand-over round that are complete stay, because the order may go back to them.

    Each state is checked against its root on the chain. States that are in the folder are not fetched again. Raise
    ConsumerError if no validator serves a state that is missing.
    """
    newest = newest_verified(answer)
    if newest is None:
        raise ConsumerError("the order has no verified round", "wait until a round is verified: assay order watch")
    leg, closed = newest
    roots = left_roots(answer, closed)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    missing = {root for root in roots if not state_path(folder, root).exists()}
    begun = (leg.number, closed.round + 1)
    later = (known.validator for known in answer.legs if (known.from_leg, known.first_round) == begun)
    problem = ""
    for name in dict.fromkeys((leg.validator, *later, *closed.mirrors)):
        if not missing:
            break
        try:
            _fetch_from(client, key, name, answer.order.id, leg.number, missing, folder, progress)
        except ClusterError as error:
            problem = f": {error}"
    if missing:
        raise ConsumerError(
            f"{len(missing)} of {len(set(roots))} states after round {closed.round} cannot be fetched{problem}",
            "try again; if no validator serves them, deny that they are served: assay order ack --denied"
            " (in Python: denied=True)",
        )
    kept = {root.hex() for root in (*roots, *_complete_before(answer, closed, folder))}
    for path in folder.glob("*.state"):
        if path.stem not in kept:
            path.unlink()
    return leg, closed


def _complete_before(answer: OrderResponse, closed: Round, folder: Path) -> tuple[bytes, ...]:
    """Return the roots of the states of the last verified hand-over round up to ``closed`` that are all in a folder."""
    handed_over = (each for each in answer.rounds if each.verified and each.ciphertext_root)
    for each in sorted(handed_over, key=lambda each: (each.round, each.leg), reverse=True):
        roots = left_roots(answer, each)
        if each.round <= closed.round and all(state_path(folder, root).exists() for root in roots):
            return roots
    return ()


def _fetch_from(
    client: ChainClient,
    key: Key,
    name: str,
    order_id: bytes,
    leg: int,
    missing: set[bytes],
    folder: Path,
    progress: Progress | None,
) -> None:
    """Fetch states from one validator, and remove the roots of those that arrived from ``missing``."""
    with connect(find_validator(client, name), key, client.status().chain_id) as link:
        for state in link.call(GET_STATES, StatesRequest(order_id, leg)).states:
            if state.root in missing:
                arrived = folder / f"{state.blob.sha256.hex()}.arrived"
                link.get_blob(state.blob, arrived, progress)
                if _root_of(arrived) == state.root:
                    arrived.replace(state_path(folder, state.root))
                    missing.discard(state.root)
                else:
                    arrived.unlink()


def _root_of(path: Path) -> bytes:
    try:
        return file_root(path)
    except StateError:
        return b""


def deliver_states(client: ChainClient, key: Key, answer: OrderResponse, folder: Path, to: str) -> int:
    """Send the states from which the order's current leg starts, as far as they are in a folder, to a validator: that
    of the leg, or a seat of a panel that tries to fetch them. Return the number of states sent.
    """
    leg = answer.current
    if leg is None or not leg.from_leg:
        return 0
    wanted = {leg.initial_root, *(start.local_root for start in answer.starts if start.leg == leg.number)}
    states: list[StateRef] = []
    for root in sorted(wanted):
        path = state_path(folder, root)
        if path.exists():
            with path.open("rb") as file:
                digest = file_digest(file, "sha256").digest()
                states.append(StateRef(root, BlobRef(digest, file.tell())))
    if not states:
        return 0
    with connect(find_validator(client, to), key, client.status().chain_id) as link:
        missing = link.call(OFFER_STATES, StatesOffer(answer.order.id, tuple(states))).missing
        for state in states:
            if state.blob in missing:
                link.put_blob(state_path(folder, state.root))
    return len(states)


def find_seats(client: ChainClient, answer: OrderResponse) -> tuple[str, ...]:
    """Return the validators with a seat in a panel that tries to fetch the states from which the current leg starts."""
    leg = answer.current
    if leg is None or not is_asking(leg):
        return ()
    key = RoundKey(answer.order.id, leg.from_leg, leg.first_round - 1).panel(panel_number(leg))
    if not any(panel.key == key and not panel.is_settled for panel in answer.panels):
        return ()
    return tuple(seat.validator for seat in client.query(SeatsRequest(*key)).seats)


def acknowledge(answer: OrderResponse, *, received: bool) -> MsgAckState:
    """Return the message that confirms or denies that the states of a failed leg were served.

    Raise ConsumerError if nothing waits for such a message.
    """
    waiting = [leg for leg in answer.legs if leg.part]
    if not waiting:
        raise ConsumerError(
            "no failed leg of this order waits for you to acknowledge its states",
            "see what the order waits for with assay order why",
        )
    return MsgAckState(
        consumer=answer.order.consumer, order_id=answer.order.id, leg=waiting[-1].number, received=received
    )


@dataclass
class Copies(Readable):
    """A consumer's copy of the states of an order's last verified round, and their delivery to the next validator."""

    client: ChainClient
    key: Key
    folder: Path
    note: Callable[[str], None] = lambda text: None
    now: Callable[[], float] = field(default=time.monotonic)
    # Leg and round of the states in the folder.
    _held: tuple[int, int] = (0, -1)
    _next: float = 0.0
    # The validators that have the states, each with the number of the leg that starts from them.
    _sent: set[tuple[int, str]] = field(default_factory=set)
    _trouble: RepeatedTrouble | None = None

    def step(self, answer: OrderResponse) -> None:
        """Fetch newer states, or deliver them to the validator of a matched leg; a failure is tried again later."""
        current = answer.current
        if current is None:
            return
        try:
            if current.state is LegState.MATCHED and current.from_leg:
                self._deliver(answer, current)
            else:
                self._fetch(answer, urgent=current.state is LegState.FAILED)
        except (ClusterError, ConsumerError, ChainError, OSError) as error:
            self._next = max(self._next, self.now() + 1.0)
            self._trouble = self._trouble or RepeatedTrouble(self.note)
            self._trouble.hear(f"copies of verified states: {error}; trying again")

    def _deliver(self, answer: OrderResponse, leg: Leg) -> None:
        """Send the states to the leg's validator, and to the seats of a panel that tries to fetch them: this validator
        may be one that denies to have got them.
        """
        problem: ClusterError | ConsumerError | None = None
        for name in (leg.validator, *find_seats(self.client, answer)):
            if (leg.number, name) in self._sent:
                continue
            # One that does not answer keeps no other from the states.
            try:
                sent = deliver_states(self.client, self.key, answer, self.folder, name)
            except (ClusterError, ConsumerError) as error:
                problem = error
                continue
            self._sent.add((leg.number, name))
            if sent:
                self.note(f"delivered {sent} states of round {leg.first_round - 1} to {name}")
        if problem is not None:
            raise problem

    def _fetch(self, answer: OrderResponse, *, urgent: bool) -> None:
        newest = newest_verified(answer)
        if newest is None or (newest[0].number, newest[1].round) == self._held:
            return
        began = self.now()
        # The order may go back to a hand-over round, so the consumer copies each of them.
        if began < self._next and not urgent and not newest[1].ciphertext_root:
            return
        fetch_states(self.client, self.key, answer, self.folder)
        self._held = newest[0].number, newest[1].round
        self._next = self.now() + PAUSES * (self.now() - began)
