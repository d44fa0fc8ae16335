"""Loading a directory: each file must be the one that the document describes."""

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from pol.errors import JobError
from pol.job.document import FIELDS
from pol.job.load import load_job, verify_job
from pol.job.strict_json import dump_json
from pol.limits import Limits
from pol.state.canonical import encode_state, state_tree
from pol.state.stored import StoredState
from pol.state.tensors import dump_safetensors
from pol.values import TensorSpec
from tests.unit.pol.datasets import all_rows
from tests.unit.pol.mlp import initial_states, rows, write_mlp_job

Change = Callable[[Path], object]
SHARD = "data/00001.safetensors"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    write_mlp_job(directory)
    return directory


@pytest.fixture
def job(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "job"))


def edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    fields = json.loads((directory / "job.json").read_bytes())
    change(fields)
    (directory / "job.json").write_bytes(dump_json(fields))


def refused(directory: Path, limits: Limits | None = None) -> JobError:
    errors = []
    for load in (load_job, verify_job):
        with pytest.raises(JobError) as caught:
            load(directory, limits or Limits())
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    return errors[0]


def put_shard(directory: Path, content: bytes) -> None:
    """Replace a shard and its hash in the document, as an attacker would who writes both."""
    (directory / SHARD).write_bytes(content)
    new = {"sha256": sha256(content).hexdigest(), "size": len(content)}
    edit(directory, lambda fields: fields["shards"][1].update(new))


def test_loads_what_was_written(job: Path) -> None:
    loaded = load_job(job)
    weights, local = initial_states()
    assert state_tree(loaded.global_state).root == state_tree(weights).root
    assert state_tree(loaded.local_state).root == state_tree(local).root
    assert loaded.data.rows == 200
    for name, column in rows(200).items():
        assert np.array_equal(all_rows(loaded.data)[name], column)
    for array in (*loaded.global_state.values(), *loaded.local_state.values()):
        assert not array.flags.writeable
        assert array.flags.aligned  # back ends copy all others in every run


