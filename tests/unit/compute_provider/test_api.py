"""Measuring and trying out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, Self

import pytest

import compute_provider.work.bench
from compute_provider import api
from compute_provider.interfaces import ProviderConfig, ProviderError
from compute_provider.links import Link
from compute_provider.work.bench import Speed, measure_bandwidth, measure_speed, what_computes
from domain.market.queries import BidsRequest, BidsResponse
from domain.market.records import Bid, Offer
from domain.registry.messages import MsgLeaveCluster
from domain.registry.queries import ProviderRequest, ProviderResponse, ValidatorsResponse
from domain.registry.records import Provider, Validator
from link.errors import ClusterError
from link.types import BandwidthReply, BandwidthRequest
from pol.executor.names import Engine
from tests.unit.compute_provider.support import CHAIN, PROVIDER, VALIDATOR, validator_record
from tests.unit.link.support import running


def bid(price: int, providers_bps: int) -> Bid:
    return Bid(
        id=bytes([price % 256]) * 32,
        validator=VALIDATOR,
        offer=Offer(price=price, slot_speed=1, providers_bps=providers_bps),
        capacity=1,
        expires_at=1,
        placed_height=1,
    )


class Node:
    """Stands for ``ChainClient``."""

    validators: tuple[Validator, ...] = ()
    bids: tuple[Bid, ...] = ()
    providers: tuple[Provider, ...] = ()

    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def status(self) -> Any:
        return SimpleNamespace(chain_id=CHAIN)

    def query(self, request: Any) -> Any:
        if isinstance(request, BidsRequest):
            return BidsResponse(self.bids)
        if isinstance(request, ProviderRequest):
            known = {p.address: p for p in self.providers}
            return ProviderResponse(known.get(request.address))
        return ValidatorsResponse(self.validators)


def config(tmp_path: Path) -> ProviderConfig:
    return ProviderConfig(tmp_path / "home", "node:1", VALIDATOR, PROVIDER)


def test_a_dry_run_forecasts_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "ChainClient", Node)
    monkeypatch.setattr(api, "measure_speed", lambda engine: Speed(engine.name, 10**9, 1 << 30))
    with running(tmp_path) as up:
        record = validator_record(up.endpoint, up.certificate.der)
        monkeypatch.setattr(Node, "validators", (record,))
        monkeypatch.setattr(Node, "bids", (bid(3_000_000, 9_000), bid(2_000_000, 8_000)))
        forecast = api.dry_run(config(tmp_path))
    # 10^9 FLOP/s for a day at 2,000,000 uassay per PFLOP, of which the providers get 80 %.
    assert forecast.income_per_day == 10**9 * 86_400 * 2_000_000 // 10**15 * 8 // 10
    assert forecast.price_per_pflop == 2_000_000
    assert forecast.bandwidth is not None
    assert forecast.bandwidth > 0
    assert not (tmp_path / "home").exists()


def test_a_dry_run_without_an_answer_or_a_bid_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "ChainClient", Node)
    monkeypatch.setattr(api, "measure_speed", lambda engine: Speed(engine.name, 10**9, 1 << 30))
    with running(tmp_path) as up:
        record = validator_record("127.0.0.1:1", up.certificate.der)
    monkeypatch.setattr(Node, "validators", (record,))
    forecast = api.dry_run(config(tmp_path))
    assert (forecast.bandwidth, forecast.price_per_pflop) == (None, None)
    assert forecast.income_per_day == 0


def test_a_provider_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Provider("p", VALIDATOR, b"", None, 0, 0)
    monkeypatch.setattr(Node, "providers", (asking,))
    chain = api.NodeChain(Node("x"))  # type: ignore[arg-type]
    assert chain.provider("p") == asking
    assert chain.provider("q") is None


def test_leaving_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setattr(api, "ChainClient", Node)
    monkeypatch.setattr(api, "TxSender", lambda client, key: SimpleNamespace(send=lambda *m: sent.extend(m)))
    api.leave(config(tmp_path))
    assert sent == [MsgLeaveCluster(PROVIDER.address)]


def test_a_validator_that_does_not_listen_is_named() -> None:
    silent = replace(validator_record("", b""), moniker="silent")
    known: Any = SimpleNamespace(validator=lambda operator: silent)
    link = Link(known, VALIDATOR, PROVIDER, CHAIN)
    with pytest.raises(ClusterError, match="silent has published no endpoint"):
        link.client()
    empty: Any = SimpleNamespace(validator=lambda operator: None)
    with pytest.raises(ProviderError, match="no validator"):
        Link(empty, VALIDATOR, PROVIDER, CHAIN).client()


def test_the_machine_is_measured_in_a_process_of_its_own() -> None:
    speed = measure_speed(Engine("numpy"), seconds=0.1)
    assert speed.flops > 10**6
    assert speed.memory > 1 << 28


def test_measuring_ends_with_a_stop() -> None:
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(measure_speed, Engine("numpy"), 60.0, stop)
        stop.set()
        with pytest.raises(ProviderError):
            measuring.result(timeout=20)


def test_a_back_end_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ProviderError, match="does not work on this machine"):
        measure_speed(Engine("abacus"), seconds=0.1)


def test_what_computes_is_asked_of_the_process_that_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASSAY_NATIVE", "0")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert what_computes(Engine("native")).startswith("numpy: ASSAY_NATIVE=0")
    assert measure_speed(Engine("native"), seconds=0.1).backend.startswith("numpy: ASSAY_NATIVE=0")
    assert what_computes(Engine("numpy")) == "numpy"
    monkeypatch.setenv("ASSAY_NATIVE", "avx3")
    with pytest.raises(
        ProviderError, match=r"'avx3' is not a known value; use one of 0, avx512vnni, avxvnni, avx2, dotprod, portable"
    ):
        what_computes(Engine("native"))


def test_the_bandwidth_is_measured_without_being_registered(tmp_path: Path) -> None:
    from tests.unit.link.support import STRANGER

    with running(tmp_path) as up, up.client(STRANGER) as client:
        assert measure_bandwidth(client, 3 << 20) > 1 << 20


def test_a_validator_that_sends_byte_by_byte_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[int]()

    class Trickle:
        def call(self, _: object, request: BandwidthRequest) -> BandwidthReply:
            asked.append(request.length)
            return BandwidthReply(b"x")

    monkeypatch.setattr(compute_provider.work.bench, "_WAY_SECONDS", 0.05)
    measured = measure_bandwidth(Trickle())  # type: ignore[arg-type]
    assert measured > 0
    assert len(asked) < 8 << 20
