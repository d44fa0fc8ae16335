"""``cosmos.bank``: balances, the supply, and the names of the coin."""

from typing import Any

from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.bank.v1beta1.bank_pb2 import DenomUnit, Metadata, Params, SendEnabled
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of
from chain.state_machine.ledger.queries import get_balance, get_balances, get_supply
from domain.bounds import Denom, own_checker
from domain.errors import NOT_FOUND, Refusal
from domain.genesis import DENOM
from wire.address import check_address

_check_denom = own_checker(Denom, "denom")


def _balance(request: Any, call: Call) -> Any:
    return bank.QueryBalanceResponse(balance=_one(request, call))


def _spendable_balance(request: Any, call: Call) -> Any:
    """Return a whole balance: deposits and bonds have left the account, so it holds nothing that is locked."""
    return bank.QuerySpendableBalanceByDenomResponse(balance=_one(request, call))


def _one(request: Any, call: Call) -> Any:
    check_address(request.address, "address")
    _check_denom(request.denom)
    return _coin(request.denom, get_balance(call.state.reader, request.address, request.denom))


def _all_balances(request: Any, call: Call) -> Any:
    coins, pagination = _page_of_balances(request, call)
    return bank.QueryAllBalancesResponse(balances=coins, pagination=pagination)


def _spendable_balances(request: Any, call: Call) -> Any:
    coins, pagination = _page_of_balances(request, call)
    return bank.QuerySpendableBalancesResponse(balances=coins, pagination=pagination)


def _page_of_balances(request: Any, call: Call) -> tuple[list[Any], Any]:
    check_address(request.address, "address")
    page, pagination = page_of(get_balances(call.state.reader, request.address), request.pagination)
    return [_coin(coin.denom, coin.amount) for coin in page], pagination


def _coin(denom: str, amount: int) -> Any:
    return Coin(denom=denom, amount=str(amount))


def _total_supply(request: Any, call: Call) -> Any:
    supply = get_supply(call.state.reader)
    page, pagination = page_of([_coin(supply.denom, supply.amount)], request.pagination)
    return bank.QueryTotalSupplyResponse(supply=page, pagination=pagination)


def _supply_of(request: Any, call: Call) -> Any:
    _check_denom(request.denom)
    supply = get_supply(call.state.reader)
    return bank.QuerySupplyOfResponse(
        amount=_coin(request.denom, supply.amount if supply.denom == request.denom else 0)
    )


def _params(_: Any, __: Call) -> Any:
    return bank.QueryParamsResponse(params=Params(default_send_enabled=True))


def _send_enabled(request: Any, call: Call) -> Any:
    """Return an entry for each denomination that the request names; the list of exceptions is empty."""
    for denom in request.denoms:
        _check_denom(denom)
    known = get_supply(call.state.reader).denom
    entries = [SendEnabled(denom=denom, enabled=True) for denom in request.denoms if denom == known]
    page, pagination = page_of(entries, request.pagination)
    return bank.QuerySendEnabledResponse(send_enabled=page, pagination=pagination)


_METADATA = Metadata(
    name="Assay",
    symbol="ASSAY",
    description="The coin that pays for training on Assay.",
    base=DENOM,
    display="assay",
    denom_units=[DenomUnit(denom=DENOM, exponent=0), DenomUnit(denom="assay", exponent=6)],
)


def _all_metadata(request: Any, _: Call) -> Any:
    page, pagination = page_of([_METADATA], request.pagination)
    return bank.QueryDenomsMetadataResponse(metadatas=page, pagination=pagination)


def _metadata(request: Any, _: Call) -> Any:
    return bank.QueryDenomMetadataResponse(metadata=_metadata_of(request.denom))


def _metadata_by_query(request: Any, _: Call) -> Any:
    return bank.QueryDenomMetadataByQueryStringResponse(metadata=_metadata_of(request.denom))


def _metadata_of(denom: str) -> Any:
    _check_denom(denom)
    if denom != DENOM:
        raise Refusal(NOT_FOUND, "denom", f"metadata of {denom} not found", f"this chain has the coin {DENOM}")
    return _METADATA


METHODS = methods(
    bank.DESCRIPTOR.services_by_name["Query"],
    {
        "Balance": _balance,
        "AllBalances": _all_balances,
        "SpendableBalances": _spendable_balances,
        "SpendableBalanceByDenom": _spendable_balance,
        "TotalSupply": _total_supply,
        "SupplyOf": _supply_of,
        "Params": _params,
        "SendEnabled": _send_enabled,
        "DenomsMetadata": _all_metadata,
        "DenomMetadata": _metadata,
        "DenomMetadataByQueryString": _metadata_by_query,
    },
)
