"""The encrypted delivery of a share, from files to a file and back (:mod:`pol.rules.delivery`).

The file has all pieces in order. Each piece has its length in four bytes before it. A provider writes the file before
its commitment is on chain, and shows the key only when the commitment is there and the validator has signed a receipt.
"""

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from domain.errors import Expected
from domain.hashing import encode_fields, merkle_path, merkle_root, u32
from domain.keys import ShareKey
from domain.market.records import JobTerms
from domain.proof.records import DeliveryManifest, ShareClaim, ShareRoots, ShownPiece, TraceLeaf
from pol.rules.commitment import chunk_leaf, leaf_hash
from pol.rules.delivery import (
    ENTRIES_PER_PIECE,
    HASHES_PER_PIECE,
    PIECE_BYTES_MAX,
    BoundaryEntry,
    DeliveryLayout,
    Piece,
    PieceKind,
    PieceRun,
    decode_entries,
    decode_hashes,
    delivery_key_hash,
    delivery_layout,
    encode_entry,
    hash_of_piece,
    piece_key,
    piece_leaf,
    wanted_hash,
)
from pol.state.layout import MAX_HEADER, chunk_lengths
from wire import cipher

_LENGTH_BYTES = 4


class BadDelivery(Expected):
    """A ciphertext that is not the one of its manifest."""


class WrongPiece(Exception):
    """The error that piece ``number`` does not decrypt, or does not have the hash that its parent or a root has."""

    def __init__(self, number: int) -> None:
        """Keep the number of the piece."""
        super().__init__(f"piece {number} is wrong")
        self.number = number


def derive_delivery_key(secret: bytes, claim: ShareClaim) -> bytes:
    """Return the key of a provider's delivery (32 bytes). It follows from the account's secret and the commitment.

    So a restarted daemon encrypts to the same bytes.
    """
    numbers = (claim.leg, claim.round, claim.slot, claim.issue)
    fields = (claim.order_id, *(u32(number) for number in numbers), claim.commitment)
    return hmac.new(secret, encode_fields("assay/delivery/secret", *fields), sha256).digest()


# The provider

StateChunks = tuple[Sequence[bytes], Iterable[bytes]]
"""The leaves of a state's tree, with that of the header, and the chunks after the header."""


@dataclass(frozen=True, slots=True)
class DeliveredFiles:
    """The content of a delivery: all boundaries 1 to n of the trace, and the files of the states.

    ``update`` and ``local_out`` are None if the share ends where the job stopped. ``boundary_states`` has the files of
    the global and the local state at each delivered boundary.
    """

    entries: Sequence[BoundaryEntry]
    update: Path | None
    local_out: Path | None
    boundary_states: Sequence[tuple[Path, Path]]

    @property
    def is_whole(self) -> bool:
        """True if the share ends with an update."""
        return self.update is not None

    @property
    def states(self) -> list[Path]:
        """The files of all states, in the order of the delivery."""
        ends = [path for path in (self.update, self.local_out) if path is not None]
        return [*ends, *(path for pair in self.boundary_states for path in pair)]


def seal_delivery(share: ShareKey, key: bytes, files: DeliveredFiles, every: int, to: Path) -> DeliveryManifest:
    """Encrypt a delivery into the file ``to``, and return its manifest; OSError if a file cannot be read or written."""
    with to.open("wb") as out:
        return seal_contents(share, key, files.entries, map(_read_state, files.states), every, out, files.is_whole)


def seal_contents(
    share: ShareKey,
    key: bytes,
    entries: Sequence[BoundaryEntry],
    states: Iterable[StateChunks],
    every: int,
    out: BinaryIO,
    is_whole: bool,
) -> DeliveryManifest:
    """Encrypt a delivery with these boundaries and states, and return its manifest.

    If ``is_whole``, the first state is the update.
    """
    counts: list[int] = []
    leaves: list[bytes] = []
    for number, content in enumerate(_contents(entries, states, counts)):
        ciphertext = cipher.encrypt(piece_key(key, number), content)
        leaves.append(piece_leaf(share, number, len(ciphertext), sha256(ciphertext).digest()))
        out.write(len(ciphertext).to_bytes(_LENGTH_BYTES, "big"))
        out.write(ciphertext)
    return DeliveryManifest(
        root=merkle_root(leaves),
        key_hash=delivery_key_hash(key),
        segments=len(entries),
        update_chunks=counts[0] if is_whole else 0,
        every=every,
    )


def _contents(entries: Sequence[BoundaryEntry], states: Iterable[StateChunks], counts: list[int]) -> Iterator[bytes]:
    """Yield the contents of all pieces in order; add the number of each state's chunks to ``counts``."""
    if len(entries) > ENTRIES_PER_PIECE:
        hashes = [leaf_hash(TraceLeaf(i, entry.step, entry.boundary_root)) for i, entry in enumerate(entries, 1)]
        yield from _nodes(_roots(hashes, ENTRIES_PER_PIECE))
    yield from _pages([encode_entry(entry) for entry in entries], ENTRIES_PER_PIECE)
    for leaves, chunks in states:
        counts.append(len(leaves))
        yield from _nodes(leaves)
        yield from chunks


