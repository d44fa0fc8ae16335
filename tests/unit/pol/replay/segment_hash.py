"""Prints two SHA-256 as JSON: a segment in exact arithmetic, and a control in plain FP32.

Library, threads and instruction set are those of the environment.

python segment_hash.py DIR numpy|torch
"""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

from pol.executor.backend import backend
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_segment
from pol.state.canonical import encode_state
from pol.work.records import RoundSlot

Arrays = list[np.ndarray]


def exact(loaded: LoadedJob, name: str) -> str:
    states = (loaded.global_state, loaded.local_state)
    result = replay_segment(loaded, RoundSlot(0, 0), 0, *states, backend(name))
    return sha256(encode_state(result.global_state) + encode_state(result.local_state)).hexdigest()


def _digest(arrays: Arrays) -> str:
    return sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def plain_numpy(loaded: LoadedJob) -> str:
    """Five steps of gradient descent on the first layer, in FP32 as NumPy computes it."""
    x = loaded.data.columns["x"][:640]
    target = np.eye(128, dtype=np.float32)[loaded.data.columns["y"][:640]]
    weight = loaded.global_state["0.weight"].copy()
    for _ in range(5):
        weight -= np.float32(1e-3) * ((x @ weight.T - target).T @ x)
    return _digest([weight])


def plain_torch(loaded: LoadedJob) -> str:
    """Five eager steps of the same model with torch's own AdamW."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Identity(),  # torch's dropout is another matter
        nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10),
    )  # fmt: skip
    model.load_state_dict({n: torch.tensor(a) for n, a in loaded.global_state.items()})
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    x, y = (torch.tensor(loaded.data.columns[name][:640]) for name in ("x", "y"))
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return _digest([p.detach().numpy() for p in model.parameters()])


def main(folder: str, name: str) -> None:
    loaded = load_job(Path(folder))
    control = plain_torch(loaded) if name == "torch" else plain_numpy(loaded)
    sys.stdout.write(json.dumps({"exact": exact(loaded, name), "plain": control}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
