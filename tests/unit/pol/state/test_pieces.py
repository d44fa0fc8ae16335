"""States in pieces: some tensors of a file, and a whole file from pieces."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from pol.errors import NotFinite, StateError
from pol.state.canonical import encode_state, state_specs
from pol.state.merge import merged_pieces
from pol.state.pieces import read_tensors

STATE = {
    "a": np.arange(40_000, dtype=np.float32),
    "b": np.array(3),
    "c.w": np.empty((0, 2), np.float32),
    "d": np.array([True, False]),
}
SPECS = state_specs(STATE)


def written(path: Path, names: str) -> Path:
    path.write_bytes(encode_state({name: array for name, array in STATE.items() if name[0] in names}))
    return path


def test_some_tensors_of_a_file(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", "abcd")
    found = read_tensors(whole, SPECS, {"b", "d"})
    assert found.keys() == {"b", "d"}
    assert all((found[name] == STATE[name]).all() for name in found)
    assert read_tensors(whole, SPECS, ()) == {}


@pytest.mark.parametrize("change", ["longer", "shorter", "other tensors"])
def test_another_file_is_refused(tmp_path: Path, change: str) -> None:
    whole = written(tmp_path / "whole", "abd" if change == "other tensors" else "abcd")
    data = whole.read_bytes()
    whole.write_bytes(data + b"x" if change == "longer" else data[:-1] if change == "shorter" else data)
    with pytest.raises(StateError, match="not those of the job"):
        read_tensors(whole, SPECS, {"b"})


def test_only_tensors_that_are_read_are_checked(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", "abcd")
    data = bytearray(whole.read_bytes())
    data[-1] = 2
    whole.write_bytes(data)
    read_tensors(whole, SPECS, {"a"})
    with pytest.raises(StateError, match="neither 0 nor 1"):
        read_tensors(whole, SPECS, {"d"})
    start = len(data) - 2 - 8 - 4 * 40_000
    data[start : start + 4] = b"\xff" * 4
    whole.write_bytes(data)
    with pytest.raises(NotFinite):
        read_tensors(whole, SPECS, {"a"})


def test_pieces_make_the_whole(tmp_path: Path) -> None:
    pieces = [written(tmp_path / "1", "bd"), written(tmp_path / "2", ""), written(tmp_path / "3", "ac")]
    assert b"".join(merged_pieces(pieces, SPECS)) == encode_state(STATE)
    digests = [sha256(piece.read_bytes()).digest() for piece in pieces]
    assert b"".join(merged_pieces(pieces, SPECS, digests)) == encode_state(STATE)


def test_a_piece_that_has_changed_makes_no_state(tmp_path: Path) -> None:
    pieces = [written(tmp_path / "1", "bd"), written(tmp_path / "2", "ac")]
    digests = [sha256(piece.read_bytes()).digest() for piece in pieces]
    data = bytearray(pieces[1].read_bytes())
    data[-1] ^= 1
    pieces[1].write_bytes(data)
    with pytest.raises(StateError, match="changed after it was written"):
        b"".join(merged_pieces(pieces, SPECS, digests))


def test_a_link_is_no_piece(tmp_path: Path) -> None:
    """The writer of a piece is not trusted: a link could lead to a file of the reader."""
    (tmp_path / "link").symlink_to(written(tmp_path / "whole", "abcd"))
    with pytest.raises(OSError, match=r"link|plain"):
        b"".join(merged_pieces([tmp_path / "link"], SPECS))


@pytest.mark.parametrize("names", [("ab", "c"), ("abc", "cd"), ("abcd", "d")])
def test_pieces_that_are_not_a_whole(tmp_path: Path, names: tuple[str, str]) -> None:
    pieces = [written(tmp_path / name, name) for name in names]
    with pytest.raises(StateError, match="each tensor of the job once"):
        b"".join(merged_pieces(pieces, SPECS))


def test_a_piece_that_is_too_short(tmp_path: Path) -> None:
    piece = written(tmp_path / "piece", "abcd")
    piece.write_bytes(piece.read_bytes()[:-1])
    with pytest.raises(StateError, match="too short"):
        b"".join(merged_pieces([piece], SPECS))
