"""The sender of one key's transactions: it signs them, sends them, and waits until each has ended.

A wait always ends. Every transaction has a timeout height, so it is included, refused or expired. If the chain makes no
blocks, the wait ends after ``patience``. No message can take effect twice. After a broken connection the same bytes are
sent again, and the chain includes them only once. If another program uses the same key, the messages are signed again,
but only when no block can still include the first transaction: its sequence is used up, and it is in no block.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import RLock

from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import (
    ChainError,
    ChainTimeout,
    ErrorKind,
    TxExpired,
    TxRefused,
    code_of,
)
from domain import errors
from domain.errors import UNAUTHORIZED, Refusal
from domain.genesis import DENOM
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.messages import Message, signer_of
from domain.node.params import NodeParams, tx_gas_max
from wire.keys import HedgedKey, Key
from wire.tx import build_tx, build_unsigned_tx

GAS_MARGIN = (13, 10)  # the gas limit as a multiple of the simulated gas, because other transactions may come first
PRICE_MARGIN = (5, 4)
"""The offered price as a multiple of the next block's gas price. The transaction may be in a later block, and two full
blocks raise the price by about this factor."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_BLOCKS_BEFORE_OFFERING_AGAIN = 3
_LONG_SECONDS = 10.0
"""Time (seconds) without a new block after which the user is told why the wait takes long; normally a block comes every
few seconds.
"""
_TRANSIENT = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})
_ODD = frozenset({ErrorKind.BAD_RESPONSE, ErrorKind.REFUSED})
_SEQUENCE_CODES = frozenset({errors.WRONG_SEQUENCE, errors.INVALID_SEQUENCE})


@dataclass(slots=True)
class _Account:
    """The sender's copy of its account number and sequence, and of the chain's id and its bounds on gas."""

    chain_id: str
    number: int
    sequence: int
    lowest_price_millionths: int
    gas_max: int


