"""``cosmos.mint`` on a solo node, and as JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from chain.app.rest.forms import to_json
from chain.app.services.table import METHODS, Services
from domain.mint.records import YEAR
from domain.params import local_params
from domain.staking.records import ONE
from tests.support.solo_node import RICH, SoloNode, genesis, running

MINT = "/cosmos.mint.v1beta1.Query/"


def ask(node: SoloNode, name: str) -> Any:
    method = METHODS[MINT + name]
    services = Services(node.app, node.engine)
    return method.response.FromString(services.call(method.path, method.request().SerializeToString()).data)


def test_a_chain_mints_nothing_unless_governance_says_so(node: SoloNode) -> None:
    node.engine.make_block()
    assert ask(node, "Inflation").inflation == b"0"
    assert ask(node, "AnnualProvisions").annual_provisions == b"0"
    assert list(ask(node, "MunicipalInflation").inflations) == []


def test_the_inflation_is_a_decimal_number_over_rest(tmp_path: Path) -> None:
    """``Params`` has cosmpy's form; a block for each second stands for minting by the clock."""
    rate = ONE // 8
    params = local_params().replace(inflation_max=rate, inflation_min=rate)
    with running(tmp_path, chain=replace(genesis(), params=params)) as node:
        node.engine.make_block()
        assert ask(node, "Inflation").inflation == str(rate).encode()
        assert json.loads(to_json(ask(node, "Inflation"))) == {"inflation": "0.125000000000000000"}
        supply = 3 * RICH + 10_000_000
        assert json.loads(to_json(ask(node, "AnnualProvisions"))) == {
            "annual_provisions": f"{supply // 8}.000000000000000000"
        }
        assert json.loads(to_json(ask(node, "Params")))["params"] == {
            "mint_denom": "uassay",
            "inflation_rate": "0.125000000000000000",
            "blocks_per_year": str(YEAR),
        }
