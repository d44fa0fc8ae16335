"""The end of a round in parts: together they are the state, bit for bit, and fail where it fails."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pol.errors import AggregationFailed, ReplayError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.job.program import Program
from pol.job.updates import CODED
from pol.state.arrays import NUMPY_DTYPES, State
from pol.state.canonical import encode_state
from pol.values import TensorSpec
from pol.work.aggregation import AggregatedPart, aggregate_part, divide, root_of_parts
from pol.work.train import aggregate
from tests.unit.pol.mlp import SHAPES, Maker, write_mlp_job
from tests.unit.pol.replay.test_coded_updates import spec as coded_spec

NUMPY = backend(Engine("numpy"))
KEPT = "b.bias"


def clipped_outer() -> Program:
    """Subtract the mean update, divided by its norm over all tensors; one tensor stays as it is."""
    m = Maker()
    updates = {name: m.builder.input(f"aggregate.{name}", "f32", shape) for name, shape in SHAPES.items()}
    norm = m.c(1)
    for name, value in updates.items():
        norm = m.n("add", norm, m.total(m.n("mul", value, value), *range(len(SHAPES[name])), keepdim=False))
    for name, value in updates.items():
        before = m.builder.input(f"global.{name}", "f32", SHAPES[name])
        if name != KEPT:
            m.builder.output(f"global.{name}", m.n("sub", before, m.n("div", value, norm)))
    return m.builder.build()


def plain(folder: Path) -> None:
    write_mlp_job(folder)


def clipped(folder: Path) -> None:
    write_mlp_job(folder, outer=clipped_outer())


def coded(folder: Path) -> None:
    from pol.capture.build import build

    build(coded_spec(), folder)


@pytest.fixture(params=[plain, clipped, coded], scope="module")
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedJob:
    make: Callable[[Path], None] = request.param
    folder = tmp_path_factory.mktemp("jobs") / "job"
    make(folder)
    return load_job(folder)


def made_updates(loaded: LoadedJob) -> list[dict[str, np.ndarray]]:
    """Return made-up updates: numbers of a normal distribution, or codes that may be any bits."""
    generator = np.random.default_rng(5)
    if loaded.job.document.aggregation == CODED:
        return [
            {s.name: generator.integers(0, 2, s.shape).astype(NUMPY_DTYPES[s.dtype]) for s in loaded.job.update_tensors}
            for _ in range(loaded.job.document.slots)
        ]
    return [
        {s.name: generator.standard_normal(s.shape).astype(np.float32) for s in loaded.job.update_tensors}
        for _ in range(loaded.job.document.slots)
    ]


def written(folder: Path, states: Sequence[State]) -> list[Path]:
    paths = [folder / str(number) for number in range(len(states))]
    for path, state in zip(paths, states, strict=True):
        path.write_bytes(encode_state(state))
    return paths


def in_parts(loaded: LoadedJob, folder: Path, updates: Sequence[State], count: int) -> list[AggregatedPart]:
    opening, *paths = written(folder, [loaded.global_state, *updates])
    return [aggregate_part(loaded, part, count, opening, paths, NUMPY) for part in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_parts_are_the_next_state(loaded: LoadedJob, tmp_path: Path, count: int) -> None:
    updates = made_updates(loaded)
    wanted = aggregate(loaded, loaded.global_state, updates, NUMPY)
    parts = in_parts(loaded, tmp_path, updates, count)
    together = {name: array for part in parts for name, array in part.state.items()}
    assert encode_state(together) == encode_state(wanted.state)
    assert sum(len(part.state) for part in parts) == len(wanted.state)
    assert root_of_parts(loaded.job.document.global_tensors, [part.leaves for part in parts]) == wanted.root


def test_parts_have_about_as_many_bytes_each() -> None:
    specs = load_specs()
    sizes = {spec.name: spec.type.size for spec in specs}
    parts = divide(specs, 2)
    assert sorted(name for part in parts for name in part) == sorted(sizes)
    first, second = (sum(sizes[name] for name in part) for part in parts)
    assert abs(first - second) <= max(sizes.values())
    assert divide(specs[::-1], 2) == parts


def load_specs() -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, "f32", shape) for name, shape in SHAPES.items())


def test_a_number_that_is_not_finite_fails_the_part_that_has_it(tmp_path: Path) -> None:
    plain(tmp_path / "job")
    loaded = load_job(tmp_path / "job")
    updates = made_updates(loaded)
    bent = divide(loaded.job.document.global_tensors, 2)[1][0]
    start = {name: np.full_like(array, -3.4e38) for name, array in loaded.global_state.items()}
    updates = [{**update, bent: np.full_like(update[bent], 3.4e38)} for update in updates]
    opening, *paths = written(tmp_path, [start, *updates])
    aggregate_part(loaded, 0, 2, opening, paths, NUMPY)
    with pytest.raises(AggregationFailed):
        aggregate_part(loaded, 1, 2, opening, paths, NUMPY)


def test_each_part_needs_the_updates_of_all_slots(tmp_path: Path) -> None:
    plain(tmp_path / "job")
    loaded = load_job(tmp_path / "job")
    opening, *paths = written(tmp_path, [loaded.global_state, *made_updates(loaded)])
    for part in range(2):
        with pytest.raises(ReplayError, match="one update for each of 2 slots"):
            aggregate_part(loaded, part, 2, opening, paths[:1], NUMPY)
