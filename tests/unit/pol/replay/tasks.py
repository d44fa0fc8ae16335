"""Tasks that the tests give to a pool: paths and small values in, small values out."""

from pathlib import Path

import numpy as np

from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.replay.replay import replay_segment
from pol.state.arrays import State
from pol.state.canonical import decode_state, encode_state
from pol.work.records import Boundary, RoundSlot
from pol.work.train import aggregate, train_share


def train(directory: str, part: RoundSlot, folder: str) -> bytes:
    """The update's root; the update and the boundaries' states go into the folder."""
    loaded, kept = load_job(Path(directory)), Path(folder)

    def keep(boundary: Boundary, state: State, local: State) -> None:
        (kept / f"{boundary.index}.global").write_bytes(encode_state(state))
        (kept / f"{boundary.index}.local").write_bytes(encode_state(local))

    share = train_share(
        loaded,
        part,
        loaded.global_state,
        loaded.local_state,
        backend=backend(Engine("numpy")),
        on_boundary=keep,
    )
    (kept / "update").write_bytes(encode_state(share.update))
    return share.update_root


def replay(directory: str, part: RoundSlot, index: int, folder: str, name: str = "numpy") -> Boundary:
    loaded, kept = load_job(Path(directory)), Path(folder)
    document = loaded.job.document
    state = decode_state((kept / f"{index}.global").read_bytes(), document.global_tensors)
    local = decode_state((kept / f"{index}.local").read_bytes(), document.local_tensors)
    return replay_segment(loaded, part, index, state, local, backend(Engine(name))).boundary


def merge(directory: str, updates: tuple[Path, ...]) -> bytes:
    loaded = load_job(Path(directory))
    given = [decode_state(path.read_bytes(), loaded.job.updated) for path in updates]
    return encode_state(aggregate(loaded, loaded.global_state, given, backend(Engine("numpy"))).state)


def overflow(directory: str) -> None:
    loaded = load_job(Path(directory))
    huge = {name: array + np.float32(3e38) for name, array in loaded.local_state.items()}
    train_share(loaded, RoundSlot(0, 0), loaded.global_state, huge, backend=backend(Engine("numpy")))


def refuse() -> None:
    raise JobError("job", "no such job", "fetch it")
