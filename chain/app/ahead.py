"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

libsecp256k1 runs without the interpreter's lock, so that two threads which alternate between decoding and verifying
keep two cores busy. What they find only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, VerifySignature, sign_doc

log = logging.getLogger(__name__)

Decode = Callable[[bytes], Tx | Refusal]
_WORTH_A_THREAD = 8  # transactions; handing over costs about as much as one signature


class Ahead:
    """Fills the memories of transactions and signatures, and says whose signature held until CheckTx asks."""

    def __init__(self, decode: Decode, verify: VerifySignature) -> None:
        """Both remember what they found."""
        self._decode = decode
        self._verify = verify
        self._held: set[bytes] = set()  # raw bytes
        self._helper = ThreadPoolExecutor(1, "ahead") if (os.cpu_count() or 1) > 1 else None

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Look at a batch. What was not asked for of the batch before is forgotten."""
        self.forget()
        try:
            self._held.update(self._look(state, chain_id, raws))
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")

    def take(self, raw: bytes) -> bool:
        """Tell, once, whether a fetched transaction's signature holds; an account's number and key never change."""
        if raw in self._held:
            self._held.discard(raw)
            return True
        return False

    def forget(self) -> None:
        """Drop what was fetched."""
        self._held.clear()

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._look(state, chain_id, raws)

    def _look(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> list[bytes]:
        """Return whose signatures hold. Each thread has a half of its own: over one heap they fight for the lock."""

        def look(part: Sequence[bytes]) -> list[bytes]:
            return [raw for raw in part if self._holds(state, chain_id, raw)]

        if self._helper is None or len(raws) < _WORTH_A_THREAD:
            return look(raws)
        half = len(raws) // 2
        rest = self._helper.submit(look, raws[half:])
        try:
            held = look(raws[:half])
        finally:  # nobody works on this batch when the next one comes
            others = rest.result()
        return held + others

    def _holds(self, state: Reader, chain_id: str, raw: bytes) -> bool:
        tx = self._decode(raw)
        if isinstance(tx, Refusal):
            return False
        signer = tx.signers[0]  # decoding lets exactly one through
        account = get_account(state, signer.address or signer_of(tx.messages[0]))
        if account is None:
            return False
        doc = sign_doc(tx.body, tx.auth_info, chain_id, account.number)
        return self._verify(signer.pub_key or account.pub_key, doc, signer.signature)
