"""The encrypted delivery: what a provider writes is what its validator reads, and each wrong piece is found."""

from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from typing import Any

import pytest

from domain.hashing import merkle_root, verify_path
from domain.keys import ShareKey
from domain.proof.records import DeliveryManifest, ShareRoots, TraceLeaf
from link.delivery import DeliveryReader, WrongPiece, has_root, seal_contents, show_piece
from pol.rules.commitment import chunk_leaf, compute_trace_root
from pol.rules.delivery import (
    BoundaryEntry,
    PieceKind,
    delivered_boundaries,
    delivery_layout,
    is_well_formed,
    largest_delivery,
    piece_key,
    piece_leaf,
)
from tests.support.chain_market import digest, make_terms
from wire import cipher

KEY = b"k" * 32
SHARE = ShareKey(b"\x11" * 32, 1, 0, 0, 1)


class Made:
    """A delivery of a job with so many segments, and so many chunks in a global state."""

    def __init__(self, segments: int = 5, chunks: int = 3, every: int = 0, *, is_whole: bool = True) -> None:
        self.terms = make_terms(
            round_steps=segments * 2, segment_steps=2, global_chunks=chunks, local_chunks=2, slots=2
        )
        self.every, self.is_whole = every, is_whole
        first, second = self.state(chunks, "global"), self.state(2, "local")
        roots = [merkle_root([chunk_leaf(chunk) for chunk in state]) for state in (first, second)]
        self.entries = [BoundaryEntry(2 * i, roots[0], roots[1], (i,)) for i in range(1, segments + 1)]
        pairs = [state for _ in delivered_boundaries(segments, every) for state in (first, second)]
        self.states = [*([first, second] if is_whole else []), *pairs]
        stated = [TraceLeaf(i, entry.step, entry.boundary_root) for i, entry in enumerate(self.entries, 1)]
        ends = roots if is_whole else [b"", b""]
        self.roots = ShareRoots(compute_trace_root(stated), ends[0], ends[1], (segments,), segments)
        self.file = BytesIO()
        self.manifest = self.seal(self.file)

    def state(self, count: int, name: str) -> list[bytes]:
        return [digest(name, at) for at in range(count)]

    def seal(self, out: BytesIO) -> DeliveryManifest:
        states = [([chunk_leaf(chunk) for chunk in state], state[1:]) for state in self.states]
        return seal_contents(SHARE, KEY, self.entries, states, self.every, out, self.is_whole)

    def read(self, **roots: Any) -> tuple[tuple[BoundaryEntry, ...], list[list[bytes]]]:
        self.file.seek(0)
        layout = delivery_layout(self.terms, self.manifest)
        reader = DeliveryReader(layout, KEY, replace(self.roots, **roots), self.file)
        entries, states = reader.entries(), []
        for state in self.states:
            assert reader.header_leaf() == chunk_leaf(state[0])
            states.append([state[0], *reader.chunks()])
        return entries, states

    def has_root(self, **changes: Any) -> bool:
        self.file.seek(0)
        return has_root(SHARE, self.terms, replace(self.manifest, **changes), self.file)


@pytest.mark.parametrize(
    "made",
    [
        Made(),
        Made(segments=1, chunks=1),
        Made(segments=9, every=2),
        Made(segments=1_100, every=300),
        Made(chunks=1_500),
        Made(is_whole=False),
    ],
    ids=["small", "one", "boundaries", "pages of boundaries", "pages of chunks", "stopped"],
)
def test_what_is_sealed_is_what_is_read(made: Made) -> None:
    if made.is_whole:
        assert is_well_formed(made.terms, made.manifest)
    assert made.has_root()
    assert made.read() == (tuple(made.entries), made.states)
    assert len(made.file.getvalue()) <= largest_delivery(made.terms, made.every)


def test_a_file_with_a_piece_too_few_too_many_or_another_is_not_complete() -> None:
    made = Made()
    data = made.file.getvalue()
    for file in (data[:-1], data[:40], data + data[:40], data[:-1] + b"!", b""):
        made.file = BytesIO(file)
        assert not made.has_root()
    made.file = BytesIO(data)
    assert not made.has_root(update_chunks=4)
    assert not made.has_root(root=bytes(32))


def test_each_piece_that_is_another_is_found() -> None:
    made = Made(segments=9, every=2)
    layout = delivery_layout(made.terms, made.manifest)
    pieces = []
    made.file.seek(0)
    for number in range(layout.count):
        pieces.append(show_piece(SHARE, made.file, number).ciphertext)
        made.file.seek(0)
    for number in range(layout.count):
        for wrong in (b"noise" * 10, cipher.encrypt(piece_key(KEY, number), b"another content")):
            changed = [wrong if at == number else piece for at, piece in enumerate(pieces)]
            made.file = BytesIO(b"".join(len(piece).to_bytes(4, "big") + piece for piece in changed))
            with pytest.raises(WrongPiece) as found:
                made.read()
            assert found.value.number == number


def test_a_root_that_is_another_is_found_at_the_top_of_its_tree() -> None:
    made = Made()
    for name, number in (("trace_root", 0), ("update_root", 1), ("local_out", 4)):
        with pytest.raises(WrongPiece) as found:
            made.read(**{name: bytes(32)})
        assert found.value.number == number


def test_a_shown_piece_has_a_path() -> None:
    made = Made()
    layout = delivery_layout(made.terms, made.manifest)
    for number in range(layout.count):
        made.file.seek(0)
        shown = show_piece(SHARE, made.file, number)
        leaf = piece_leaf(SHARE, number, len(shown.ciphertext), sha256(shown.ciphertext).digest())
        assert verify_path(leaf, number, layout.count, shown.path, made.manifest.root)
    assert layout.locate(layout.count) is None
    kinds = [layout.locate(number) for number in range(3)]
    assert [piece.kind for piece in kinds if piece] == [PieceKind.ENTRIES, PieceKind.HASHES, PieceKind.CHUNK]


def test_a_manifest_fits_its_job() -> None:
    made = Made()
    cases: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, True),
        ({"segments": 4}, False),  # a whole share has all of its segments
        ({"segments": 4, "update_chunks": 0}, True),
        ({"segments": 6, "update_chunks": 0}, False),
        ({"segments": 0, "update_chunks": 0}, True),
        ({"every": 1}, True),
    )
    for changes, fits in cases:
        assert is_well_formed(made.terms, replace(made.manifest, **changes)) is fits
    many = Made(segments=40)
    assert not is_well_formed(many.terms, replace(many.manifest, every=1))
    assert is_well_formed(many.terms, replace(many.manifest, every=3))


def test_a_share_that_stops_at_once_has_one_empty_piece() -> None:
    made = Made(is_whole=False)
    made.entries, made.states = [], []
    made.file = BytesIO()
    made.manifest = made.seal(made.file)
    made.roots = replace(made.roots, trace_root=b"", segments=0)
    assert made.has_root()
    assert made.read() == ((), [])