def _read_state(path: Path) -> StateChunks:
    """Return the leaves of a state in a file, and its chunks after the header."""
    with path.open("rb") as file:
        lengths = _lengths(file, path.stat().st_size)
        leaves = [chunk_leaf(file.read(length)) for length in lengths]
    return leaves, _read_chunks(path, lengths)


def _read_chunks(path: Path, lengths: Sequence[int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(lengths[0])
        for length in lengths[1:]:
            yield file.read(length)


def _pages(items: Sequence[bytes], block: int) -> list[bytes]:
    return [b"".join(items[at : at + block]) for at in range(0, len(items), block)] or [b""]


def _roots(hashes: Sequence[bytes], block: int) -> list[bytes]:
    return [merkle_root(hashes[at : at + block]) for at in range(0, len(hashes), block)]


def _nodes(hashes: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the pieces with the nodes of a tree, from the piece below its root down to its leaves."""
    if len(hashes) > HASHES_PER_PIECE:
        yield from _nodes(_roots(hashes, HASHES_PER_PIECE))
    yield from _pages(hashes, HASHES_PER_PIECE)


def _lengths(file: BinaryIO, size: int) -> list[int]:
    """Return the lengths of the chunks of a state in a file, and leave the file at its beginning."""
    lengths = chunk_lengths(file.read(MAX_HEADER + 4), size)
    file.seek(0)
    return lengths


# The validator


def read_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the encrypted pieces in a file; BadDelivery if it does not have whole pieces of a possible length."""
    while start := file.read(_LENGTH_BYTES):
        length = int.from_bytes(start, "big")
        ciphertext = file.read(length) if length <= PIECE_BYTES_MAX else b""
        if len(start) != _LENGTH_BYTES or len(ciphertext) != length:
            raise BadDelivery("the delivery is not a file of whole pieces", "send the file that was encrypted")
        yield ciphertext


def _leaves(share: ShareKey, file: BinaryIO, most: int) -> list[bytes]:
    """Return the leaves of the first ``most`` pieces in a file."""
    pieces = enumerate(islice(read_pieces(file), most))
    return [piece_leaf(share, at, len(piece), sha256(piece).digest()) for at, piece in pieces]


def has_root(share: ShareKey, terms: JobTerms, manifest: DeliveryManifest, file: BinaryIO) -> bool:
    """Return whether a file is the complete ciphertext of a well-formed manifest."""
    count = delivery_layout(terms, manifest).count
    try:
        leaves = _leaves(share, file, count + 1)
    except BadDelivery:
        return False
    return len(leaves) == count and merkle_root(leaves) == manifest.root


def show_piece(share: ShareKey, file: BinaryIO, number: int) -> ShownPiece:
    """Return a piece of a complete ciphertext with its path, for the chain."""
    pieces = list(enumerate(read_pieces(file)))
    leaves = [piece_leaf(share, at, len(piece), sha256(piece).digest()) for at, piece in pieces]
    return ShownPiece(number, pieces[number][1], merkle_path(leaves, number))


class DeliveryReader:
    """The decryption of a complete ciphertext, piece by piece. Its methods raise WrongPiece if a piece is wrong."""

    def __init__(self, layout: DeliveryLayout, key: bytes, roots: ShareRoots, file: BinaryIO) -> None:
        """Read from the beginning of ``file``."""
        self._layout = layout
        self._key = key
        self._roots = roots
        self._pieces = enumerate(read_pieces(file))
        self._nodes: dict[int, tuple[Piece, bytes]] = {}
        self._at = 0

    def entries(self) -> tuple[BoundaryEntry, ...]:
        """Return all boundaries of the trace; call it first."""
        found: list[BoundaryEntry] = []
        is_over = False
        while not is_over:
            is_over = self._run.kind is PieceKind.ENTRIES
            for piece, content in self._read_run():
                if is_over:
                    found += decode_entries(content, piece.items) or ()
        return tuple(found)

    def header_leaf(self) -> bytes:
        """Read the nodes of the next state's tree, and return the hash that the tree has for the state's header."""
        leaf = b""
        while self._run.kind is PieceKind.HASHES:
            pieces = list(self._read_run())
            first, content = pieces[0]
            leaf = (decode_hashes(content, first.items) or (b"",))[0]
        return leaf

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks after the header of the state whose nodes were read last."""
        return (content for _, content in self._read_run())

    @property
    def _run(self) -> PieceRun:
        """The run that comes next."""
        return self._layout.runs[self._at]

    def _read_run(self) -> Iterator[tuple[Piece, bytes]]:
        run = self._run
        self._at += 1
        for _ in range(run.count):
            yield self._next()

    def _next(self) -> tuple[Piece, bytes]:
        number, ciphertext = next(self._pieces)
        piece = self._layout.locate(number)
        content = cipher.decrypt(piece_key(self._key, number), ciphertext)
        if piece is None or content is None:
            raise WrongPiece(number)
        parent, above = self._nodes.get(piece.parent, (None, b""))
        found = hash_of_piece(piece, content)
        if found is None or found != wanted_hash(piece, self._roots, parent, above):
            raise WrongPiece(number)
        if piece.kind is not PieceKind.CHUNK:
            self._nodes[number] = piece, content
        return piece, content
