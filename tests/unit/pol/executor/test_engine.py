"""An engine is a value that travels to the compiled program; one that no machine can have is refused in a sentence."""

import pytest

from domain import codec
from pol.errors import ExecutionError
from pol.executor.backend import backend, computing
from pol.executor.names import DEFAULT_ENGINE, NATIVE, NUMPY, TORCH, Engine
from pol.executor.native_backend import NativeBackend, cores


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (Engine("jax"), "there is no back end 'jax'"),
        (Engine(device="cuda"), "native does not compute on cuda; use the back end torch, or device cpu"),
        (Engine(NUMPY, "cuda:1"), "numpy does not compute on cuda:1"),
        (Engine(TORCH, "tpu"), "there is no device 'tpu'"),
        (Engine(threads=-1), "-1 is not a number of threads"),
        (Engine(threads=2_000), "2000 is not a number of threads"),
        (Engine(memory=1 << 20), "at least 256 MiB"),
    ],
)
def test_what_no_machine_has_is_refused(engine: Engine, reason: str) -> None:
    for ask in (engine.check, lambda: backend(engine)):
        with pytest.raises(ExecutionError, match=reason):
            ask()


def test_words() -> None:
    # The record of a provider's measured speed has these words as its key: the plain ones are those of older homes.
    assert [str(Engine(name)) for name in (NATIVE, NUMPY, TORCH)] == ["native", "numpy", "torch"]
    assert str(Engine(TORCH, "cuda:1", 4, 3 << 29)) == "torch on cuda:1 with 4 threads, 1.5 GiB"
    assert computing(Engine(TORCH, "cuda:1", 4)) == "torch on cuda:1"


def test_it_travels_as_bytes() -> None:
    for engine in (DEFAULT_ENGINE, Engine(TORCH, "cuda:1", 4, 1 << 30)):
        assert codec.decode(Engine, codec.encode(engine)) == engine


def test_memory_is_three_quarters_unless_it_is_given() -> None:
    assert Engine(memory=1 << 30).memory_bytes == 1 << 30
    assert DEFAULT_ENGINE.memory_bytes > 1 << 28


def test_threads_reach_the_code_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def start(library: object, owner: object, threads: int) -> None:
        made.append(threads)

    monkeypatch.setattr("pol.native.library.Library.start_crew", start)
    one = backend(Engine(NATIVE))
    if not isinstance(one, NativeBackend):
        pytest.skip("there are no native kernels")
    backend(Engine(NATIVE, threads=3))
    # The known program runs with one thread.
    assert [threads for threads in made if threads != 1] == [threads for threads in (cores(), 3) if threads != 1]


def test_threads_reach_torch() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        backend(Engine(TORCH, threads=3))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
