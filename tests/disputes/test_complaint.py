"""A validator's process hands over noise, and the consumer's command proves it to a node's process."""

import sys
from pathlib import Path

import pytest

from domain.errors import Exit
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from tests.support.market_network import market_network, quick_params
from tests.support.noisy_validator import NOISY
from tests.unit.assay.support import assay

STRANGERS = ("val1.validator", "val2.validator")
SECONDS = 600.0

pytestmark = pytest.mark.timeout(900)


def test_a_consumer_proves_noise_with_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the states of the last round are handed over, so the first round is verified and paid whatever lots draw.
    params = quick_params(handover_every=2)
    with market_network(tmp_path / "network", (("",), (), ()), params, lambda _: 200_000) as market:
        network = market.network
        real = network._command

        def command(name: str) -> list[str]:
            honest = real(name)
            if name != "val0.validator":
                return honest
            return [sys.executable, "-m", "tests.support.noisy_validator", *honest[3:]]

        monkeypatch.setattr(network, "_command", command)
        network.kill("val0.validator")
        network.start_one("val0.validator")
        market.bid("val0", "here")
        order = market.submit("here", deadline=1_200)
        order.wait_state(OrderState.RUNNING, SECONDS)
        for name in STRANGERS:  # their panel may draw the noise, and rule before the consumer proves it
            network.pause(name)
        order.wait_state(OrderState.PROVEN, SECONDS)
        job = ("--job", market.job_directory)
        home = market.layout.consumer_home
        taken = ("--early", "--yes")
        ran = assay("order", "result", order.id.hex(), "-o", tmp_path / "model.safetensors", *job, *taken, home=home)
        assert ran.code == Exit.REFUSED.value
        assert f"result chunk {NOISY}: does not decrypt" in ran.err
        assert "assay order complain" in ran.err
        assert not (tmp_path / "model.safetensors").exists()
        ran = assay("order", "complain", order.id.hex(), *job, home=home)
        assert ran.code == 0, ran.err
        assert f"chunk {NOISY} does not decrypt" in ran.out
        for name in STRANGERS:
            network.resume(name)
        on_chain = order.wait_closed(SECONDS)
        first, last = on_chain.rounds
        assert first.verified
        # If the panel has drawn the noise, the last round is void. Then the order opens again, and no bid is left.
        assert order.close_reason is (CloseReason.EXPIRED if last.void else CloseReason.FAILED)
        assert LegEnd(on_chain.legs[0].end_reason) is LegEnd.WRONG_HANDOVER
        assert order.paid("compensation") > 0
        assert order.paid("provider") > 0
        assert order.paid("validator") == 0
