"""The native kernels: each library has the bits of the reference, and is used only where it has them."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pol.errors import ExecutionError
from pol.executor.backend import backend, computing
from pol.executor.names import Engine
from pol.native import library as module
from pol.native.library import (
    FOLDER,
    INSTRUCTION_SETS,
    SWITCH,
    Addresses,
    Library,
    address,
    choose_library,
    load_library,
)
from pol.native.self_test import KNOWN, answers
from pol.ops import philox
from pol.ops.primitive import Site
from pol.ops.product import BITS, BLOCK, integer_sums, largest_digit, magnitudes
from pol.ops.table import PRIMITIVES
from pol.state.arrays import Array
from pol.values import TensorType
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, bits

BUILT = sorted(path.stem for path in FOLDER.glob("*.so"))
if not BUILT:
    pytest.skip("the set-up found no C compiler: no native kernels", allow_module_level=True)
HAS = Library("portable").processor()
USABLE = [name for name in BUILT if not INSTRUCTION_SETS[name] & ~HAS]
LIBRARIES = {name: Library(name) for name in USABLE}
SPECIAL = np.concatenate([HOSTILE, NOT_FINITE])


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(SWITCH, raising=False)
    choose_library.cache_clear()
    yield
    choose_library.cache_clear()


class Reference:
    """The rows of the table, asked as a library is."""

    def check_thread(self) -> None:
        pass

    def product(self, bits: int, left: Array, right: Array) -> Array:
        return self._ask("matmul", left, right, bits=bits)

    def function(self, name: str, x: Array) -> Array:
        return self._ask(name, x)

    def sum(self, x: Array, dim: int) -> Array:
        return self._ask("sum", x, dims=(dim,), keepdim=False)

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        return philox.uniform(seed, site, step, count)

    def _ask(self, op: str, *operands: Array, **attrs: object) -> Array:
        row = PRIMITIVES[op]
        assert row.reference is not None
        types = tuple(TensorType("f32", operand.shape) for operand in operands)
        with np.errstate(all="ignore"):
            found: Array = row.reference(Site(attrs, types, row.rule(types, attrs), 0))(*operands)
        return found


REFERENCE = Reference()


def same(found: Array, wanted: Array) -> bool:
    return found.shape == wanted.shape and bits(found) == bits(wanted)


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of one size or of all sizes, some of them at the edges."""
    spread = int(rng.choice([0, 0, 20, 140]))
    plain = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, min(spread, 126) + 1, shape)
    if rng.random() < 0.3:
        plain = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), plain)
    with np.errstate(over="ignore"):
        return plain.astype(np.float32)


def laid_out(rng: np.random.Generator, x: Array) -> Array:
    """The same matrices in another layout: in order, transposed, as a part of larger ones, or one repeated."""
    match rng.integers(0, 4):
        case 0:
            return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
        case 1:
            wider = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), np.float32)
            wider[..., ::2, ::3] = x
            return wider[..., ::2, ::3]
        case 2 if x.ndim > 2:
            return np.broadcast_to(x[:1], x.shape)
    return x


@pytest.mark.parametrize("name", BUILT)
def test_each_library_that_was_built_can_be_asked(name: str) -> None:
    if name not in USABLE:
        pytest.skip(f"this processor has no {name}")
    assert answers(LIBRARIES[name]) == KNOWN


def test_the_reference_knows_the_answers() -> None:
    assert answers(REFERENCE) == KNOWN


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(USABLE), st.sampled_from(BITS))
def test_products_of_every_shape_and_layout(seed: int, name: str, precision: int) -> None:
    rng = np.random.default_rng(seed)
    rows, summed, columns = (int(rng.integers(1, limit)) for limit in (40, 70, 50))
    if rng.random() < 0.2:
        summed = BLOCK * int(rng.integers(1, 4)) + int(rng.integers(-1, 2))
    batch = [int(size) for size in rng.integers(1, 4, rng.integers(0, 3))]
    left = laid_out(rng, numbers(rng, *batch, rows, summed))
    right = laid_out(rng, numbers(rng, *batch, summed, columns))
    found = LIBRARIES[name].product(precision, left, right)
    assert same(found, REFERENCE.product(precision, left, right))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(USABLE), st.sampled_from(BITS))
def test_exact_sums_of_a_part_of_a_product(seed: int, name: str, precision: int) -> None:
    """The largest magnitudes are those of longer lanes. One thread or three compute the same."""
    rng = np.random.default_rng(seed)
    rows, summed, columns = (int(rng.integers(1, limit)) for limit in (40, 70, 50))
    summed = int(rng.choice([0, summed, BLOCK]))
    batch = [int(size) for size in rng.integers(1, 4, rng.integers(0, 3))]
    left = laid_out(rng, numbers(rng, *batch, rows, summed))
    right = laid_out(rng, numbers(rng, *batch, summed, columns))
    with np.errstate(all="ignore"):
        more_left, more_right = numbers(rng, *batch, rows, 1), numbers(rng, *batch, 1, columns)
        largest = (
            magnitudes(np.concatenate([left, more_left], -1), -1),
            magnitudes(np.concatenate([right, more_right], -2), -2),
        )
        wanted = integer_sums(precision, left, right, largest)
    library = LIBRARIES[name]
    owner = object.__new__(Reference)
    for crew in (None, library.start_crew(owner, 3)):
        found = library.integer_sums(precision, left, right, largest, crew, 1)
        assert found.dtype == np.int64
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", USABLE)
@pytest.mark.parametrize("summed", [1, 7, 8, 9, 1_024, 2_048, 2_049, 131_072])
@pytest.mark.parametrize("precision", BITS)
def test_a_product_at_the_bound_of_its_sums(name: str, summed: int, precision: int) -> None:
    """The largest digits all the way: what would pass over a register passes over here."""
    left = np.full((4, summed), largest_digit(precision), np.float32)
    left[1] *= -1
    left[2, ::2] *= -1
    right = left.T.copy()
    found = LIBRARIES[name].product(precision, left, right)
    assert same(found, REFERENCE.product(precision, left, right))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(USABLE))
