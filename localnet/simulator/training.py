"""Training that is a hash: a state is a digest, and so every root that the numerics would compute has its like here.

What follows depends on the job, what was opened, the slot and the step alone, as the real thing does.
"""

from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256

from domain.legs.reasons import LegEnd
from domain.market.records import JobTerms
from link.handover import Sealed, public_point
from link.types import BlobRef, PayloadFile, StateRef
from localnet.simulator.memory_chain import digest
from pol.rules.commitment import boundary_root, chunk_leaf
from pol.rules.schedule import batch_number, first_step, share_segments

ORDER_SECRET = b"\x07" * 32
"""The secret of the key of every order, with which its consumer decrypts what is handed over."""
ORDER_KEY = public_point(ORDER_SECRET)
METRICS = (0x3F800000,)
NAN = (0x7FC00000,)
States = tuple[bytes, bytes]


@dataclass(frozen=True)
class Job:
    """A job: its terms, and the round in which it stops (None: never)."""

    terms: JobTerms
    breaks_in: int | None = None
    decline: LegEnd | None = None  # why a trial of it fails

    def breaks(self, round: int) -> bool:
        """Return whether a round has no next state."""
        return self.breaks_in is not None and round >= self.breaks_in

    def stop(self, round: int, slot: int) -> int | None:
        """Return the segment of a share that has no result, behind the last one for its update; None if it is whole.

        Where all shares of the round are whole it is the aggregation that has none.
        """
        if not self.breaks(round):
            return None
        segments = share_segments(self.terms)
        at = digest("stop", self.terms.job_id, slot)[0] % (segments + 2)
        return at if at <= segments else None

    def stop_step(self, round: int, slot: int) -> int:
        """Return the number of steps of the segment in which a share stops that it does before the stop."""
        stop = self.stop(round, slot)
        inside = stop is not None and stop < share_segments(self.terms)
        return digest("step", self.terms.job_id, slot)[0] % self.terms.segment_steps if inside else 0

    def step_at(self, round: int, segment: int) -> int:
        """Return the inner step at which a segment begins."""
        return first_step(self.terms, round) + segment * self.terms.segment_steps

    def train(self, states: States, round: int, slot: int, segment: int) -> States:
        """Return the states after a segment; its first batch stands for all that it takes."""
        batch = batch_number(self.terms.slots, self.step_at(round, segment), slot)
        job = self.terms.job_id
        return digest("global", job, states, batch), digest("local", job, states, batch)

    @cache  # noqa: B019 -- jobs are few, and are asked for each of their rounds
    def result_roots(self) -> list[bytes]:
        """Return the state that each round ends in, as the job alone gives it: one slot after the other.

        There is none behind the round in which it stops.
        """
        return [opening for opening, _ in self.left()]

    def left(self, first_slot: int = 0, slots: int | None = None) -> list[tuple[bytes, tuple[bytes, ...]]]:
        """Return the states that each round leaves: the global one, and the local ones of slots.

        Where only some of the slots are trained, their updates alone make the next state.
        """
        terms = self.terms
        opening, after = terms.global_root, []
        served = range(first_slot, first_slot + (terms.slots if slots is None else slots))
        locals_ = dict.fromkeys(served, terms.local_root)
        for round in range(terms.rounds):
            if self.breaks(round):
                break
            updates = []
            for slot in served:
                states = opening, locals_[slot]
                for segment in range(share_segments(terms)):
                    states = self.train(states, round, slot, segment)
                updates.append(update_of(opening, states[0]))
                locals_[slot] = states[1]
            opening = next_state(opening, updates)
            after.append((opening, tuple(locals_.values())))
        return after

    # Bytes: a blob is called as the state that it holds

    def blob(self, root: bytes) -> BlobRef:
        return BlobRef(root, self.terms.global_bytes)

    def update_blob(self, root: bytes) -> BlobRef:
        return BlobRef(root, self.terms.update_bytes)

    def local_blob(self, root: bytes) -> BlobRef:
        return BlobRef(root, self.terms.local_bytes)

    def state(self, root: bytes) -> StateRef:
        return StateRef(root, self.blob(root))

    def files(self) -> tuple[PayloadFile, ...]:
        """Return the files that a consumer delivers."""
        terms = self.terms
        rest = terms.payload_bytes - terms.global_bytes - terms.local_bytes
        return (
            PayloadFile("job.json", BlobRef(terms.job_id, rest)),
            PayloadFile("global.state", self.blob(terms.global_root)),
            PayloadFile("local.state", self.local_blob(terms.local_root)),
            PayloadFile("data/0", BlobRef(terms.data_root, terms.data_bytes)),
        )


def root_of(states: States, metrics: tuple[int, ...] = METRICS) -> bytes:
    """Return the root of a boundary."""
    return boundary_root(*states, metrics)


def update_of(opening: bytes, closing: bytes) -> bytes:
    """Return the root of a slot's update."""
    return digest("update", opening, closing)


LOCAL_CHUNK = b"local"
"""Every chunk of a local state that is handed over."""


def next_content(opening: bytes, updates: list[bytes]) -> bytes:
    """Return the only chunk of the state that a round leaves."""
    return digest("next", opening, updates)


def next_state(opening: bytes, updates: list[bytes]) -> bytes:
    """Return the root of the state that a round leaves."""
    return chunk_leaf(next_content(opening, updates))


def noise(sealed: Sealed) -> Sealed:
    """Return a chunk of the same length that holds nothing."""
    return replace(sealed, ciphertext=(sha256(sealed.ciphertext).digest() * 3)[: len(sealed.ciphertext)])
