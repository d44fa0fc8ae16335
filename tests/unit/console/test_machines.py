"""The nodes of a validator's cluster: written by its daemon, and shown by the console and the command."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from console.records import RecordWatcher
from console.server import Console
from domain import codec
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.seen import NODES, ClusterNodes, read_nodes, write_nodes
from tests.unit.assay.support import assay
from tests.unit.console.conftest import ask
from validator.store import ValidatorStore

WORKS = NodeReport("aaaa1111", "10.0.0.1", 2, 8 << 30, "", ("own: check_segment (7)", "seats: recompute_update (9)"))
LOST = NodeReport("bbbb2222", "10.0.0.2", 4, 16 << 30, "the cluster has lost it", ())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    validator = tmp_path / "home" / "validator"
    validator.mkdir(parents=True)
    ValidatorStore(validator / "validator.db").close()
    return tmp_path / "home"


def write(home: Path, *nodes: NodeReport) -> None:
    (home / "validator" / NODES).write_bytes(codec.encode(ClusterNodes(int(time.time()), nodes)))


def test_the_console_shows_what_runs_where_and_what_is_lost(home: Path) -> None:
    with Console(0, probe=False) as console:
        watcher = RecordWatcher(console.known, [home])
        watcher.look()
        assert ask(console, "/api/network").json()["machines"] == []
        assert "Machines" not in ask(console, "/").text
        write(home, WORKS, LOST)
        watcher.look()
        first, second = ask(console, "/api/network").json()["machines"]
        page = ask(console, "/").text
        watcher.close()
    assert (first["name"], first["problem"], first["tasks"]) == ("aaaa1111", "", list(WORKS.tasks))
    assert (second["address"], second["problem"]) == ("10.0.0.2", "the cluster has lost it")
    for text in ("10.0.0.1", "own: check_segment (7)", "computes", "the cluster has lost it"):
        assert text in page


def test_daemons_that_share_a_cluster_share_its_rows(home: Path) -> None:
    """Each task, running or ended, is named after its daemon."""
    other = home.with_name("prov0")
    (other / "provider").mkdir(parents=True)
    ended = replace(WORKS, ended=(("check_segment", 5), ("recompute_update", 1)))
    write(home, ended)
    trains = replace(WORKS, tasks=("shares: train_segment (1)",), ended=(("train_segment", 12),))
    write_nodes(other / "provider", (replace(trains, problem="it does not answer"), LOST))
    with Console(0, probe=False) as console:
        watcher = RecordWatcher(console.known, [home, other])
        watcher.look()
        first, second = ask(console, "/api/network").json()["machines"]
        page = ask(console, "/").text
        watcher.close()
    assert (first["name"], first["problem"], second["name"]) == ("aaaa1111", "", "bbbb2222")
    assert first["tasks"] == [f"home: {WORKS.tasks[0]}", f"home: {WORKS.tasks[1]}", "prov0: shares: train_segment (1)"]
    assert first["ended"] == ["home: 5 check_segment, 1 recompute_update", "prov0: 12 train_segment"]
    assert "prov0: 12 train_segment" in page


def test_the_command_shows_the_same(home: Path) -> None:
    assert "Machines" not in assay("validator", "status", home=home).out
    write(home, WORKS, LOST)
    shown = assay("validator", "status", home=home).out
    for text in ("Machines", "aaaa1111", "own: check_segment (7)", "the cluster has lost it"):
        assert text in shown
    machines = assay("validator", "status", "--output", "json", home=home).json["machines"]
    assert [machine["name"] for machine in machines] == ["aaaa1111", "bbbb2222"]


def test_a_node_whose_disk_is_full_is_shown(home: Path) -> None:
    write(home, replace(WORKS, fault="No space left on device"))
    assert "No space" in assay("validator", "status", home=home).out
    with Console(0, probe=False) as console:
        watcher = RecordWatcher(console.known, [home])
        watcher.look()
        assert "its last task went elsewhere: No space left on device" in ask(console, "/").text
        watcher.close()


def test_a_file_that_is_half_written_is_no_cluster(home: Path) -> None:
    (home / "validator" / NODES).write_text('{"at": 1, "nodes": [')
    assert read_nodes(home / "validator") is None
