"""The decryption of a result while it arrives. Each chunk is checked before the next one, and it can be proven to the
chain if a chunk is wrong.

The validator sends two leaves for each chunk: the leaf of the chunk's ciphertext, and the leaf of the chunk itself in
the tree of its state. Both trees have roots on the chain, so all leaves are checked before any chunk arrives. If a
chunk does not decrypt to the content of its leaf, the validator is at fault, and the error has the message that proves
this fault to the chain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from domain.hashing import merkle_path, merkle_root
from domain.proof.messages import MsgComplain
from domain.proof.records import OpenedChunk
from link.errors import ClusterError, ClusterErrorKind
from link.handover import HandoverError, Sealed, ciphertext_root, open_chunk, prove_chunk
from link.types import ResultLeaf
from pol.errors import StateError
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import ChunkLayout, ChunkPlace, HandoverId, has_valid_length, sealed_leaf
from pol.state.arrays import State
from pol.state.layout import header_chunk
from pol.state.stored import StoredState
from pol.values import TensorSpec
from wire.vrf import is_point

StateEntry = tuple[Sequence[TensorSpec], bytes]
"""The tensors of a state at the end of a round, and the state's root."""
REMEDY = "prove it to the chain with assay order complain (in Python: order.complain())"


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The chain's data about a round's states, and the secret that opens them.

    ``entries`` are the states: the global one, and the local ones by slot. ``consumer`` is the address that complains.
    """

    handover: HandoverId
    layout: ChunkLayout
    root: bytes
    entries: Sequence[StateEntry]
    secret: bytes
    consumer: str

    def place(self, number: int) -> ChunkPlace:
        """Return the place of a chunk; IndexError if there is no such chunk."""
        place = self.layout.locate(number)
        if place is None:
            raise IndexError(f"the states have no chunk {number}")
        return place


class Unsealer:
    """The states of a result, which are opened as their ciphertext arrives, in unnamed files of one folder."""

    def __init__(self, expected: HandedOver, leaves: Sequence[ResultLeaf], folder: Path) -> None:
        """Check all leaves; HandoverError if they do not have the roots on chain, or if no chunk can have one."""
        self._expected = expected
        self._leaves = leaves
        self._folder = folder
        self._files: list[BinaryIO] = []
        self._number = 0
        self._rest = bytearray()
        if len(leaves) != expected.layout.count:
            raise HandoverError(-1, f"the result has {len(leaves)} chunks instead of {expected.layout.count}")
        self._check_roots()
        for number, leaf in enumerate(leaves):
            if not is_point(leaf.sealed.point):
                raise self._wrong(number, "has a point that is not on the curve")
            if not has_valid_length(expected.place(number), leaf.sealed.length):
                raise self._wrong(number, f"has {leaf.sealed.length} bytes, which is impossible for a chunk")

    def _check_roots(self) -> None:
        expected = self._expected
        if ciphertext_root(expected.handover, [leaf.sealed for leaf in self._leaves]) != expected.root:
            raise HandoverError(-1, "the leaves of the ciphertext do not have the root that is on the chain")
        for state, (_, root) in enumerate(expected.entries):
            if merkle_root(self._state_leaves(state)) != root:
                what = _name(state)
                raise HandoverError(-1, f"the leaves of {what} do not have the root that is on the chain")

    def _state_leaves(self, state: int) -> list[bytes]:
        first, end = (self._expected.layout.first_chunk(each) for each in (state, state + 1))
        return [leaf.state_leaf for leaf in islice(self._leaves, first, end)]

    @property
    def size(self) -> int:
        """Number of bytes of the whole ciphertext."""
        return sum(leaf.sealed.length for leaf in self._leaves)

    def take(self, data: bytes) -> None:
        """Open the chunks that are complete with the next bytes of the ciphertext.

        HandoverError with a complaint if a chunk is wrong; ClusterError if the bytes do not have the hash in the leaf.
        """
        self._rest += data
        done = 0
        while self._number < len(self._leaves):
            length = self._leaves[self._number].sealed.length
            if len(self._rest) - done < length:
                break
            try:
                self._write(self._number, bytes(self._rest[done : done + length]))
            except BaseException:
                self.close()
                raise
            self._number += 1
            done += length
        del self._rest[:done]

    def _write(self, number: int, ciphertext: bytes) -> None:
        if sha256(ciphertext).digest() != self._leaves[number].sealed.sha256:
            reason = f"the validator sent bytes of chunk {number} that do not have the hash that it had sent before"
            raise ClusterError(ClusterErrorKind.WRONG_CONTENT, reason, "try again")
        place = self._expected.place(number)
        if place.is_header:
            # An unnamed file, so that no other program can read it. Its bytes are deleted with the state's last use.
            self._files.append(cast(BinaryIO, TemporaryFile(dir=self._folder)))  # noqa: SIM115
            # The job says what a header is, so the consumer does not need that of the validator.
            specs, _ = self._expected.entries[place.state]
            self._files[-1].write(header_chunk(specs))
        else:
            self._files[-1].write(self._open(number, ciphertext))

    def _open(self, number: int, ciphertext: bytes) -> bytes:
        expected, leaf = self._expected, self._leaves[number]
        try:
            chunk = open_chunk(expected.handover, number, Sealed(leaf.sealed.point, ciphertext), expected.secret)
        except HandoverError as error:
            raise self._wrong(number, error.reason, ciphertext) from None
        if chunk_leaf(chunk) != leaf.state_leaf:
            raise self._wrong(number, "does not decrypt to the chunk that the state has there", ciphertext)
        return chunk

    def _wrong(self, number: int, reason: str, ciphertext: bytes | None = None) -> HandoverError:
        """Return the error about a wrong chunk, with the message that proves it."""
        expected, leaf = self._expected, self._leaves[number]
        opened = None
        if ciphertext is not None:
            place = expected.place(number)
            shared, proof = prove_chunk(expected.handover, number, leaf.sealed, expected.secret, token_bytes(32))
            path = merkle_path(self._state_leaves(place.state), place.index)
            opened = OpenedChunk(
                ciphertext=ciphertext, shared=shared, proof=proof, state_leaf=leaf.state_leaf, path=path
            )
        leaves = [sealed_leaf(expected.handover, at, each.sealed) for at, each in enumerate(self._leaves)]
        complaint = MsgComplain(
            consumer=expected.consumer,
            order_id=expected.handover.order_id,
            leg=expected.handover.leg,
            round=expected.handover.round,
            chunk=number,
            leaf=leaf.sealed,
            path=merkle_path(leaves, number),
            opened=opened,
        )
        return HandoverError(number, reason, REMEDY, complaint)

    def states(self) -> tuple[State, ...]:
        """Return the opened states; HandoverError if chunks are missing, or if a state is not canonical."""
        if self._number < len(self._leaves) or self._rest:
            raise HandoverError(-1, f"the ciphertext's size is not {self.size} bytes, the size of all chunks together")
        return tuple(self._read_states())

    def _read_states(self) -> Iterator[StoredState]:
        for state, (file, (specs, _)) in enumerate(zip(self._files, self._expected.entries, strict=True)):
            file.flush()
            try:
                stored = StoredState(file, specs)
                stored.checked_root()  # the chunks have the root already, but their values may not be those of a state
            except StateError as error:
                raise HandoverError(-1, f"it does not decrypt to a state: {_name(state)}: {error}") from None
            yield stored

    def close(self) -> None:
        """Delete what was opened; only for a result that is not used."""
        for file in self._files:
            file.close()


def _name(state: int) -> str:
    return f"the local state of slot {state - 1}" if state else "the global state"
