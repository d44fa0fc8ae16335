"""Transactions that are made in steps: made and priced here, signed elsewhere, and sent by anyone.

:class:`chain.client.sender.TxSender` does all steps at once, for one key.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError, ChainTimeout, ErrorKind, TxRefused, code_of
from chain.client.sender import GAS_MARGIN, PRICE_MARGIN
from domain import errors
from domain.genesis import DENOM
from domain.ledger.records import Account, Coin
from domain.messages import Message
from domain.node.params import NodeParams, tx_gas_max
from wire.signing import set_fee, to_simulate, unsigned_tx

_PAUSE_SECONDS = 0.3


def make_draft(
    client: ChainClient,
    messages: Sequence[Message],
    *,
    keys: Mapping[str, bytes],
    gas: int | None = None,
    fee: int | None = None,
    price_millionths: int | None = None,
    memo: str = "",
    timeout_height: int = 0,
    payer: str = "",
    granter: str = "",
) -> Any:
    """Return a transaction without signatures, with its gas limit and fee.

    Without ``gas``, the node simulates the transaction. Without ``fee``, the fee is the gas limit times
    ``price_millionths``, or times the chain's price with a margin. ``keys`` are the keys of accounts that the caller
    knows; the chain knows those of accounts that have signed before.
    """
    tx = unsigned_tx(messages, memo=memo, timeout_height=timeout_height, payer=payer, granter=granter)
    limit = estimate_gas(client, tx, keys) if gas is None else gas
    if fee is None:
        price = price_millionths
        if price is None:
            price = -(-client.status().gas_price_millionths * PRICE_MARGIN[0] // PRICE_MARGIN[1])
        fee = -(-limit * price // 10**6)
    set_fee(tx, (Coin(DENOM, fee),) if fee else (), limit)
    return tx


def estimate_gas(client: ChainClient, tx: Any, keys: Mapping[str, bytes]) -> int:
    """Return a gas limit for a transaction: the gas that its simulation uses, with a margin.

    Raise TxRefused if the chain would refuse the transaction.
    """
    raw = to_simulate(tx, lambda address: _key_and_sequence(client, address, keys))
    try:
        used = client.simulate(raw)
    except ChainError as error:
        if error.code is None:
            raise
        raise TxRefused(error.code, error.reason) from None
    most = tx_gas_max(client.params().of(NodeParams))
    return min(-(-used * GAS_MARGIN[0] // GAS_MARGIN[1]), most)


def account_of(client: ChainClient, address: str) -> Account:
    """Return an account; TxRefused if the chain has no such account."""
    try:
        return client.account(address).account
    except ChainError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            raise TxRefused(errors.UNKNOWN_ADDRESS, f"{address} has no account") from None
        raise


def _key_and_sequence(client: ChainClient, address: str, keys: Mapping[str, bytes]) -> tuple[bytes, int]:
    account = account_of(client, address)
    return account.pub_key or keys.get(address, b""), account.sequence


def deliver(
    client: ChainClient, raw: bytes, *, patience: float = 60.0, sleep: Callable[[float], None] = time.sleep
) -> TxReceipt:
    """Send a signed transaction, and return its receipt once it is in a block.

    Raise TxRefused if the mempool or the block refuses it, and ChainTimeout if no block has it within ``patience``
    seconds.
    """
    tx_hash = sha256(raw).digest()
    result = client.broadcast(raw)
    code = code_of(result.codespace, result.code)
    if result.code and code != errors.TX_IN_CACHE:
        raise TxRefused(code, result.log, tx_hash)
    ends = time.monotonic() + patience
    while (receipt := client.tx(tx_hash)) is None:
        if time.monotonic() >= ends:
            shown = tx_hash.hex().upper()
            raise ChainTimeout(
                f"no block has transaction {shown} after {patience:g} s", f"ask later with `assay query tx {shown}`"
            )
        sleep(_PAUSE_SECONDS)
    if receipt.code:
        raise TxRefused(code_of(receipt.codespace, receipt.code), receipt.log, tx_hash, receipt.height)
    return receipt
