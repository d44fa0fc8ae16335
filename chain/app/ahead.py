"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

libsecp256k1 runs without the interpreter's lock, so that two threads which alternate between decoding and verifying
keep two cores busy. What they find only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from chain.state_machine.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, VerifySignature, sign_doc
from wire.tx import decode_tx

log = logging.getLogger(__name__)

T = TypeVar("T")
_WORTH_A_THREAD = 8  # items; handing over costs about as much as one signature


class Ahead:
    """Fills the memory of signatures, and keeps the transactions of one batch until CheckTx takes them."""

    def __init__(self, verify: VerifySignature) -> None:
        """``verify`` remembers what held."""
        self._verify = verify
        self._fetched: dict[bytes, tuple[Tx, bool]] = {}  # by raw bytes, with: the signature holds
        self._helper = ThreadPoolExecutor(1, "signatures") if (os.cpu_count() or 1) > 1 else None

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Decode and verify a batch. What was not taken of the batch before is forgotten."""
        self.forget()
        try:
            self._in_two_threads(partial(self._fetch, state, chain_id), raws)
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")

    def take(self, raw: bytes) -> tuple[Tx, bool] | None:
        """Return a fetched transaction and whether its signature holds; an account's number and key never change."""
        return self._fetched.pop(raw, None)

    def forget(self) -> None:
        """Drop what was fetched."""
        self._fetched.clear()

    def verify_all(self, state: Reader, chain_id: str, txs: Sequence[Tx]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._in_two_threads(partial(self._holds, state, chain_id), txs)

    def _fetch(self, state: Reader, chain_id: str, raw: bytes) -> None:
        with suppress(Refusal):  # CheckTx will say so
            tx = decode_tx(raw)
            self._fetched[raw] = (tx, self._holds(state, chain_id, tx))

    def _holds(self, state: Reader, chain_id: str, tx: Tx) -> bool:
        signer = tx.signers[0]  # decoding lets exactly one through
        account = get_account(state, signer.address or signer_of(tx.messages[0]))
        if account is None:
            return False
        doc = sign_doc(tx.body, tx.auth_info, chain_id, account.number)
        return self._verify(signer.pub_key or account.pub_key, doc, signer.signature)

    def _in_two_threads(self, work: Callable[[T], object], items: Sequence[T]) -> None:
        def do(part: Sequence[T]) -> None:
            for item in part:
                work(item)

        if self._helper is None or len(items) < _WORTH_A_THREAD:
            do(items)
            return
        half = len(items) // 2
        rest = self._helper.submit(do, items[half:])
        try:
            do(items[:half])
        finally:  # nobody works on this batch when the next one comes
            rest.result()
