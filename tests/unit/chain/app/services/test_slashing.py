"""``cosmos.slashing`` and ``cosmos.evidence`` on a solo node, and as JSON."""

import json
from hashlib import sha256
from typing import Any

import pytest
from cosmpy.protos.cosmos.evidence.v1beta1.evidence_pb2 import Equivocation

from chain.app.rest.forms import to_json
from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from domain.slashing.records import FOREVER
from tests.support.solo_node import CONS_ADDRESS as CONS
from tests.support.solo_node import SoloNode, sign_twice
from wire.address import cons_address_bytes, cons_address_text

PACKAGE = "/cosmos.slashing.v1beta1.Query/"
ADDRESS = cons_address_text(CONS)


@pytest.fixture
def services(node: SoloNode) -> Services:
    node.engine.make_block()
    node.engine.make_block()
    return Services(node.app, node.engine)


def ask(services: Services, name: str, package: str = PACKAGE, **fields: Any) -> Any:
    method = METHODS[package + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_a_consensus_address_has_a_text_form() -> None:
    assert ADDRESS.startswith("assayvalcons1")
    assert cons_address_bytes(ADDRESS, "cons_address") == CONS
    for text in ("", ADDRESS[:-1], ADDRESS.replace("valcons", "valoper"), "x" * len(ADDRESS)):
        with pytest.raises(Refusal, match="use an address that starts with assayvalcons1"):
            cons_address_bytes(text, "cons_address")


def test_a_signing_info(services: Services, node: SoloNode) -> None:
    (info,) = ask(services, "SigningInfos").info
    assert info == ask(services, "SigningInfo", cons_address=ADDRESS).val_signing_info
    assert (info.address, info.start_height, info.missed_blocks_counter) == (ADDRESS, 1, 0)
    assert info.index_offset == node.app.head.block.height - 1
    assert (info.jailed_until.seconds, info.tombstoned) == (0, False)
    with pytest.raises(Refusal, match="SigningInfo not found for validator"):
        ask(services, "SigningInfo", cons_address=cons_address_text(bytes(20)))
    with pytest.raises(Refusal, match="send next_key"):
        ask(services, "SigningInfos", pagination={"key": b"x"})


def test_the_parameters_are_decimal_numbers_over_rest(services: Services) -> None:
    params = json.loads(to_json(ask(services, "Params")))["params"]
    assert params == {
        "signed_blocks_window": "2000",
        "min_signed_per_window": "0.500000000000000000",
        "downtime_jail_duration": "60s",
        "slash_fraction_double_sign": "0.050000000000000000",
        "slash_fraction_downtime": "0.010000000000000000",
    }


def test_evidence_is_found_by_its_hash(services: Services, node: SoloNode) -> None:
    package = "/cosmos.evidence.v1beta1.Query/"
    assert list(ask(services, "AllEvidence", package).evidence) == []
    sign_twice(node)
    (packed,) = ask(services, "AllEvidence", package).evidence
    evidence = Equivocation.FromString(packed.value)
    assert (evidence.consensus_address, evidence.power) == (ADDRESS, 5)
    digest = sha256(packed.value)
    assert ask(services, "Evidence", package, hash=digest.hexdigest().upper()).evidence == packed
    assert ask(services, "Evidence", package, evidence_hash=digest.digest()).evidence == packed
    assert json.loads(to_json(ask(services, "AllEvidence", package)))["evidence"][0]["consensus_address"] == ADDRESS
    with pytest.raises(Refusal, match="not found"):
        ask(services, "Evidence", package, hash="00" * 32)
    with pytest.raises(Refusal, match="send the hash"):
        ask(services, "Evidence", package)
    info = ask(services, "SigningInfo", cons_address=ADDRESS).val_signing_info
    assert (info.tombstoned, info.jailed_until.seconds) == (True, FOREVER)