def test_a_job_is_verified_without_its_states_in_memory(
    job: Path, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_whole(*_args: object) -> None:
        raise AssertionError("a state is read as a whole")

    monkeypatch.setattr("pol.job.load.read_next_state", not_whole)
    found = verify_job(job)
    weights, local = initial_states()
    for state, right in ((found.global_state, weights), (found.local_state, local)):
        assert isinstance(state, StoredState)
        assert encode_state(state) == encode_state(right)
    assert found.job.id == verify_job(written).job.id


def test_writing_again_gives_the_same_bytes(job: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    write_mlp_job(again)
    names = sorted(str(path.relative_to(job)) for path in job.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(again)) for path in again.rglob("*") if path.is_file())
    for name in names:
        assert (again / name).read_bytes() == (job / name).read_bytes()


def test_a_builder_makes_small_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads or writes one has it in memory."""
    monkeypatch.setattr("pol.job.write._SHARD_SIZE", 2_000)
    write_mlp_job(tmp_path, shard_rows=65_536)
    loaded = load_job(tmp_path)
    row_size = sum(column[:1].nbytes for column in all_rows(loaded.data).values())
    assert {shard.rows for shard in loaded.job.document.shards[:-1]} == {2_000 // row_size}


def test_only_uploaded_files_are_needed(job: Path) -> None:
    for name in ("initial.safetensors", "holdout.safetensors"):
        (job / name).unlink()
    load_job(job)


def test_initial_states_for_people(job: Path) -> None:
    found = safetensors.numpy.load((job / "initial.safetensors").read_bytes())
    weights, local = initial_states()
    assert set(found) == {f"global/{n}" for n in weights} | {f"local/{n}" for n in local}
    assert np.array_equal(found["global/a.weight"], weights["a.weight"])


@pytest.mark.parametrize("name", ["job.json", "global.state", "local.state", SHARD])
def test_missing_files(job: Path, name: str) -> None:
    (job / name).unlink()
    assert refused(job).field == name


@pytest.mark.parametrize("name", ["job.json", "global.state", SHARD])
def test_links_are_refused(job: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (job / name).rename(elsewhere)
    (job / name).symlink_to(elsewhere)
    assert refused(job).field == name


def test_folder_of_data_that_is_a_link(job: Path, tmp_path: Path) -> None:
    (job / "data").rename(tmp_path / "data")
    (job / "data").symlink_to(tmp_path / "data")
    assert refused(job).field == "data"


def test_pipes_are_refused_without_waiting(job: Path) -> None:
    (job / "global.state").unlink()
    os.mkfifo(job / "global.state")
    assert "plain file" in refused(job).reason


@pytest.mark.parametrize("name", ["job.json", "global.state", SHARD])
def test_a_folder_in_the_place_of_a_file(job: Path, name: str) -> None:
    (job / name).unlink()
    (job / name).mkdir()
    error = refused(job)
    assert error.field == name
    assert "plain file" in error.reason


@pytest.mark.parametrize("name", ["global.state", "local.state", SHARD])
def test_sizes_are_compared_first(job: Path, name: str) -> None:
    with (job / name).open("ab") as file:
        file.write(b"\x00")
    error = refused(job)
    assert error.field == name
    assert "bytes" in error.reason


@pytest.mark.parametrize(("name", "field"), [("global.state", "global_root"), ("local.state", "local_root")])
def test_states_against_their_roots(job: Path, name: str, field: str) -> None:
    data = bytearray((job / name).read_bytes())
    data[-4:] = np.array(0.25, "<f4").tobytes()
    (job / name).write_bytes(data)
    assert refused(job).field == field


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_states_that_are_not_finite(job: Path, value: float) -> None:
    data = bytearray((job / "global.state").read_bytes())
    data[-4:] = np.array(value, "<f4").tobytes()
    (job / "global.state").write_bytes(data)
    error = refused(job)
    assert error.field == "global.state:norm.weight"
    assert "NaN or infinity" in error.reason


def test_states_with_other_tensors(job: Path) -> None:
    weights, _ = initial_states()
    weights["a.weighs"] = weights.pop("a.weight")  # the same size
    (job / "global.state").write_bytes(encode_state(weights))
    assert refused(job).field == "global.state:header"


def test_shard_against_its_hash(job: Path) -> None:
    data = bytearray((job / SHARD).read_bytes())
    data[-1] ^= 1
    (job / SHARD).write_bytes(data)
    error = refused(job)
    assert error.field == SHARD
    assert "SHA-256" in error.reason


def test_minus_zero_is_read_as_zero(tmp_path: Path) -> None:
    """A shard may have it, of which the root of the data says nothing."""
    zeros = np.zeros((200, 3), np.float32)
    write_mlp_job(tmp_path, more={"z": zeros})
    part = {name: column[80:160] for name, column in rows(200).items()}
    put_shard(tmp_path, safetensors.numpy.save({**part, "z": -zeros[:80]}))
    found = all_rows(load_job(tmp_path).data)["z"]
    assert found.tobytes() == zeros.tobytes()


def test_data_against_their_root(job: Path) -> None:
    part = {name: column[:80] for name, column in rows(200).items()}
    put_shard(job, dump_safetensors(part))
    assert refused(job).field == "data_root"


@pytest.mark.parametrize("root", ["data_root", "global_root", "local_root"])
def test_roots_in_the_document(job: Path, root: str) -> None:
    edit(job, lambda fields: fields.update({root: "00" * 32}))
    assert refused(job).field == root


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(50_000_000))
    return buffer.getvalue()


def many_tensors() -> bytes:
    header = json.dumps(
        {str(i): {"dtype": "BOOL", "shape": [], "data_offsets": [i, i + 1]} for i in range(100_000)}
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(100_000)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps({"x": list(range(20_000))}), "more than 1048576"),
        (zipped(), "more than 1048576"),
        (many_tensors(), "more than 1048576"),
        ((100 * 2**20).to_bytes(8, "little") + b"{}" + bytes(30_000), "104857600 bytes"),
        (b"\x93NUMPY\x01\x00" + bytes(30_000), "more than"),
        (dump_safetensors({"x": np.zeros((80, 66), np.float32)}), "missing"),
        (
            dump_safetensors({"x": np.zeros((80, 66), np.float32), "y": np.zeros(80, np.int64)}),
            "f32[80,66]",
        ),
        (dump_safetensors({**rows(80), "z": np.zeros(80, np.int64)}), "not expected"),
        (
            safetensors.numpy.save({"x": np.full((80, 64), np.nan, np.float32), "y": np.zeros(80, np.int64)}),
            "NaN",
        ),
    ],
    # named, because an archive has the time in it
    ids=[
        "pickle",
        "archive",
        "many tensors",
        "long header",
        "numpy",
        "one column",
        "wide",
        "more columns",
        "NaN",
    ],
)
def test_shards_that_are_something_else(job: Path, content: bytes, reason: str) -> None:
    put_shard(job, content)
    error = refused(job)
    assert error.field.startswith(f"{SHARD}:")
    assert reason in error.reason


def test_a_document_of_100_mb_is_refused_unread(job: Path) -> None:
    os.truncate(job / "job.json", 100 * 2**20)
    error = refused(job)
    assert error.field == "job.json"
    assert "more than" in error.reason


def test_every_field_of_the_document_matters(job: Path) -> None:
    """No field can change without changing the job's id."""
    assert {"seed", "rounds", "step", "data_root"} < set(FIELDS)
    before = load_job(job).job.id
    edit(job, lambda fields: fields.update(seed=8))
    assert load_job(job).job.id != before


def test_a_program_cannot_read_beyond_its_tensors(job: Path) -> None:
    spec = TensorSpec("global.a.bias", "f32", (10**6,))
    edit(job, lambda f: f["step"]["inputs"][0].update(shape=list(spec.shape)))
    assert refused(job).field.startswith("step.")


def test_shards_of_wide_rows_have_fewer_rows(tmp_path: Path) -> None:
    """65,536 rows of 64 KiB would be more than a shard may hold."""
    limits = Limits(shard_size=2**20 + 4096, header_size=2**20)
    write_mlp_job(tmp_path, shard_rows=65_536, limits=limits)
    shards = load_job(tmp_path, limits).job.document.shards
    assert max(shard.size for shard in shards) <= 4096 + 1024
    assert sum(shard.rows for shard in shards) == 200
    assert len({shard.rows for shard in shards[:-1]}) == 1
