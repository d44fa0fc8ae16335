"""A task travels with places instead of paths, and files by their hashes."""

from hashlib import sha256
from pathlib import Path

import pytest

from pol.work.answers import read_answer
from pol.work.cluster.files import FilePlace, FolderPlace, OutputPlace, pack, run_packed
from tests.unit.pol.work.cluster import tasks


def test_each_path_gets_a_place(tmp_path: Path) -> None:
    source, folder, to = tmp_path / "in", tmp_path / "job", tmp_path / "out"
    source.write_bytes(b"state")
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    (folder / "deep" / "b").write_bytes(b"22")
    packed = pack(tasks.copy, [tasks.Copy(source, folder, (to,))])
    assert packed.paths == (str(source), str(folder), str(to))
    file, tree, output = packed.places
    assert isinstance(file, FilePlace)
    assert file.file.sha256 == sha256(b"state").digest()
    assert isinstance(tree, FolderPlace)
    assert [(name, ref.size) for name, ref in tree.entries] == [("a", 1), ("deep/b", 2)]
    assert output == OutputPlace()
    assert {Path(path).name for _, path in packed.sources} == {"in", "a", "b"}
    assert str(tmp_path).encode() not in packed.data


def test_it_runs_with_other_paths(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for root in (here, there):
        (root / "job").mkdir(parents=True)
        (root / "job" / "x").write_bytes(b"")
        (root / "in").write_bytes(root.name.encode())
    packed = pack(tasks.copy, [tasks.Copy(here / "in", here / "job", (here / "out",))])
    moved = [path.replace(str(here), str(there)) for path in packed.paths]
    assert read_answer(run_packed(packed.data, moved)) == (True, ("x", sha256(b"there").digest()))
    assert (there / "out").read_bytes() == b"there"
    assert not (here / "out").exists()


def test_an_error_of_a_task_is_its_answer() -> None:
    succeeded, error = read_answer(run_packed(pack(tasks.fail, ["no such job"]).data, ()))
    assert (succeeded, str(error)) == (False, "no such job; try another one")


def test_folders_of_the_same_content_have_one_name(tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"y" if name == "other" else b"x")
    digests = [
        place.digest
        for name in ("one", "two", "other")
        for place in pack(tasks.reads, [tmp_path / name]).places
        if isinstance(place, FolderPlace)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_blob_is_not_read_for_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = sha256(b"blob").hexdigest()
    (tmp_path / digest).write_bytes(b"blob")
    monkeypatch.setattr("pol.work.cluster.files.file_digest", lambda path: pytest.fail("read"))
    (place,) = pack(tasks.reads, [tmp_path / digest]).places
    assert isinstance(place, FilePlace)
    assert place.file.sha256.hex() == digest
