"""A whole state from pieces: the files of several machines. A piece is a state of its own, with some of the tensors.

This file imports no numerical library, because daemons merge what their machines wrote.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from host.files import open_plain
from pol.errors import StateError
from pol.state.layout import MAX_HEADER, OTHER_TENSORS, encoded_size, header_chunk, parse_header
from pol.values import TensorSpec

_COPY_BYTES = 1 << 20


class _Piece:
    """A file of a piece whose tensors are read in order. Its hash is that of all bytes read."""

    def __init__(self, file: BufferedReader) -> None:
        start = file.read(4 + MAX_HEADER)
        size, self.specs = parse_header(start)
        file.seek(size)
        self._file = file
        self.hash = sha256(start[:size])

    def read(self, spec: TensorSpec) -> Iterator[bytes]:
        """Yield the bytes of the next tensor."""
        left = spec.type.size
        while left:
            data = self._file.read(min(left, _COPY_BYTES))
            if not data:
                raise StateError(spec.name, "its piece is too short")
            left -= len(data)
            self.hash.update(data)
            yield data


def merged_pieces(
    paths: Sequence[Path], specs: Sequence[TensorSpec], digests: Sequence[bytes] | None = None
) -> Iterator[bytes]:
    """Yield the canonical bytes of the state whose tensors ``specs`` are in the pieces at ``paths``.

    ``digests`` are the SHA-256 of the files, if the caller knows them. Raises StateError if the pieces do not have each
    of these tensors once, and at the end if a file has another hash. Raises OSError if a path is not a plain file.
    """
    with ExitStack() as stack:
        pieces = [_Piece(stack.enter_context(open_plain(path))) for path in paths]
        wanted = set(specs)
        found = {spec: piece for piece in pieces for spec in piece.specs if spec in wanted}
        if sum(len(piece.specs) for piece in pieces) != len(specs) or len(found) != len(specs):
            raise StateError("state", "its pieces do not have each tensor of the job once")
        yield header_chunk(specs)
        for spec, _ in places_of(specs, 0):
            yield from found[spec].read(spec)
        if digests is not None and [piece.hash.digest() for piece in pieces] != list(digests):
            raise StateError("state", "a piece has changed after it was written")


def cut_piece(path: Path, specs: Sequence[TensorSpec], names: Collection[str], to: Path) -> None:
    """Write the tensors ``names`` of the state in a file as a piece: a new file. The state has the tensors ``specs``.

    Raises StateError if the file is not such a state, by its header and its size.
    """
    with path.open("rb") as file, to.open("xb") as piece:
        header = header_chunk(specs)
        if file.read(len(header)) != header or file.seek(0, 2) != encoded_size(specs):
            raise StateError("state", OTHER_TENSORS)
        piece.write(header_chunk([spec for spec in specs if spec.name in names]))
        for spec, start in places_of(specs, len(header)):
            if spec.name in names:
                file.seek(start)
                _copy(file, piece, spec)


def _copy(file: BufferedReader, to: BinaryIO, spec: TensorSpec) -> None:
    left = spec.type.size
    while left:
        data = file.read(min(left, _COPY_BYTES))
        if not data:
            raise StateError(spec.name, "is cut off in its file")
        left -= len(data)
        to.write(data)


def places_of(specs: Sequence[TensorSpec], start: int) -> Iterator[tuple[TensorSpec, int]]:
    """Yield the tensors of a state in order, each with its position."""
    for spec in sorted(specs, key=lambda spec: spec.name.encode()):
        yield spec, start
        start += spec.type.size
