"""The encrypted delivery of a share: its pieces, their places in trees, their keys, and what its parties sign.

A provider delivers the content of its commitment C in pieces. Each piece is encrypted under a key of its own, which
follows from one key of the delivery and the number of the piece. The pieces are, for each root in C, the nodes of that
root's tree from the root down, and then the chunks of the state. So each piece has one hash that it must have: a root
in C, or a hash in another piece, its parent. A piece that does not decrypt, or has another hash, proves that the
delivery is not what C promises.

The tree of a state has one leaf per canonical chunk. The first chunk is the header. It is not delivered, because anyone
who has the job can compute it. The tree of the trace has one leaf per boundary 1 to n. Instead of these leaves, the
delivery has an entry per boundary: its step, the roots of its two states, and its metrics. The states at boundary n
and at every ``every``-th boundary are delivered too, after the update and the final local state.
"""

from dataclasses import dataclass
from enum import IntEnum

from domain.amount import ceil_div
from domain.hashing import HASH_SIZE, encode_fields, hash_fields, merkle_leaf, merkle_root, u32, u64
from domain.keys import ShareKey
from domain.limits import CHUNK_TAG_BYTES, DELIVERED_BOUNDARIES_MAX, METRICS_MAX, STATE_CHUNK_BYTES
from domain.market.records import JobTerms
from domain.proof.records import DeliveryManifest, ShareClaim, ShareRoots, TraceLeaf
from pol.rules.commitment import boundary_root, chunk_leaf, leaf_hash
from pol.rules.schedule import share_segments

HASHES_PER_PIECE = 1_024
"""Hashes of one level of a tree in a piece. It is a power of two, so that the hashes of a piece are one subtree."""
ENTRIES_PER_PIECE = 512
"""Boundaries in a piece. It is a power of two as well."""
PIECE_BYTES_MAX = STATE_CHUNK_BYTES + CHUNK_TAG_BYTES
"""Most bytes of an encrypted piece."""
_CHUNK_OVERHEAD = HASH_SIZE + CHUNK_TAG_BYTES + 5
_NODE_OVERHEAD = 4_096
_ENTRY_START = 8 + 2 * HASH_SIZE + 1  # step, both roots, number of metrics


class PieceKind(IntEnum):
    """The content of a piece."""

    HASHES = 1  # hashes of one level of a tree
    ENTRIES = 2  # boundaries of the trace
    CHUNK = 3  # one chunk of a state


