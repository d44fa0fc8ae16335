"""``cosmos.mint``: the inflation, and the coins of a year.

cosmpy has Fetch.ai's form of ``Params``, with the inflation itself instead of its bounds. The bounds are parameters of
the component ``mint``, which ``cosmos.params`` answers.
"""

from typing import Any

from cosmpy.protos.cosmos.mint.v1beta1 import mint_pb2 as proto
from cosmpy.protos.cosmos.mint.v1beta1 import query_pb2 as query

from chain.app.services.method import Call, methods
from chain.state_machine.mint.tables import get_minter
from domain.genesis import DENOM
from domain.mint.records import YEAR


def _params(_: Any, call: Call) -> Any:
    """Return the inflation, and a block for each second: coins are minted by the clock."""
    rate = str(get_minter(call.store).inflation)
    return query.QueryParamsResponse(
        params=proto.Params(mint_denom=DENOM, inflation_rate=rate, blocks_per_year=YEAR),
    )


def _inflation(_: Any, call: Call) -> Any:
    return query.QueryInflationResponse(inflation=str(get_minter(call.store).inflation).encode())


def _provisions(_: Any, call: Call) -> Any:
    provisions = get_minter(call.store).annual_provisions
    return query.QueryAnnualProvisionsResponse(annual_provisions=str(provisions).encode())


def _municipal(_: Any, __: Call) -> Any:
    """Return nothing: the chain mints no coins for chosen accounts."""
    return query.QueryMunicipalInflationResponse()


METHODS = methods(
    query.DESCRIPTOR.services_by_name["Query"],
    {
        "Params": _params,
        "Inflation": _inflation,
        "AnnualProvisions": _provisions,
        "MunicipalInflation": _municipal,
    },
)
