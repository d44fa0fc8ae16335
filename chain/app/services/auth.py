"""``cosmos.auth``: accounts, the accounts of pots, and addresses."""

from collections.abc import Iterator
from typing import Any

from bech32 import bech32_decode, bech32_encode, convertbits
from cosmpy.protos.cosmos.auth.v1beta1 import query_pb2 as auth
from cosmpy.protos.cosmos.auth.v1beta1.auth_pb2 import BaseAccount, ModuleAccount, Params
from google.protobuf.any_pb2 import Any as AnyProto

from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of_keys
from chain.state_machine.ledger.queries import get_account
from chain.state_machine.ledger.tables import ACCOUNTS
from domain.errors import INVALID_ADDRESS, INVALID_REQUEST, NOT_FOUND, Refusal
from domain.ledger.records import Account
from domain.limits import MEMO_BYTES_MAX, MULTISIG_KEYS_MAX, SIGNERS_MAX
from domain.vocabulary import POTS
from wire.address import PREFIX, check_address
from wire.multisig import key_proto

_ADDRESS_BYTES_MAX = 64


def _account(request: Any, call: Call) -> Any:
    return auth.QueryAccountResponse(account=_pack(_base_account(_find(request.address, call))))


def _account_info(request: Any, call: Call) -> Any:
    return auth.QueryAccountInfoResponse(info=_base_account(_find(request.address, call)))


def _find(address: str, call: Call) -> Account:
    check_address(address, "address")
    account = get_account(call.state.reader, address)
    if account is None:
        # Wallets tell a new account from a broken node by the words "not found".
        raise Refusal(NOT_FOUND, "account", f"{address} not found", "send coins to it first")
    return account


def _accounts(request: Any, call: Call) -> Any:
    def rows(after: bytes) -> Iterator[Account]:
        for (address,) in ACCOUNTS.keys(call.store, after=(after,) if after else ()):
            yield ACCOUNTS.must(call.store, address.decode())

    page, pagination = page_of_keys(rows, lambda account: account.address.encode(), request.pagination)
    packed = [_pack(_base_account(account)) for account in page]
    return auth.QueryAccountsResponse(accounts=packed, pagination=pagination)


def _base_account(account: Account) -> Any:
    return BaseAccount(
        address=account.address,
        pub_key=key_proto(account.pub_key) if account.pub_key else None,
        account_number=account.number,
        sequence=account.sequence,
    )


def _pack(message: Any) -> Any:
    return AnyProto(type_url=f"/{message.DESCRIPTOR.full_name}", value=message.SerializeToString())


def _params(_: Any, __: Call) -> Any:
    """Return the limits of transactions in the SDK's terms. Fees do not depend on the size of a signature."""
    signatures = SIGNERS_MAX * MULTISIG_KEYS_MAX
    return auth.QueryParamsResponse(params=Params(max_memo_characters=MEMO_BYTES_MAX, tx_sig_limit=signatures))


def _module_accounts(_: Any, __: Call) -> Any:
    return auth.QueryModuleAccountsResponse(accounts=[_pack(_pot_account(name)) for name in _POT_NAMES])


def _module_account(request: Any, _: Call) -> Any:
    if request.name not in _POT_NAMES:
        remedy = f"use one of {', '.join(_POT_NAMES)}"
        raise Refusal(NOT_FOUND, "name", f"account {request.name[:64]} not found", remedy)
    return auth.QueryModuleAccountByNameResponse(account=_pack(_pot_account(request.name)))


_POT_NAMES = tuple(name for name, pot in POTS.items() if pot.address)


def _pot_account(name: str) -> Any:
    return ModuleAccount(base_account=BaseAccount(address=POTS[name].address), name=name)


def _prefix(_: Any, __: Call) -> Any:
    return auth.Bech32PrefixResponse(bech32_prefix=PREFIX)


def _address_text(request: Any, _: Call) -> Any:
    data = bytes(request.address_bytes)
    if not 0 < len(data) <= _ADDRESS_BYTES_MAX:
        raise Refusal(INVALID_REQUEST, "address_bytes", f"has {len(data)} bytes", "send the 20 bytes of an address")
    return auth.AddressBytesToStringResponse(address_string=bech32_encode(PREFIX, convertbits(data, 8, 5) or []))


def _address_bytes(request: Any, _: Call) -> Any:
    prefix, words = bech32_decode(request.address_string)
    data = convertbits(words, 5, 8, False) if prefix == PREFIX and words is not None else None
    if not data:
        raise Refusal(INVALID_ADDRESS, "address_string", "is not an address of this chain", f"send {PREFIX}1…")
    return auth.AddressStringToBytesResponse(address_bytes=bytes(data))


METHODS = methods(
    auth.DESCRIPTOR.services_by_name["Query"],
    {
        "Account": _account,
        "AccountInfo": _account_info,
        "Accounts": _accounts,
        "Params": _params,
        "ModuleAccounts": _module_accounts,
        "ModuleAccountByName": _module_account,
        "Bech32Prefix": _prefix,
        "AddressBytesToString": _address_text,
        "AddressStringToBytes": _address_bytes,
    },
)
