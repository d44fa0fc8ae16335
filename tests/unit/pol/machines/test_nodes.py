"""The nodes of a cluster as the machines of a group: which take part, and what is refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pol.errors import ExecutionError
from pol.executor.names import Engine
from pol.local.groups import start_on
from pol.machines.nodes import hosts_of, spec_on, wait_for_nodes, working
from pol.split.machine import Machine
from pol.work.cluster.client import TOKEN_PATH, Cluster, ClusterUnusable
from pol.work.cluster.dispatch import NodeReport

NODE = NodeReport("a", "10.0.0.2", 4, 8 << 30, "", ())
SMALL = replace(NODE, name="b", processors=2, memory=4 << 30)
LOST = replace(NODE, name="c", problem="the cluster has lost it")


def cluster(*nodes: NodeReport, problem: str = "") -> Cluster:
    fake: Any = SimpleNamespace(nodes=nodes, problem=problem, address="10.0.0.1:6379", executor=lambda lane: lane)
    return cast("Cluster", fake)


def test_the_best_nodes_come_first_and_lost_ones_not_at_all() -> None:
    assert working((SMALL, LOST, NODE)) == [NODE, SMALL]
    assert wait_for_nodes(cluster(SMALL, LOST, NODE), 2) == [NODE, SMALL]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cluster(NODE, LOST), "1 nodes of the cluster at 10.0.0.1:6379 compute, not 2"),
        (cluster(NODE, LOST), "the cluster has lost it"),
        (cluster(problem="it refuses the token"), "it refuses the token"),
    ],
)
def test_too_few_nodes_are_refused_with_what_to_do(found: Cluster, words: str) -> None:
    with pytest.raises(ClusterUnusable, match=r"start further nodes, see docs/operate/ray.md") as refused:
        wait_for_nodes(found, 2, 0.1)
    assert words in str(refused.value)


def test_each_member_has_its_node() -> None:
    spec = spec_on(2, Engine("numpy"), [NODE, SMALL], 10**9, 10**8)
    assert spec.machine == Machine(speed=10**9, memory=4 << 30, bandwidth=10**8)
    assert (spec.machines, spec.shape, spec.memory, spec.engine.threads) == (2, None, 0, 2)
    limited = spec_on((1, 2), Engine("numpy", threads=1, memory=1 << 30), [NODE, SMALL], 1, 1)
    assert (limited.machine.memory, limited.memory, limited.shape, limited.engine.threads) == (
        1 << 30,
        1 << 30,
        (1, 2),
        1,
    )


def test_no_node_is_no_machine() -> None:
    assert hosts_of(cluster(LOST)).lose([]) == 0


def test_what_cannot_be_used_is_refused_before_the_cluster_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(ExecutionError, match="together on cpu"),
        start_on("ray://10.0.0.1:1")(2, Engine("torch", "cuda"), tmp_path),
    ):
        pass
    monkeypatch.delenv(TOKEN_PATH, raising=False)
    with pytest.raises(ClusterUnusable), start_on("ray://10.0.0.1:1")(2, Engine(), tmp_path):
        pass
