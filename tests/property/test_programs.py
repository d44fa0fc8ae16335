"""Random programs: whatever the table of primitives accepts runs, and all back ends give the same bits."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pol.errors import OutOfRange
from pol.executor.loop import Place
from pol.executor.names import BACKENDS
from pol.executor.numpy_backend import NumpyBackend
from pol.ops.primitive import Function, Site
from pol.state.arrays import Array
from tests import fuzz
from tests.support.programs import random_program
from tests.unit.pol.executor.ops import get, node_by_node


@settings(max_examples=30, deadline=None)
@example(1534977, "torch")  # a sum over nothing
@example(218, "torch")  # a cast, and what takes its order on
@example(1820, "numpy")  # a concatenation
@given(st.integers(0, 2**32 - 1), st.sampled_from(["numpy", "torch"]))
def test_values_lie_in_order_unless_they_repeat(seed: int, name: str) -> None:
    """What the table of work relies on: a reshape is a view, and readers read in order."""
    program, inputs = random_program(np.random.default_rng(seed))
    astray: list[str] = []
    executor = node_by_node(name)

    def look(place: Place, value: Array) -> None:
        inside = program
        for number in place[:-1:2]:
            inside = inside.nodes[number - inside.first_node].attrs["body"]
        if place[-1] not in inside.repeating and not value.flags.c_contiguous:
            astray.append(inside.nodes[place[-1] - inside.first_node].op)

    with pytest.MonkeyPatch.context() as patch:
        # torch's own way down makes a copy in order
        patch.setattr(executor, "download", np.asarray)
        with suppress(OutOfRange):
            executor.compile(program, 7).run(inputs, look)
    assert not astray


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_all_back_ends_agree_on_every_value(seed: int) -> None:
    """``python -m tests.fuzz`` takes more of them."""
    for _, found in fuzz.differences([seed], BACKENDS):
        assert not found


def test_a_wrong_primitive_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Wrong(NumpyBackend):
        def function(self, op: str, site: Site) -> Function:
            return super().function("minimum" if op == "maximum" else op, site)

    executors = {"numpy": get("numpy"), "native": Wrong()}
    monkeypatch.setattr(fuzz, "get", executors.__getitem__)
    assert fuzz.main(["--programs", "30", "--executors", "native"]) == 1
    said = capsys.readouterr().out
    assert "native: node" in said
    assert "(maximum) differs" in said
