"""Signs and sends transactions for one key, and waits until each has ended one way or another.

A wait always ends: every transaction has a timeout height, so it is included, refused or expired;
and where the chain itself stands still, patience ends. Nothing is sent twice that could happen
twice: after a broken connection the same bytes go out again, and the chain takes them once.
"""

import time
from dataclasses import dataclass
from hashlib import sha256
from threading import RLock

from chain.client.client import BroadcastResult, ChainClient, TxReceipt
from chain.client.errors import (
    ChainError,
    ChainTimeout,
    ErrorKind,
    TxExpired,
    TxRefused,
    code_of,
)
from chain.types import errors
from chain.types.errors import UNAUTHORIZED, Refusal
from chain.types.genesis import DENOM
from chain.types.limits import GAS_MAX
from chain.types.messages import Message, signer_of
from chain.types.queries import ParamsRequest
from chain.types.records import Coin
from chain.wire.keys import Key
from chain.wire.tx import build_tx, build_unsigned_tx

GAS_MARGIN = (13, 10)  # of what the simulation used: other transactions may come before this one
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_TRANSIENT = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})
_SEQUENCE_CODES = frozenset({errors.WRONG_SEQUENCE, errors.INVALID_SEQUENCE})


@dataclass(slots=True)
class _Account:
    """What the sender knows of its account, and of the chain."""

    chain_id: str
    number: int
    sequence: int
    gas_price_millionths: int


class TxSender:
    """Sends for one key; any thread may call, one transaction is in flight at a time."""

    def __init__(
        self,
        client: ChainClient,
        key: Key,
        *,
        gas_price_millionths: int | None = None,
        denom: str = DENOM,
        timeout_blocks: int = 20,
        patience: float = 120.0,
    ) -> None:
        """Without a gas price, the chain's minimum is paid. ``patience`` is how many seconds
        without a new block end a wait.
        """
        self._client = client
        self._key = key
        self._gas_price = gas_price_millionths
        self._denom = denom
        self._timeout_blocks = timeout_blocks
        self._patience = patience
        self._account: _Account | None = None
        self._lock = RLock()

    @property
    def address(self) -> str:
        """The account that signs and pays."""
        return self._key.address

    def send(self, *messages: Message, memo: str = "") -> TxReceipt:
        """Return the receipt of a transaction with these messages once it is in a block.

        TxRefused where the chain says no (``height`` 0: it cost nothing), TxExpired where no block
        took it, ChainError where the node cannot be reached.
        """
        for message in messages:
            if signer_of(message) != self.address:
                raise Refusal(
                    UNAUTHORIZED,
                    message.SIGNER,
                    f"{signer_of(message)} is not this key's address",
                    f"sign with its key, or name {self.address}",
                )
        with self._lock:
            try:
                receipt = self._send(messages, memo)
            except BaseException:
                self._account = None  # what is known of the sequence may be wrong: read it again
                raise
            if self._account is not None:
                self._account.sequence += 1
        if receipt.code:
            code = code_of(receipt.codespace, receipt.code)
            raise TxRefused(code, receipt.log, receipt.hash, receipt.height)
        return receipt

    def _send(self, messages: tuple[Message, ...], memo: str) -> TxReceipt:
        account = self._account or self._read_account()
        for reread in (False, True):
            if reread:
                account = self._read_account()
            self._account = account
            gas = self._estimate(messages, memo, account)
            timeout_height = self._client.status().height + self._timeout_blocks
            raw = build_tx(
                messages,
                self._key,
                chain_id=account.chain_id,
                account_number=account.number,
                sequence=account.sequence,
                fee=self._fee(gas, account),
                gas_limit=gas,
                memo=memo,
                timeout_height=timeout_height,
            )
            result = self._broadcast(raw)
            code = code_of(result.codespace, result.code)
            if result.code == 0 or code == errors.TX_IN_CACHE:
                return self._wait(raw, result.hash, timeout_height)
            if code not in _SEQUENCE_CODES or reread:
                raise TxRefused(code, result.log, result.hash)
        raise AssertionError("the second round returns or raises")

    def _read_account(self) -> _Account:
        price = self._gas_price
        if price is None:
            price = self._client.query(ParamsRequest()).params.min_gas_price_millionths
        chain_id = self._client.status().chain_id
        try:
            account = self._client.account(self.address).account
        except ChainError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise TxRefused(errors.UNKNOWN_ADDRESS, f"{self.address} has no account") from None
            raise
        return _Account(chain_id, account.number, account.sequence, price)

    def _estimate(self, messages: tuple[Message, ...], memo: str, account: _Account) -> int:
        """Return the gas limit: what a simulation uses, with a margin. A refusal shows here, before
        it costs.
        """
        raw = build_unsigned_tx(messages, self._key.pub_key, sequence=account.sequence, memo=memo)
        try:
            used = self._client.simulate(raw)
        except ChainError as error:
            if error.code is not None and error.code not in _SEQUENCE_CODES:
                raise TxRefused(error.code, error.message) from None
            raise
        return min(-(-used * GAS_MARGIN[0] // GAS_MARGIN[1]), GAS_MAX)

    def _fee(self, gas: int, account: _Account) -> tuple[Coin, ...]:
        amount = -(-gas * account.gas_price_millionths // 10**6)
        return (Coin(self._denom, amount),) if amount else ()

    def _broadcast(self, raw: bytes) -> BroadcastResult:
        """Hand the transaction over. Where the answer is lost, the same bytes go out again, and
        only the chain can say how it ended: whatever is answered now may be about the first time.
        """
        try:
            return self._client.broadcast(raw)
        except ChainError as error:
            if error.kind not in _TRANSIENT:
                raise
        try:
            self._client.broadcast(raw)
        except ChainError as error:
            if error.kind not in _TRANSIENT:
                raise
        return BroadcastResult(sha256(raw).digest(), 0, "", "")

    def _wait(self, raw: bytes, tx_hash: bytes, timeout_height: int) -> TxReceipt:
        """Poll until the transaction is in a block, or cannot come into one any more."""
        pause = _FIRST_PAUSE
        height, moved = 0, time.monotonic()
        while time.monotonic() - moved < self._patience:
            try:
                # The height comes first: a transaction that is not there afterwards is in no block
                # up to it.
                now = self._client.status().height
                receipt = self._client.tx(tx_hash)
            except ChainError as error:
                if error.kind not in _TRANSIENT:
                    raise
                now, receipt = height, None
            if receipt is not None:
                return receipt
            if now >= timeout_height:
                raise TxExpired(tx_hash, timeout_height)
            if now > height:
                height, moved = now, time.monotonic()
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        raise ChainTimeout(
            f"no new block for {self._patience:g} s, and transaction {tx_hash.hex().upper()} waits",
            f"see whether it is in a block later; it expires at height {timeout_height}",
        )
