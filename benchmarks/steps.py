"""Training steps that several benchmarks measure: exact ones on an executor, and plain ones in torch."""

from collections.abc import Callable
from copy import deepcopy
from typing import cast

import torch
from torch import nn

from benchmarks.networks import loss
from pol.capture.author.spec import JobSpec
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state

EAGER = "eager"
"""Name of plain training, used in place of an executor's name."""
STEPS = {
    "digits": 100,
    "mlp-512": 40,
    "gpt-128": 4,
    "gpt-512": 1,
    "lstm-128": 8,
    "lstm-128-unrolled": 8,
    "resnet": 4,
    "mobilenet": 4,
}
"""Steps per segment by model, chosen to take some tenths of a second."""


def exact(loaded: LoadedJob, executor: str) -> Callable[[int], object]:
    """Return a function that trains the segment with a given number. The numbers have to be 0, 1, 2 and so on."""
    engine = backend(Engine(executor))
    state = [slot_state(loaded, loaded.global_state, loaded.local_state)]
    loaded = loaded.without_initial()

    def work(number: int) -> None:
        state[0], _ = run_segment(loaded, RoundSlot(0, 0), number, state[0], engine, donate=True)

    return work


def eager(spec: JobSpec, steps: int, fused: bool = False, compiled: bool = False) -> Callable[[int], object]:
    """Return a function that takes ``steps`` plain steps on its own copy of the model, and ignores its argument."""
    model = deepcopy(spec.model).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=fused)
    columns = {key: torch.as_tensor(value)[: spec.batch] for key, value in spec.train.items()}
    called = cast(nn.Module, torch.compile(model)) if compiled else model

    def work(_number: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(called, columns).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return work