def test_sums_over_every_dimension(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    shape = [int(size) for size in rng.choice([1, 2, 3, 5, 8, 31, 33, 300], 3)]
    x = numbers(rng, *shape)
    x[rng.random(shape) < 0.3] = -0.0
    for dim in range(3):
        assert same(LIBRARIES[name].sum(x, dim), REFERENCE.sum(x, dim))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_a_sum_over_nothing_is_zero(shape: tuple[int, ...]) -> None:
    for library in LIBRARIES.values():
        for dim in range(len(shape)):
            x = np.zeros(shape, np.float32)
            assert same(library.sum(x, dim), REFERENCE.sum(x, dim))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(USABLE))
def test_functions_of_any_bits(seed: int, name: str) -> None:
    any_bits = philox.words(seed, 0, 0, 5_000).view(np.float32)
    for function in ("exp", "log", "tanh", "erf"):
        for x in (any_bits, SPECIAL, numbers(np.random.default_rng(seed), 3, 333)):
            assert same(LIBRARIES[name].function(function, x), REFERENCE.function(function, x))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1_001])
def test_uniform_numbers(count: int) -> None:
    for library in LIBRARIES.values():
        for seed, site, step in ((0, 0, 0), (2**64 - 1, 2**31 - 1, 2**63 - 1), (5, 1, 2**33)):
            found = library.uniform(seed, site, step, count)
            assert same(found, philox.uniform(seed, site, step, count))


def test_a_library_that_computes_wrongly_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Library, "product", lambda *_: np.zeros((1, 1), np.float32))
    with caplog.at_level(logging.ERROR):
        assert load_library() is None
    assert "compute wrong results" in caplog.text
    assert backend(Engine("native")).name == "numpy"
    assert computing(Engine("native")).startswith("numpy: the native library for ")
    assert "computes wrong results" in computing(Engine("native"))


def test_without_libraries_numpy_computes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    assert backend(Engine("native")).name == "numpy"
    assert computing(Engine("native")) == "numpy: no native library was built (run make setup)"


@pytest.mark.parametrize(("value", "name"), [("0", None), ("portable", "portable"), ("", USABLE)])
def test_the_switch(monkeypatch: pytest.MonkeyPatch, value: str, name: str | list[str] | None) -> None:
    monkeypatch.setenv(SWITCH, value)
    found = load_library()
    if name is None:
        assert found is None
    else:
        assert found is not None
        assert found.name in name


def test_a_switch_that_names_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "avx3")
    for ask in (backend, computing):
        with pytest.raises(
            ExecutionError,
            match="'avx3' is not a known value; use one of 0, avx512vnni, avxvnni, avx2, dotprod, portable",
        ):
            ask(Engine("native"))
    assert backend(Engine("numpy")).name == computing(Engine("numpy")) == "numpy"


@pytest.mark.parametrize("name", USABLE)
def test_what_computes_is_said(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(SWITCH, name)
    assert computing(Engine("native")) == f"native {name}"


def test_native_kernels_that_are_switched_off_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert computing(Engine("native")) == "numpy: ASSAY_NATIVE=0"


def test_the_best_that_the_processor_has_is_taken() -> None:
    found = load_library()
    assert found is not None
    assert found.name == next(name for name in INSTRUCTION_SETS if name in USABLE)


def test_an_instruction_set_that_the_processor_lacks_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first instruction would end the process."""
    monkeypatch.setattr(Library, "processor", lambda _: 0)
    found = load_library()
    assert found is not None
    assert found.name == "portable"
    choose_library.cache_clear()
    monkeypatch.setenv(SWITCH, "avx2")
    assert computing(Engine("native")) == "numpy: this processor has no avx2"


def test_a_thread_that_flushes_subnormal_numbers_is_refused() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers to zero")
    try:
        for library in LIBRARIES.values():
            with pytest.raises(ExecutionError, match="subnormal"):
                library.check_thread()
    finally:
        torch.set_flush_denormal(False)
    for library in LIBRARIES.values():
        library.check_thread()


def test_a_file_that_is_no_library_costs_only_time(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "portable.so").write_bytes(b"\x7fELF")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    assert load_library() is None
    assert "NumPy computes" in caplog.text


def test_it_works_where_no_process_and_no_thread_may_be_started() -> None:
    """A worker forbids both before it runs a stranger's job."""
    code = (
        "from host.sandbox import forbid_processes; forbid_processes();"
        "import numpy as np; from pol.native.library import load_library;"
        "print(load_library().product(15, np.ones((2, 3), 'f4'), np.ones((3, 2), 'f4'))[0, 0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3.0"]


def test_where_arrays_lie_is_asked_again_when_there_are_others() -> None:
    """Also of one that has the place of another one in the interpreter, but not its elements."""
    known, again, numbers = Addresses(2), np.zeros(3, np.float32), set[int]()
    for size in range(1, 200):
        other = np.zeros(size * 100, np.float32)
        numbers.add(id(other))
        for _ in range(2):
            assert known.of([other, again]) == [address(other), address(again)]
        del other
    assert len(numbers) < 199
