"""Every component has its own record of parameters, and answers, files and changes find each by its name."""

from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import Any

import pytest

from domain.codec import decode, encode, to_plain
from domain.errors import Refusal
from domain.legs.params import LegsParams
from domain.market.params import MarketParams
from domain.node.queries import ComponentParams, Parameter, ParamsResponse
from domain.params import RECORDS, Params, local_params, params_response, read_params
from domain.proof.params import ProofParams
from domain.vocabulary import COMPONENTS
from wire.queries import METHODS, decode_response, encode_response

WITH_PARAMS = [words for words in COMPONENTS if words.params is not None]
PATH = "/assay.registry.v1.Query/Params"


def test_every_component_has_its_record() -> None:
    for words in WITH_PARAMS:
        module: Any = import_module(f"domain.{words.name}.params")
        declared = [
            item
            for item in vars(module).values()
            if is_dataclass(item) and isinstance(item, type) and item.__module__ == module.__name__
        ]
        assert declared == [words.params] == [RECORDS[words.name]]
        assert words.local_params == module.LOCAL == local_params().of(declared[0])
        assert Params().of(declared[0]) == declared[0]()


def test_every_parameter_is_an_integer() -> None:
    values = [value for part in to_plain(Params()).values() for value in part.values()]
    assert {type(value) for value in values} == {int}


def test_the_file_has_them_by_component() -> None:
    plain = to_plain(local_params())
    assert plain["market"] == {"order_min": 5_000, "ttl_max": 604_800, "state_max": 64 * 2**30 + 2**20 + 4}
    assert list(plain) == [words.name for words in WITH_PARAMS]
    assert decode(Params, encode(local_params())) == local_params()


def test_a_change_reaches_the_record_that_has_the_name() -> None:
    changed = local_params().replace(ttl_max=5, auditors=1, accept_base=7)
    assert changed.of(MarketParams) == replace(local_params().of(MarketParams), ttl_max=5)
    assert changed.of(ProofParams) == replace(local_params().of(ProofParams), auditors=1)
    assert changed.of(LegsParams) == replace(local_params().of(LegsParams), accept_base=7)
    assert local_params().replace() == local_params()
    with pytest.raises(TypeError, match="0 components have a parameter ttl"):
        local_params().replace(ttl=5)


def test_an_order_keeps_every_parameter_of_its_record() -> None:
    """Each is another number here, so that none can stand for another one."""
    numbers = {
        field.name: number
        for number, field in enumerate((field for cls in RECORDS.values() for field in fields(cls)), start=1)
    }
    kept = Params().replace(**numbers).for_order()
    assert to_plain(kept) == {name: numbers[name] for name in to_plain(kept)}


def answered(response: ParamsResponse) -> Params:
    """Return the parameters that a client reads of an answer."""
    method = METHODS[PATH]
    return read_params(decode_response(method, encode_response(method, response)))


@pytest.mark.parametrize("params", [Params(), local_params(), Params().replace(answer_fee=2**63 - 1)])
def test_the_answer_has_all_of_them(params: Params) -> None:
    assert answered(params_response(params)) == params


def test_a_component_that_the_client_does_not_know_is_left_out() -> None:
    told = params_response(local_params())
    more = ComponentParams("greetings", (Parameter("kept", 5),))
    assert answered(ParamsResponse((*told.components, more))) == local_params()


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ((Parameter("order_min", 1),), "params.market.ttl_max"),
        ((Parameter("order_min", 1), Parameter("ttl_max", 0)), "params.market.ttl_max"),
        (
            (Parameter("order_min", 1), Parameter("ttl_max", 1), Parameter("more", 1)),
            "params.market.more",
        ),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(parameters: tuple[Parameter, ...], field: str) -> None:
    told = params_response(local_params())
    others = tuple(part for part in told.components if part.component != "market")
    with pytest.raises(Refusal) as caught:
        answered(ParamsResponse((*others, ComponentParams("market", parameters))))
    assert caught.value.field == field
