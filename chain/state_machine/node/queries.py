"""Answers about the chain's head and the parameters."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD, NEXT_EVENT, NS, PARAMS
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.store import Overlay
from domain.node.queries import ParamsRequest, ParamsResponse, StatusRequest, StatusResponse
from domain.params import params_response


def _status(store: Overlay, _: StatusRequest) -> StatusResponse:
    """Return the status of the chain; the node fills in ``app_hash`` and ``solo``."""
    head = HEAD.must(store)
    return StatusResponse(
        chain_id=head.chain_id,
        height=head.height,
        time_ns=head.time_ns,
        clock=head.clock_ns // NS,
        next_event=NEXT_EVENT.get(store),
        app_hash=b"",
        solo=False,
        gas_price_millionths=get_gas_price(store),
    )


def _params(store: Overlay, _: ParamsRequest) -> ParamsResponse:
    return params_response(PARAMS.get(store))


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        StatusRequest: _status,
        ParamsRequest: _params,
    }
)
