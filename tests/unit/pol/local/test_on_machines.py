"""A local run on several machines: the result of one process, and no whole state in the memory of the command."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
from pol.capture.build import build
from pol.executor.names import Engine
from pol.job.write import write_job
from pol.local import run
from pol.local.evaluate import evaluate
from pol.local.run import LocalRun, run_locally
from pol.state.arrays import Array
from pol.state.canonical import encode_state
from tests.unit.pol.replay.test_coded_updates import spec as coded_spec
from tests.unit.pol.tiny import tiny_source

ENGINE = Engine("numpy", threads=1, memory=1 << 30)
WHOLE = ("decode_state", "encode_state", "read_state", "read_next_state")
"""Functions that have all tensors of a state in memory."""


def going_on(folder: Path) -> None:
    """A job whose slots begin with local states of their own."""
    source = tiny_source(2, 2, 1)
    own = {name: np.full_like(array, 0.25) for name, array in source.local_state.items()}
    write_job(folder, replace(source, first_step=1, slot_states=(source.local_state, own)))


def coded(folder: Path) -> None:
    build(replace(coded_spec(), update=assay.Sparse(chunk=64, keep=4)), folder, check=False)


def results(ran: LocalRun, out: Path) -> tuple[Any, ...]:
    states = [encode_state(state) for state in (ran.state, *ran.locals)]
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    return ran.rounds, ran.position, ran.before, ran.after, states, {name: (out / name).read_bytes() for name in names}


@pytest.mark.parametrize("make", [going_on, coded])
def test_the_result_is_that_of_one_process_and_no_state_is_whole_in_memory(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "job")
    out = tmp_path / "alone", tmp_path / "together"
    alone = run_locally(tmp_path / "job", engine=ENGINE, out=out[0], keep_states=True)
    evaluated: list[Array] = []

    def whole(*_args: object) -> None:
        raise AssertionError("a state is in memory as a whole")

    def noted(job: Any, state: Mapping[str, Array], *rest: Any) -> dict[str, float]:
        evaluated.extend(state.values())
        return evaluate(job, state, *rest)

    with monkeypatch.context() as patch:
        for module in [module for name, module in sys.modules.items() if name.startswith("pol.")]:
            for name in WHOLE:
                if hasattr(module, name):
                    patch.setattr(module, name, whole)
        patch.setattr(run, "evaluate", noted)
        together = run_locally(tmp_path / "job", engine=ENGINE, out=out[1], keep_states=True, machines=2)
    assert results(together, out[1]) == results(alone, out[0])
    assert evaluated
    # A back end would copy an array that is not aligned.
    assert all(isinstance(array, np.memmap) and array.flags.aligned for array in evaluated)
