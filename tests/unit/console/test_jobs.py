"""Names of jobs: from a document that lies here and has the hash that was ordered, and from nothing else."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from console.index.writing import EventIndex
from console.jobs import name_jobs, read_name
from console.known import NodeState
from console.records import RecordWatcher
from consumer.jobs import OrderNote, read_job, remember
from domain.events import to_event
from domain.market.events import OrderSubmitted
from domain.node.queries import LoggedEvent
from tests.support.chain_market import make_terms
from tests.unit.console.conftest import Told

JOB = Path(__file__).parents[2] / "fixtures" / "job_tiny"


@pytest.fixture
def ordered(told: Told) -> EventIndex:
    """An index with one order of the job of the fixture."""
    job, order = read_job(JOB), told.market.order(told.waiting)
    index = EventIndex()
    terms = make_terms(job_id=job.id)
    record = type(order)(**{n: getattr(order, n) for n in order.__slots__} | {"terms": terms})
    event = to_event(OrderSubmitted(order.id, order.consumer, 400_000, (), record), 1)
    index.add([LoggedEvent(1, 1, event.type, event.attributes)])
    return index


@pytest.mark.parametrize("owner", ["validator", "provider", "consumer"])
def test_a_job_has_its_name_where_its_document_lies(
    told: Told, ordered: EventIndex, tmp_path: Path, owner: str
) -> None:
    job = read_job(JOB)
    assert not name_jobs(ordered, [tmp_path])
    if owner == "consumer":
        remember(tmp_path, OrderNote(told.waiting, JOB, "carol"))
    else:
        digits = job.id.hex()
        place = tmp_path / owner / "blobs" / "complete" / digits[:2]
        place.mkdir(parents=True)
        shutil.copy(JOB / "job.json", place / digits)
    watcher = RecordWatcher(NodeState(ordered), [tmp_path])
    watcher.look()
    assert ordered.job_name(job.id) == job.document.name == "tiny"
    assert ordered.unnamed_orders(10) == []
    assert not name_jobs(ordered, [tmp_path])
    watcher.close()


def test_another_document_names_nothing(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    assert read_name(path, bytes(32)) == ""
    path.write_text(json.dumps({"name": "a lie"}))
    assert read_name(path, bytes(32)) == ""
    for text in (b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"name":"a","b":[' + b"[]," * 600_000 + b"0]}"):
        path.write_bytes(text)
        assert read_name(path, sha256(text).digest()) == ""
    long = json.dumps({"name": "x" * 1_000}).encode()
    path.write_bytes(long)
    assert read_name(path, sha256(long).digest()) == "x" * 64
