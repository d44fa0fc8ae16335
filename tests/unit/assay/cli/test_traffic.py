"""The bytes that a quote and an order show are those of real updates and deliveries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import nn

from assay.cli.output import size
from assay.settings.home import Settings
from consumer.jobs import OrderNote, remember
from consumer.submit import Quote
from domain.keys import ShareKey
from domain.market.queries import SimulateMatchResponse
from domain.market.records import Bid, Offer
from domain.params import local_params
from domain.proof.queries import OrderResponse
from link.delivery import DeliveredFiles, seal_delivery
from pol.capture.author.codecs import Sparse
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.document import Job, order_terms
from pol.job.load import load_job
from pol.rules.delivery import BoundaryEntry
from pol.state.canonical import encode_state
from pol.work.records import RoundSlot
from pol.work.train import train_share
from tests.unit.assay.support import assay
from tests.unit.compute_provider import support as s
from tests.unit.validator.support import closed

BID = Bid(
    b"\x01" * 32, "v", Offer(price=10**12, slot_speed=10**9, slots=2, tiers=("exact",), providers_bps=8_000), 1, 1, 1
)
CLOSED = 2
SHARE = ShareKey(b"\x11" * 32, 1, 0, 0, 1)


@dataclass(frozen=True)
class Trained:
    """A job, and the bytes of the update and of the encrypted delivery of one of its shares."""

    folder: Path
    job: Job
    update: int
    delivery: int

    @property
    def shares(self) -> int:
        terms = order_terms(self.job)
        return terms.rounds * terms.slots


def train(folder: Path, **changes: Any) -> Trained:
    """Write a job, train a share of it, and encrypt its delivery."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(64, 12, generator=generator)
    model = nn.Sequential(nn.Linear(12, 512), nn.ReLU(), nn.Linear(512, 2))
    columns = {"x": x, "y": (x[:, 0] > 0).long()}
    spec = JobSpec(
        name="bytes",
        model=model,
        loss=cross_entropy(),
        train=columns,
        holdout={name: value[:8] for name, value in columns.items()},
        batch=4,
        steps=6,
        slots=2,
        round_steps=2,
        segment_steps=2,
    )
    build(replace(spec, **changes), folder / "job")
    loaded = load_job(folder / "job")
    states: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    share = train_share(
        loaded,
        RoundSlot(0, 0),
        loaded.global_state,
        loaded.local_state,
        backend=backend(Engine("numpy")),
        on_boundary=lambda _, first, second: states.append((first, second)),
    )
    files: list[Path] = []
    for state in (share.update, share.local_out, *states[-1]):
        files.append(folder / str(len(files)))
        files[-1].write_bytes(encode_state(state))
    entries = [BoundaryEntry(each.step, each.global_root, each.local_root, each.metrics) for each in share.boundaries]
    sealed = folder / "sealed"
    seal_delivery(SHARE, b"k" * 32, DeliveredFiles(entries, files[0], files[1], [(files[2], files[3])]), 0, sealed)
    return Trained(folder / "job", loaded.job, files[0].stat().st_size, sealed.stat().st_size)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("coded"), update=Sparse(keep=16, chunk=128))


def value_of(text: str, row: str) -> str:
    """Return the value of a table's row."""
    (line,) = [line for line in text.splitlines() if row in line]
    return line.strip("│").split("│")[1].strip()


def moved(trained: Trained, full: str, shares: int) -> str:
    return f"{size(shares * trained.update)} ({full} in FP32)"


def test_a_quote_shows_the_bytes_of_real_updates_and_deliveries(
    plain: Trained, coded: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert coded.update < plain.update / 2
    for trained in (plain, coded):
        found = Quote(order_terms(trained.job), SimulateMatchResponse((BID,), ()), local_params(), price_limit=0)
        monkeypatch.setattr("consumer.submit.quote", lambda *_, found=found: found)
        said = assay("quote", trained.folder, "--node", "127.0.0.1:9", home=tmp_path).out
        full = size(trained.shares * plain.update)
        assert value_of(said, "updates of all rounds") == moved(trained, full, trained.shares)
        # Tables of hashes need not be full.
        most = found_delivery(trained, tmp_path)
        assert value_of(said, "delivery of a share, at most") == size(most)
        assert trained.delivery <= most <= 1.2 * trained.delivery


def found_delivery(trained: Trained, home: Path) -> int:
    said = assay("quote", trained.folder, "--node", "127.0.0.1:9", "--output", "json", home=home).json
    assert said["traffic"]["update"] == trained.update
    found: int = said["traffic"]["delivery"]
    return found


def test_an_order_shows_the_bytes_of_real_updates(
    plain: Trained, coded: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.panels.read_seats", lambda *_: ())
    monkeypatch.setattr("consumer.disputes.read_disputes", lambda *_: ())
    monkeypatch.setattr("consumer.lookup.find_order", lambda *_: s.ORDER_ID)
    for trained in (plain, coded):
        terms = order_terms(trained.job)
        order = s.with_order(s.order(), terms=terms)
        rounds = tuple(closed(number, order_id=s.ORDER_ID, shares=()) for number in range(CLOSED))
        order = replace(order, rounds=rounds)
        monkeypatch.setattr(Settings, "client", lambda *_, order=order: Shown(order))
        for home, bound in ((tmp_path / "mine", ""), (tmp_path / "other", "at most ")):
            if not bound:
                remember(home, OrderNote(order_id=s.ORDER_ID, job=trained.folder, key=""))
            said = assay("order", "show", s.ORDER_ID.hex(), home=home).out
            shares = CLOSED * terms.slots
            full = size(shares * plain.update)
            shown = value_of(said, "updates of closed rounds")
            if bound:
                assert shown == moved(trained, f"at most {size(shares * terms.global_bytes)}", shares)
                assert terms.global_bytes >= plain.update
            else:
                assert shown == moved(trained, full, shares)


class Shown:
    """A node that has one order."""

    def __init__(self, order: OrderResponse) -> None:
        self.order = order

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self, _: object) -> OrderResponse:
        return self.order

    def status(self) -> Any:
        class Status:
            clock = 50

        return Status()
