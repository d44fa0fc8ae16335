"""Options of the two sides, from the table of conditions."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from assay.cli import conditions
from assay.cli.conditions import condition_options, offer_options, read_offer, read_request
from consumer.request import Request
from domain.market.records import Conditions, Offer
from matching_engine.conditions import OptionKind


def run(options: Any, read: Any, *arguments: str) -> Any:
    """Return what is read of the arguments, or the text with which they are refused."""
    found = []

    @click.command()
    @options
    def command(**values: Any) -> None:
        found.append(read(values))
        assert not values

    result = CliRunner().invoke(command, arguments)
    return found[0] if found else result.output


def test_an_order_asks_for_anything_but_the_tier_by_default() -> None:
    assert run(condition_options, read_request) == Request(
        Conditions(tiers=("exact",)), price_limit=0, time_to_live=600, deadline=86_400, rematch=True
    )


def test_an_order_states_its_conditions() -> None:
    given = "--device-class cpu --memory 8GiB --regions fr,de --tier exact --price-limit 7uassay --deadline 2h"
    request = run(condition_options, read_request, *given.split(), "--no-rematch")
    assert request.conditions == Conditions(device_class="cpu", memory=8 << 30, regions=("de", "fr"), tiers=("exact",))
    assert (request.price_limit, request.deadline, request.rematch) == (7, 7_200, False)


def test_an_order_allows_several_tiers_and_a_bid_offers_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(condition_options, read_request, "--tier", "gold").endswith(
        "'gold' is not one of 'exact', 'sampled', 'replicated', 'tolerance'.\n"
    )
    monkeypatch.setitem(conditions._TYPES, OptionKind.TIER, click.Choice(["exact", "other"]))
    request = run(condition_options, read_request, "--tier", "other", "--tier", "exact")
    assert request.conditions.tiers == ("other", "exact")
    given = ("--price", "5", "--slot-speed", "9", "--tiers", "other, exact")
    assert run(offer_options, read_offer, *given).tiers == ("other", "exact")


def test_a_bid_states_price_and_slot_speed_and_the_rest_has_defaults() -> None:
    assert run(offer_options, read_offer, "--price", "5", "--slot-speed", "9") == Offer(
        price=5,
        slot_speed=9,
        slots=1,
        device_class="cpu",
        memory=1 << 30,
        tiers=("exact",),
        min_work=1,
    )


def test_a_bid_has_as_many_slots_as_an_order_may_have() -> None:
    given = ("--price", "5", "--slot-speed", "9", "--slots")
    assert run(offer_options, read_offer, *given, "1024").slots == 1_024
    assert "0 is not in the range 1<=x<=1024" in run(offer_options, read_offer, *given, "0")
    assert "1025 is not in the range" in run(offer_options, read_offer, *given, "1025")


def test_a_bid_without_price_is_none() -> None:
    assert "Missing option '--price'" in run(offer_options, read_offer, "--slot-speed", "5")