class PieceSource(IntEnum):
    """The place that has the hash of a piece."""

    TRACE_ROOT = 1
    UPDATE_ROOT = 2
    LOCAL_ROOT = 3
    PARENT = 4  # a hash in the parent
    GLOBAL_STATE = 5  # the global root in an entry of the parent
    LOCAL_STATE = 6  # the local root in an entry of the parent


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece: its content, the number of its ``items``, and the place that has its hash.

    ``first`` is the number of the first item in its level of the tree. ``at`` is the number of the hash or entry in the
    piece ``parent``, which is -1 if a root in C is the hash.
    """

    kind: PieceKind
    items: int
    first: int
    source: PieceSource
    parent: int
    at: int


@dataclass(frozen=True, slots=True)
class PieceRun:
    """The pieces of one level of a tree: ``count`` pieces, from number ``first`` on.

    All pieces together have ``items`` items, ``block`` in each piece but the last. Piece j of the run has its hash at
    item j + ``skipped`` of the run above, whose pieces begin at ``above`` and have ``above_block`` items. The top of a
    tree has only one piece; its ``source``, ``above`` and ``at`` say where the tree's root is.
    """

    first: int
    count: int
    kind: PieceKind
    items: int
    block: int
    source: PieceSource
    above: int
    above_block: int = 0
    at: int = 0
    skipped: int = 0

    def piece(self, number: int) -> Piece:
        """Return the piece ``number`` of the delivery, which is in this run."""
        index = number - self.first
        items = min(self.block, self.items - index * self.block)
        if not self.above_block:
            return Piece(
                kind=self.kind, items=items, first=index * self.block, source=self.source, parent=self.above, at=self.at
            )
        place = index + self.skipped
        parent = self.above + place // self.above_block
        return Piece(
            kind=self.kind,
            items=items,
            first=index * self.block,
            source=self.source,
            parent=parent,
            at=place % self.above_block,
        )


@dataclass(frozen=True, slots=True)
class DeliveryLayout:
    """The pieces of a delivery, in runs, and the ``boundaries`` whose states are delivered.

    ``states`` has the runs of each delivered state: of the update and the final local state, if the share is whole, and
    then of the global and the local state at each of the boundaries.
    """

    runs: tuple[PieceRun, ...]
    boundaries: tuple[int, ...]
    states: tuple[PieceRun, ...]

    @property
    def count(self) -> int:
        """Number of all pieces."""
        last = self.runs[-1]
        return last.first + last.count

    def locate(self, number: int) -> Piece | None:
        """Return the piece with a number, or None if there is no such piece."""
        for run in self.runs:
            if run.first <= number < run.first + run.count:
                return run.piece(number)
        return None


def delivered_boundaries(segments: int, every: int) -> tuple[int, ...]:
    """Return the boundaries whose states a delivery has: each ``every``-th one (none if it is 0), and the last one."""
    inner = range(every, segments, every) if every else ()
    return (*inner, segments) if segments else ()


def largest_delivery(terms: JobTerms, every: int) -> int:
    """Return a bound on the bytes of an encrypted delivery of a share of this job."""
    segments = share_segments(terms)
    pairs = len(delivered_boundaries(segments, every))
    content = terms.update_bytes + terms.local_bytes + pairs * (terms.global_bytes + terms.local_bytes)
    # An update has at most as many chunks as the global state. A chunk has a hash above it, a tag and a length.
    chunks = (1 + pairs) * (terms.global_chunks + terms.local_chunks)
    entry = _ENTRY_START + 4 * METRICS_MAX
    return content + chunks * _CHUNK_OVERHEAD + segments * entry + _NODE_OVERHEAD * (3 + 2 * pairs)


def is_well_formed(terms: JobTerms, manifest: DeliveryManifest) -> bool:
    """Return whether a delivery of a share of this job can have this manifest."""
    segments = share_segments(terms)
    is_whole = manifest.update_chunks > 0
    if manifest.segments > segments or (is_whole and manifest.segments != segments):
        return False
    return len(delivered_boundaries(manifest.segments, manifest.every)) <= DELIVERED_BOUNDARIES_MAX + 1


def delivery_layout(terms: JobTerms, manifest: DeliveryManifest) -> DeliveryLayout:
    """Return the pieces of a delivery with a manifest that is well-formed."""
    segments = manifest.segments
    trace = _tree_runs(0, segments, PieceKind.ENTRIES, ENTRIES_PER_PIECE, PieceSource.TRACE_ROOT)
    runs = list(trace)
    entries = trace[-1]
    states: list[PieceRun] = []

    def add(chunks: int, source: PieceSource, above: int = -1, at: int = 0) -> None:
        first = runs[-1].first + runs[-1].count
        nodes = _tree_runs(first, chunks, PieceKind.HASHES, HASHES_PER_PIECE, source, above, at)
        leaves = nodes[-1]
        chunk_run = PieceRun(
            first=leaves.first + leaves.count,
            count=chunks - 1,
            kind=PieceKind.CHUNK,
            items=chunks - 1,
            block=1,
            source=PieceSource.PARENT,
            above=leaves.first,
            above_block=leaves.block,
            skipped=1,
        )
        runs.extend((*nodes, chunk_run))
        states.append(chunk_run)

    if manifest.update_chunks:
        add(manifest.update_chunks, PieceSource.UPDATE_ROOT)
        add(terms.local_chunks, PieceSource.LOCAL_ROOT)
    boundaries = delivered_boundaries(segments, manifest.every)
    for index in boundaries:
        page, at = divmod(index - 1, ENTRIES_PER_PIECE)
        add(terms.global_chunks, PieceSource.GLOBAL_STATE, entries.first + page, at)
        add(terms.local_chunks, PieceSource.LOCAL_STATE, entries.first + page, at)
    return DeliveryLayout(tuple(runs), boundaries, tuple(states))


def _tree_runs(
    first: int, leaves: int, kind: PieceKind, block: int, source: PieceSource, above: int = -1, at: int = 0
) -> list[PieceRun]:
    """Return the runs of the nodes of a tree, from the piece below its root down to its leaves."""
    levels = [(kind, leaves, block)]
    while levels[-1][1] > levels[-1][2]:
        _, items, size = levels[-1]
        levels.append((PieceKind.HASHES, ceil_div(items, size), HASHES_PER_PIECE))
    runs: list[PieceRun] = []
    for kind_here, items, size in reversed(levels):
        count = max(1, ceil_div(items, size))  # the piece of an empty trace is empty
        if not runs:
            runs.append(
                PieceRun(
                    first=first,
                    count=count,
                    kind=kind_here,
                    items=items,
                    block=size,
                    source=source,
                    above=above,
                    above_block=0,
                    at=at,
                )
            )
        else:
            upper = runs[-1]
            begins = upper.first + upper.count
            run = PieceRun(
                first=begins,
                count=count,
                kind=kind_here,
                items=items,
                block=size,
                source=PieceSource.PARENT,
                above=upper.first,
                above_block=upper.block,
            )
            runs.append(run)
    return runs


# Contents


@dataclass(frozen=True, slots=True)
class BoundaryEntry:
    """A boundary as a delivery has it: its step, the roots of its global and local state, and its metrics."""

    step: int
    global_root: bytes
    local_root: bytes
    metrics: tuple[int, ...]

    @property
    def boundary_root(self) -> bytes:
        """The root of the boundary."""
        return boundary_root(self.global_root, self.local_root, self.metrics)


def encode_entry(entry: BoundaryEntry) -> bytes:
    """Return the bytes of a boundary in a piece."""
    metrics = b"".join(u32(bits) for bits in entry.metrics)
    return u64(entry.step) + entry.global_root + entry.local_root + bytes([len(entry.metrics)]) + metrics


def decode_entries(content: bytes, count: int) -> tuple[BoundaryEntry, ...] | None:
    """Return the boundaries of a piece, or None if its content is not ``count`` boundaries."""
    entries: list[BoundaryEntry] = []
    position = 0
    for _ in range(count):
        start = content[position : position + _ENTRY_START]
        if len(start) != _ENTRY_START or start[-1] > METRICS_MAX:
            return None
        position += _ENTRY_START
        size = 4 * start[-1]
        bits = content[position : position + size]
        if len(bits) != size:
            return None
        position += size
        metrics = tuple(int.from_bytes(bits[i : i + 4], "big") for i in range(0, size, 4))
        step, roots = int.from_bytes(start[:8], "big"), start[8:-1]
        entries.append(
            BoundaryEntry(step=step, global_root=roots[:HASH_SIZE], local_root=roots[HASH_SIZE:], metrics=metrics)
        )
    return tuple(entries) if position == len(content) else None


def decode_hashes(content: bytes, count: int) -> tuple[bytes, ...] | None:
    """Return the hashes of a piece, or None if its content is not ``count`` hashes."""
    if len(content) != count * HASH_SIZE:
        return None
    return tuple(content[at : at + HASH_SIZE] for at in range(0, len(content), HASH_SIZE))


def hash_of_piece(piece: Piece, content: bytes) -> bytes | None:
    """Return the hash that the content of a piece has, or None if a piece of this kind cannot have this content."""
    match piece.kind:
        case PieceKind.CHUNK:
            return chunk_leaf(content)
        case PieceKind.HASHES:
            hashes = decode_hashes(content, piece.items)
            return None if hashes is None else merkle_root(hashes)
        case PieceKind.ENTRIES:
            entries = decode_entries(content, piece.items)
            if entries is None:
                return None
            numbered = enumerate(entries, piece.first + 1)
            leaves = [leaf_hash(TraceLeaf(i, entry.step, entry.boundary_root)) for i, entry in numbered]
            return merkle_root(leaves) if leaves else b""


def wanted_hash(piece: Piece, roots: ShareRoots, parent: Piece | None, content: bytes) -> bytes | None:
    """Return the hash that a piece must have.

    ``content`` is the content of the piece ``parent``. Return None if a piece of its kind cannot have this content.
    """
    match piece.source:
        case PieceSource.TRACE_ROOT:
            return roots.trace_root
        case PieceSource.UPDATE_ROOT:
            return roots.update_root
        case PieceSource.LOCAL_ROOT:
            return roots.local_out
    if parent is None:
        return None
    if parent.kind is PieceKind.ENTRIES:
        entries = decode_entries(content, parent.items)
        if entries is None:
            return None
        if piece.source is PieceSource.PARENT:
            return None
        entry = entries[piece.at]
        return entry.global_root if piece.source is PieceSource.GLOBAL_STATE else entry.local_root
    hashes = decode_hashes(content, parent.items)
    return None if hashes is None else hashes[piece.at]


# Hashes and signatures


def delivery_key_hash(key: bytes) -> bytes:
    """Return the hash that commits a provider to the key of its delivery (32 bytes)."""
    return hash_fields("assay/delivery/key", key)


def piece_key(key: bytes, number: int) -> bytes:
    """Return the key of a piece (32 bytes); ``key`` is the key of the delivery. It encrypts this one piece."""
    return hash_fields("assay/delivery/piece-key", key, u32(number))


def piece_leaf(share: ShareKey, number: int, size: int, sha256: bytes) -> bytes:
    """Return the leaf of a piece in the tree of a delivery: of ``size`` encrypted bytes with this SHA-256."""
    return merkle_leaf("assay/delivery/piece", *_share_fields(share), u32(number), u32(size), sha256)


def manifest_sign_bytes(chain_id: str, claim: ShareClaim, manifest: DeliveryManifest) -> bytes:
    """Return the bytes that a provider signs for its delivery: it can show the key of exactly this ciphertext."""
    return encode_fields("assay/delivery", *_delivery_fields(chain_id, claim, manifest))


def receipt_sign_bytes(chain_id: str, claim: ShareClaim, manifest: DeliveryManifest, at: int, *, shown: bool) -> bytes:
    """Return the bytes that a validator signs: it has all of the ciphertext and, if ``shown``, also the key.

    ``at`` is the second of the chain's clock at which it signs.
    """
    return encode_fields(
        "assay/receipt", *_delivery_fields(chain_id, claim, manifest), u64(at), b"\x01" if shown else b"\x00"
    )


def _delivery_fields(chain_id: str, claim: ShareClaim, manifest: DeliveryManifest) -> tuple[bytes | str, ...]:
    return (
        chain_id,
        *_share_fields(claim.key),
        claim.provider,
        claim.commitment,
        manifest.root,
        manifest.key_hash,
        u32(manifest.segments),
        u64(manifest.update_chunks),
        u32(manifest.every),
    )


def _share_fields(share: ShareKey) -> tuple[bytes, ...]:
    numbers = (share.leg, share.round, share.slot, share.issue)
    return (share.order_id, *(u32(number) for number in numbers))
