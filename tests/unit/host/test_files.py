"""Files are there whole or not at all, for their owner only unless said otherwise."""

import os
from errno import EMLINK, ENOSPC
from pathlib import Path

import pytest

from host.files import link_whole, move_durably, plain_pieces, write_durably, write_whole


def full(*_: object) -> None:
    raise OSError(ENOSPC, "No space left on device")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"one", b"two"):
        write_durably(path, data)
        assert path.read_bytes() == data
    write_whole(path, "three")
    assert path.read_text() == "three"
    write_whole(path, b"four")
    assert path.read_bytes() == b"four"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_only_the_owner_reads_what_is_durable_unless_others_may(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_durably(tmp_path / "mine", b"")
        write_durably(tmp_path / "shown", b"", mode=0o666)
        write_whole(tmp_path / "status", "")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"mine": 0o600, "shown": 0o644, "status": 0o644}


def test_a_plain_file_is_moved_and_nothing_else(tmp_path: Path) -> None:
    (theirs := tmp_path / "theirs").mkdir()
    (mine := tmp_path / "mine").mkdir()
    (theirs / "file").write_bytes(b"new")
    (mine / "file").write_bytes(b"old")
    move_durably(theirs / "file", mine / "file")
    assert (mine / "file").read_bytes() == b"new"
    (theirs / "link").symlink_to(mine / "file")
    (theirs / "folder").mkdir()
    for name in ("link", "folder", "absent"):
        with pytest.raises(OSError, match=f"not a plain file.*{name}|No such file"):
            move_durably(theirs / name, mine / "file")
    assert (mine / "file").read_bytes() == b"new"
    assert not list(theirs.iterdir())


def test_a_plain_file_is_read_in_pieces_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data := bytes(range(256)) * 5000)
    pieces = list(plain_pieces(tmp_path / "file"))
    assert b"".join(pieces) == data
    assert len(pieces) == 2
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe", "absent"):
        with pytest.raises(OSError, match=name):
            list(plain_pieces(tmp_path / name))


def test_a_file_that_grows_while_it_is_read_is_read_no_further_than_it_went(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * 2**20))
    read = 0
    for piece in plain_pieces(path):
        read += len(piece)
        with path.open("ab") as file:
            file.write(piece)
    assert read == 3 * 2**20


def test_a_link_costs_no_space_and_may_be_made_again(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"data")
    for _ in range(2):
        link_whole(source, target)
        assert target.samefile(source)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    link_whole(other, target)
    assert target.read_bytes() == b"other"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "source", "target"]


def test_where_the_disk_cannot_link_it_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(EMLINK, "Too many links")

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"data")
    monkeypatch.setattr(os, "link", refuse)
    link_whole(source, target)
    assert target.read_bytes() == b"data"
    assert not target.samefile(source)
