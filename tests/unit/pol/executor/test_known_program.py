"""Executors know the bits of a program before they compute another; what does not run natively is said."""

import logging
from collections.abc import Iterator

import pytest

from pol.executor import backend as module
from pol.executor import native_backend
from pol.executor.backend import backend, computing
from pol.executor.fusion import CHAINED
from pol.executor.known_program import KNOWN, answer, known_program
from pol.executor.names import BACKENDS, Engine
from pol.native.library import choose_library


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    module._is_right.cache_clear()
    yield
    module._is_right.cache_clear()


@pytest.mark.parametrize("name", BACKENDS)
def test_every_executor_knows_the_answer(name: str) -> None:
    assert answer(backend(Engine(name))) == KNOWN


def test_every_elementwise_operation_is_asked_for() -> None:
    assert {node.op for node in known_program().nodes} >= CHAINED


def test_a_library_whose_programs_are_wrong_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library = choose_library().library
    if library is None:
        pytest.skip("there are no native kernels")
    monkeypatch.setattr(module, "KNOWN", "another")
    assert backend(Engine("native")).name == "numpy"
    assert computing(Engine("native")) == f"numpy: the native library for {library.name} computes wrong results"
    assert f"kernels for {library.name} compute wrong results" in caplog.text


def test_what_needs_more_memory_than_it_declares_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if choose_library().library is None:
        pytest.skip("there are no native kernels")
    executor = backend(Engine("native"))
    monkeypatch.setattr(native_backend, "ROUNDING", -known_program().peak_size)
    with caplog.at_level(logging.WARNING):
        assert answer(executor) == KNOWN
    assert f"{len(known_program().nodes)} nodes does not run natively" in caplog.text
    assert "more memory than the program declares" in caplog.text
