"""A step leaves the states where it computed them, and only what is hashed, stored or sent comes to the host."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from pol.errors import NotFinite
from pol.executor.backend import backend
from pol.executor.interface import run, run_held
from pol.executor.names import NATIVE, NUMPY, TORCH, Engine
from pol.executor.torch_backend import TorchBackend
from pol.job.load import LoadedJob, load_job
from pol.job.program import ProgramBuilder
from pol.ops.primitive import Function, Site
from pol.state.arrays import Array
from pol.state.held import Held, on_host
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state
from pol.work.train import train_share
from tests.support.programs import random_program
from tests.unit.pol import mlp

PART = RoundSlot(0, 0)


class Apart(Tensor):
    """A tensor of a device from which nothing comes to the host by itself."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (Tensor.numpy, Tensor.cpu, Tensor.tolist, Tensor.__array__):
            raise AssertionError("a copy to the host that nobody asked for")
        shown: Any = super()
        return shown.__torch_function__(function, types, args, kwargs or {})


class ApartBackend(TorchBackend):
    """Torch on a processor, as if its memory were a device's; counts what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.written: list[int] = []

    def function(self, op: str, site: Site) -> Function:
        made = super().function(op, site)
        # On a processor, NumPy takes square roots in place of torch: the one function that leaves the "device".
        return (lambda x: made(x.as_subclass(Tensor)).as_subclass(Apart)) if op == "sqrt" else made

    def upload(self, held: Held) -> Tensor:
        tensor = super().upload(held)
        if isinstance(held, np.ndarray):
            self.written.append(held.size)
        return tensor.as_subclass(Apart)

    def download(self, value: Tensor) -> Array:
        self.read.append(value.numel())
        return super().download(value.as_subclass(Tensor))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedJob:
    folder = tmp_path_factory.mktemp("job")
    mlp.write_mlp_job(folder)
    return load_job(folder)


def test_states_stay_on_the_device_from_step_to_step(loaded: LoadedJob) -> None:
    document, apart = loaded.job.document, ApartBackend()
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    end, boundary = run_segment(loaded, PART, 0, start, apart)
    steps, metrics = document.segment_steps, len(document.metrics)
    sizes = [array.size for state in (end.global_state, end.local_state) for array in state.values()]
    # Each step reads its metrics; the boundary reads the states once.
    assert sorted(apart.read) == sorted([1] * (steps * metrics) + [size for size in sizes if size != 0])
    same, expected = run_segment(loaded, PART, 0, start, backend(Engine(NUMPY)))
    assert boundary == expected
    assert end.roots == same.roots
    # The initial states went there once, and each step's rows and numbers.
    read = len(document.global_tensors) + len(document.local_tensors)
    constants = len(document.step.constants)
    assert len(apart.written) == constants + read + steps * (len(document.step.inputs) - read)


def test_a_share_trained_apart_is_the_same(loaded: LoadedJob) -> None:
    states = loaded.global_state, loaded.local_state
    here = train_share(loaded, PART, *states, backend=backend(Engine(NUMPY)))
    there = train_share(loaded, PART, *states, backend=ApartBackend())
    assert there.boundaries == here.boundaries
    assert (there.update_root, there.local_out_root) == (here.update_root, here.local_out_root)


@pytest.mark.parametrize("name", [NATIVE, NUMPY, TORCH])
def test_another_back_end_goes_on_from_there(loaded: LoadedJob, name: str) -> None:
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    first, _ = run_segment(loaded, PART, 0, start, ApartBackend())
    second, _ = run_segment(loaded, PART, 1, first, backend(Engine(name)))
    expected = start
    for index in range(2):
        expected, _ = run_segment(loaded, PART, index, expected, backend(Engine(NUMPY)))
    assert second.root == expected.root


def test_outputs_that_are_inputs_or_repeat_are_tensors_of_their_own() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (3,))
    builder.output("global.x", x)
    builder.output("global.y", builder.node("broadcast", x, shape=[2, 3]))
    program, apart = builder.build(), ApartBackend()
    values = {"global.x": np.array([-0.0, 1.0, 1e-45], np.float32)}
    held = run_held(program, values, 0, apart)
    values["global.x"][:] = 7
    again = run_held(program, held, 0, apart)
    for outputs in (held, again):
        assert on_host(outputs["global.x"]).tobytes() == np.array([0.0, 1.0, 1e-45], np.float32).tobytes()
        assert on_host(outputs["global.y"]).tobytes() == np.array([0.0, 1.0, 1e-45] * 2, np.float32).tobytes()


def test_the_first_output_that_is_not_finite_is_named() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (2,))
    for name in ("b", "a", "c"):
        builder.output(f"global.{name}", builder.node("mul", x, x) if name != "a" else x)
    program = builder.build()
    for x_value in (np.inf, np.nan, 1e30):
        with pytest.raises(NotFinite) as expected:
            run(program, {"global.x": np.array([0, x_value], np.float32)}, 0, backend(Engine(NUMPY)))
        with pytest.raises(NotFinite) as found:
            run_held(program, {"global.x": np.array([0, x_value], np.float32)}, 0, ApartBackend())
        assert found.value.field == expected.value.field


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_give_the_same_outputs_there(seed: int) -> None:
    program, inputs = random_program(np.random.default_rng(seed))
    try:
        expected = run(program, inputs, 3, backend(Engine(NUMPY)))
    except Exception as error:  # noqa: BLE001  (the same error is expected of the other)
        with pytest.raises(type(error)):
            run(program, inputs, 3, ApartBackend())
        return
    found = run(program, inputs, 3, ApartBackend())
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in expected.items()
    }