class TxSender:
    """A sender of transactions that one key signs.

    Any thread may call, and only one transaction is in flight at a time.

    Example::

        sender = assay.TxSender(client, key)
        submission = assay.submit(client, sender, key, job, assay.Request())
    """

    def __init__(
        self,
        client: ChainClient,
        key: Key,
        *,
        gas_price_millionths: int | None = None,
        denom: str = DENOM,
        timeout_blocks: int = 20,
        patience: float = 120.0,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Send with the gas price ``gas_price_millionths``.

        If ``gas_price_millionths`` is None, a transaction offers a quarter more than the chain's gas price at the time
        of signing.

        A wait ends after ``patience`` seconds without a new block. It also ends if transactions of other programs with
        the same key come first for that time. If a wait takes long, ``note`` is called with the reason.
        """
        self._client = client
        self._key = HedgedKey(key.secret)
        self._gas_price = gas_price_millionths
        self._denom = denom
        self._timeout_blocks = timeout_blocks
        self._patience = patience
        self._note = note
        self._account: _Account | None = None
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"TxSender({self.address}, {self._client})"

    @property
    def address(self) -> str:
        """The address of the account that signs and pays."""
        return self._key.address

    def send(
        self, *messages: Message, memo: str = "", in_lane: bool = False, timeout_blocks: int | None = None
    ) -> TxReceipt:
        """Return the receipt of a transaction with these messages once it is in a block.

        A transaction that is ``in_lane`` consists of duties and offers the chain's lowest price. If ``timeout_blocks``
        is given, the transaction expires after this number of blocks and is not signed again. Otherwise it is signed
        again if it expires because the gas price rose.

        Raise TxRefused if the chain refuses the transaction; if the error's ``height`` is 0, the transaction cost
        nothing. Raise TxExpired if no block included it in time, and ChainError if the node cannot be reached.
        """
        for message in messages:
            if signer_of(message) != self.address:
                raise Refusal(
                    UNAUTHORIZED,
                    message.SIGNER,
                    f"{signer_of(message)} is not this key's address",
                    f"sign with the key of that address, or use {self.address} in the message",
                )
        with self._lock:
            try:
                receipt = self._send(messages, memo, in_lane, timeout_blocks)
            except BaseException:
                self._account = None  # the known sequence may be wrong, so it is read again
                raise
            if self._account is not None:
                self._account.sequence += 1
        if receipt.code:
            code = code_of(receipt.codespace, receipt.code)
            raise TxRefused(code, receipt.log, receipt.hash, receipt.height)
        return receipt

    def simulate(self, *messages: Message) -> None:
        """Check, at no cost, that the chain would accept these messages now.

        Raise TxRefused with the reason if the chain would refuse them.
        """
        with self._lock:
            self._account = account = self._account or self._read_account()
            self._estimate(messages, "", account)

    def _send(self, messages: tuple[Message, ...], memo: str, in_lane: bool, timeout_blocks: int | None) -> TxReceipt:
        ends = time.monotonic() + self._patience
        account = self._account or self._read_account()
        while True:
            self._account = account
            gas = self._estimate(messages, memo, account)
            status = self._client.status()
            timeout_height = status.height + (timeout_blocks or self._timeout_blocks)
            price = account.lowest_price_millionths if in_lane else self._offer_price(status.gas_price_millionths)
            raw = build_tx(
                messages,
                self._key,
                chain_id=account.chain_id,
                account_number=account.number,
                sequence=account.sequence,
                fee=self._fee(gas, price),
                gas_limit=gas,
                memo=memo,
                timeout_height=timeout_height,
            )
            try:
                receipt = self._deliver(raw, account.sequence, timeout_height)
            except TxExpired:
                # Full blocks made the price rise above the offer. The transaction can no longer be included.
                is_dearer = self._client.status().gas_price_millionths > price
                is_fixed = in_lane or timeout_blocks is not None or self._gas_price is not None
                if is_fixed or not is_dearer or time.monotonic() >= ends:
                    raise
                continue
            if receipt is not None:
                return receipt
            if time.monotonic() >= ends:
                raise TxRefused(
                    errors.WRONG_SEQUENCE,
                    f"for {self._patience:g} s, other programs sent transactions with this key first",
                )
            account = self._read_account()

    def _read_account(self) -> _Account:
        params = self._client.params()
        chain_id = self._client.status().chain_id
        try:
            account = self._client.account(self.address).account
        except ChainError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise TxRefused(errors.UNKNOWN_ADDRESS, f"{self.address} has no account") from None
            raise
        return _Account(
            chain_id=chain_id,
            number=account.number,
            sequence=account.sequence,
            lowest_price_millionths=params.of(LedgerParams).min_gas_price_millionths,
            gas_max=tx_gas_max(params.of(NodeParams)),
        )

    def _estimate(self, messages: tuple[Message, ...], memo: str, account: _Account) -> int:
        """Return the gas limit: the gas that the simulation used, with a margin.

        If the chain would refuse the messages, the simulation reports the refusal before the transaction costs
        anything.
        """
        raw = build_unsigned_tx(messages, self._key.pub_key, sequence=account.sequence, memo=memo)
        try:
            used = self._client.simulate(raw)
        except ChainError as error:
            if error.code is not None and error.code not in _SEQUENCE_CODES:
                raise TxRefused(error.code, error.reason) from None
            raise
        return min(-(-used * GAS_MARGIN[0] // GAS_MARGIN[1]), account.gas_max)

    def _offer_price(self, gas_price: int) -> int:
        if self._gas_price is not None:
            return self._gas_price
        return -(-gas_price * PRICE_MARGIN[0] // PRICE_MARGIN[1])

    def _fee(self, gas: int, price: int) -> tuple[Coin, ...]:
        amount = -(-gas * price // 10**6)
        return (Coin(self._denom, amount),) if amount else ()

    def _deliver(self, raw: bytes, sequence: int, timeout_height: int) -> TxReceipt | None:
        """Send a transaction until the mempool has it, then wait until it is in a block or can no longer get into one.

        Return None if the transaction is in no block, and its sequence differs from the account's sequence.
        """
        tx_hash = sha256(raw).digest()
        taken = False  # True if the mempool has the transaction.
        lost = False  # True if the mempool may have it, because an answer was lost.
        refused: TxRefused | None = None
        pause = _FIRST_PAUSE
        height = 0
        offered = 0
        moved = time.monotonic()
        reported = False
        while time.monotonic() - moved < self._patience:
            if not reported and time.monotonic() - moved > _LONG_SECONDS:
                reported = True
                where = "the node has the transaction" if taken else "the node has not confirmed it"
                self._note(
                    f"waiting for a block: none has come for {_LONG_SECONDS:g} s ({where}); the wait ends after"
                    f" {self._patience:g} s without one; `assay status` shows whether the chain or its node has stopped"
                )
            if not taken:
                try:
                    refused = self._offer(raw)
                except ChainError as error:
                    if error.kind not in _TRANSIENT and not (lost and error.kind in _ODD):
                        raise
                    lost = True
                else:
                    if refused is not None and refused.code not in _SEQUENCE_CODES and not lost:
                        raise refused
                    # If an answer was lost, a refusal may only show that the first sending arrived. So wait for the
                    # chain's decision.
                    taken = refused is None or refused.code not in _SEQUENCE_CODES
            progress = self._look(tx_hash)
            if progress is not None:
                now, used, receipt = progress
                if receipt is not None:
                    return receipt
                if used > sequence or (used < sequence and not (taken or lost)):
                    return None
                if now >= timeout_height:
                    raise refused if refused and not lost else TxExpired(tx_hash, timeout_height)
                if now > height:
                    height = now
                    moved = time.monotonic()
                offered = offered or now
                if taken and now >= offered + _BLOCKS_BEFORE_OFFERING_AGAIN:
                    # A killed node loses its mempool; another node may have the transaction in its cache.
                    taken = False
                    lost = True
                    offered = 0
            # The pauses are random, so that two senders with one key do not always send at the same time.
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        if refused and not lost:
            raise refused
        raise ChainTimeout(
            f"no new block for {self._patience:g} s, and transaction {tx_hash.hex().upper()} still waits",
            f"check later whether it is in a block; it expires at height {timeout_height}",
        )

    def _offer(self, raw: bytes) -> TxRefused | None:
        """Send a transaction to the mempool once; return the refusal, or None if the mempool has it."""
        result = self._client.broadcast(raw)
        code = code_of(result.codespace, result.code)
        if result.code == 0 or code == errors.TX_IN_CACHE:
            return None
        return TxRefused(code, result.log, result.hash)

    def _look(self, tx_hash: bytes) -> tuple[int, int, TxReceipt | None] | None:
        """Return the height, the account's sequence and the transaction's receipt; None if the node does not answer.

        The receipt is read last. If there is no receipt, no block up to that height has the transaction, so the
        sequence was not used up by this transaction.
        """
        try:
            height = self._client.status().height
            used = self._client.account(self.address).account.sequence
            receipt = self._client.tx(tx_hash)
        except ChainError as error:
            if error.kind is ErrorKind.CLOSED:
                raise
            return None
        if receipt is not None and code_of(receipt.codespace, receipt.code) in _SEQUENCE_CODES:
            receipt = None  # a block refused it for its sequence, so it had no effect and cost nothing
        return height, used, receipt
