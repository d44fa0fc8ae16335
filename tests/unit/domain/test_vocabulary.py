"""Messages name their signer, reasons keep to their ranges, params keep what an order needs."""

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import domain
from domain.codec import to_plain
from domain.events import Change, Event
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.messages import Message, signer_of
from domain.order_params import OrderParams
from domain.params import Params, local_params
from domain.proof.reasons import ShareReason
from domain.queries import Query
from domain.vocabulary import COMPONENTS, MESSAGES
from domain.words import Words


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_who_comes_first_must_sign(cls: Any) -> None:
    """The first field is the party whose money or duty the message touches (protocol section 1.6).

    Cosmos has another order in some of its messages.
    """
    names: dict[str, Any] = {field.name: field.name for field in fields(cls)}
    assert signer_of(cls(**names)) == cls.SIGNER
    if cls.URL.startswith("/assay."):
        assert fields(cls)[0].name == cls.SIGNER


KINDS_OF_WORDS = (("messages", Message), ("events", Change), ("queries", Query))


@pytest.mark.parametrize("words", COMPONENTS, ids=lambda words: words.name)
@pytest.mark.parametrize(("kind", "base"), KINDS_OF_WORDS)
def test_every_word_of_a_component_is_in_its_tuple(words: Words, kind: str, base: Any) -> None:
    folder = Path(domain.__file__).parent / words.name
    listed = getattr(words, kind)
    declared = set()
    if (folder / f"{kind}.py").exists():
        module = import_module(f"domain.{words.name}.{kind}")
        declared = {
            item
            for item in vars(module).values()
            if isinstance(item, type) and issubclass(item, base) and item.__module__ == module.__name__
        }
    assert declared == set(listed)
    assert len(listed) == len(declared)


def test_every_folder_of_words_is_in_the_vocabulary() -> None:
    folders = sorted(path.parent.name for path in Path(domain.__file__).parent.glob("*/words.py"))
    assert folders == sorted(words.name for words in COMPONENTS)


@pytest.mark.parametrize("enum", [CloseReason, LegEnd, ShareReason])
def test_reasons_keep_to_the_ranges(enum: type[CloseReason | LegEnd | ShareReason]) -> None:
    """Consumer 1-9,999, validator or provider 10,000-19,999, network 20,000-29,999."""
    assert all(0 < reason < 30_000 or reason.name == "NONE" for reason in enum)


def test_reasons_say_whose_doing_it_was() -> None:
    assert CloseReason.CANCELLED < 10_000 <= CloseReason.UNSERVED < 20_000 <= CloseReason.SETTLED
    assert LegEnd.PAYLOAD_NOT_DELIVERED < 10_000 <= LegEnd.NO_PROGRESS < 20_000
    assert all(10_000 <= reason < 20_000 for reason in ShareReason if reason)


def test_no_number_means_two_reasons() -> None:
    """CloseReason and LegEnd both begin at 1 for the consumer; ShareReason shares none."""
    shares = {int(reason) for reason in ShareReason}
    assert shares.isdisjoint(int(reason) for reason in (*CloseReason, *LegEnd))


@pytest.mark.parametrize("params", [Params(), local_params()])
def test_an_order_keeps_its_parameters(params: Params) -> None:
    kept = params.for_order()
    assert isinstance(kept, OrderParams)
    for field in fields(OrderParams):
        assert getattr(kept, field.name) == by_name(params)[field.name]


def by_name(params: Params) -> dict[str, int]:
    """Return every parameter, whatever component has it."""
    return {name: value for part in to_plain(params).values() for name, value in part.items()}


def test_defaults_are_those_of_the_protocol() -> None:
    params, local = by_name(Params()), by_name(local_params())
    assert (params["clock_step_max"], local["clock_step_max"]) == (60, 2)
    assert (params["lot_wait"], local["lot_wait"]) == (600, 4)
    assert (params["accept_base"], params["accept_rate"]) == (600, 1_000_000)
    assert (local["accept_base"], local["accept_rate"]) == (60, 10_000_000)
    assert (params["progress_base"], local["progress_base"]) == (3_600, 180)
    assert (params["round_window"], local["round_window"]) == (300, 10)
    assert (params["stage_base"], local["stage_base"]) == (300, 60)
    assert (params["max_attempts"], local["max_attempts"]) == (3, 3)
    assert (params["order_min"], local["order_min"]) == (10 * params["payload_fee"], 10 * local["payload_fee"])
    assert params["decline_stake_bps"] == local["decline_stake_bps"] == 1_000
    assert (params["auditors"], params["audit_places_max"]) == (3, 17)
    assert (local["auditors"], local["audit_places_max"]) == (2, 7)
    assert (params["duty_segments"], local["duty_segments"]) == (2, 32)
    assert (params["audit_segments"], local["audit_segments"]) == (2, 2)
    assert (params["eligible_bps"], local["eligible_bps"]) == (7_500, 7_500)
    assert (params["window_max"], local["window_max"]) == (86_400, 600)
    assert (params["rounds_ahead"], local["rounds_ahead"]) == (16, 16)
    assert (params["audit_room_bps"], local["audit_room_bps"]) == (5_000, 20_000)
    assert (params["promise_wait"], local["promise_wait"]) == (86_400, 60)
    assert (params["slash_bps"], local["slash_bps"]) == (100, 100)
    assert (params["fault_period"], local["fault_period"]) == (2_592_000, 3_600)
    assert (params["jail_time"], local["jail_time"]) == (604_800, 600)
    assert (params["job_bond_bps"], params["decline_fee_bps"]) == (1_000, 1_000)
    assert (params["protocol_bps"], params["audit_bps"]) == (100, 300)
    assert (params["bond_wait"], local["bond_wait"]) == (14 * 86_400, 60)


def test_event_get() -> None:
    event = Event("payment", (("to", "a"), ("amount", "5"), ("to", "b")), 7)
    assert event.get("to") == "a"
    assert event.get("amount") == "5"
    assert event.get("nothing") == ""
