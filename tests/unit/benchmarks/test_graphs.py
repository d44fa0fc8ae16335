"""Programs of many nodes before they run."""

from collections.abc import Callable

import pytest

from benchmarks import graphs
from pol.executor.names import BACKENDS
from pol.job.program import Program


@pytest.mark.parametrize("make", [graphs.scattered, graphs.holes])
def test_programs_have_about_as_many_nodes_as_asked_for(
    make: Callable[[int], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MODELS", {"it": make})
    monkeypatch.setattr(graphs, "NODES", 900)
    (row,) = graphs.run(["it"]).rows
    assert 800 < int(row.case.split()[1]) <= 990
    assert set(row.columns) > {"make", "check", "work", "tape", *BACKENDS}


def test_a_loop_of_python_is_written_out_and_a_layer_of_torch_is_repeated() -> None:
    loop, layer = graphs.lstm(300), graphs.repeat(300)
    assert (loop.nested, layer.nested) == (0, 1)
    assert len(loop.nodes) > len(layer.nodes)
    assert layer.unrolled_nodes > len(layer.nodes)
