"""``cosmos.auth.v1beta1.Query`` and ``cosmos.bank.v1beta1.Query``, as far as wallets ask."""

from typing import Any

from cosmpy.protos.cosmos.auth.v1beta1 import query_pb2 as auth
from cosmpy.protos.cosmos.auth.v1beta1.auth_pb2 import BaseAccount
from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageResponse
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from google.protobuf.any_pb2 import Any as AnyProto

from chain.app.interfaces import QueryPort
from chain.app.services.call import Handler, typed
from chain.state_machine.ledger.queries import get_account, get_balance, get_balances
from domain.bounds import Denom, own_checker
from domain.errors import NOT_FOUND, Refusal
from wire.address import check_address

check_denom = own_checker(Denom, "denom")


def handlers(app: QueryPort) -> dict[str, Handler]:
    """Return path -> handler."""
    return {
        "/cosmos.auth.v1beta1.Query/Account": typed(
            auth.QueryAccountRequest, lambda request: _account(app, request)
        ),
        "/cosmos.bank.v1beta1.Query/Balance": typed(
            bank.QueryBalanceRequest, lambda request: _balance(app, request)
        ),
        "/cosmos.bank.v1beta1.Query/AllBalances": typed(
            bank.QueryAllBalancesRequest, lambda request: _all_balances(app, request)
        ),
    }


def _account(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    account = get_account(app.view().reader, request.address)
    if account is None:
        # Wallets look for "not found" to tell a new account from a broken node.
        raise Refusal(
            NOT_FOUND, "account", f"{request.address} not found", "send coins to it first"
        )
    pub_key = None
    if account.pub_key:
        pub_key = AnyProto(
            type_url="/cosmos.crypto.secp256k1.PubKey",
            value=PubKey(key=account.pub_key).SerializeToString(),
        )
    found = BaseAccount(
        address=account.address,
        pub_key=pub_key,
        account_number=account.number,
        sequence=account.sequence,
    )
    packed = AnyProto(type_url="/cosmos.auth.v1beta1.BaseAccount", value=found.SerializeToString())
    return auth.QueryAccountResponse(account=packed)


def _balance(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    check_denom(request.denom)
    amount = get_balance(app.view().reader, request.address, request.denom)
    return bank.QueryBalanceResponse(balance=Coin(denom=request.denom, amount=str(amount)))


def _all_balances(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    coins = get_balances(app.view().reader, request.address)
    return bank.QueryAllBalancesResponse(
        balances=[Coin(denom=coin.denom, amount=str(coin.amount)) for coin in coins],
        pagination=PageResponse(total=len(coins)),
    )
