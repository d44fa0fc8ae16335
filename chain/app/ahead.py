"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

libsecp256k1 runs without the interpreter's lock, so that two threads which alternate between decoding and verifying
keep two cores busy. What they find only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event

from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, VerifySignature, sign_doc

log = logging.getLogger(__name__)

Decode = Callable[[bytes], Tx | Refusal]
_PART = 16  # transactions that a thread takes at a time: half a millisecond


class _Part:
    """Some transactions of a batch, looked at by one thread."""

    __slots__ = ("done", "held", "raws")

    def __init__(self, raws: Sequence[bytes]) -> None:
        self.raws = raws
        self.held: set[bytes] = set()  # those whose signature holds
        self.done = Event()


class Batch:
    """Transactions that are looked at by whoever has time: a helper, and the thread that waits for them."""

    def __init__(self, look: Callable[[bytes], bool], raws: Sequence[bytes]) -> None:
        """``look`` tells whether a transaction's signature holds."""
        self._look = look
        parts = [_Part(raws[at : at + _PART]) for at in range(0, len(raws), _PART)]
        self._part_of = {raw: part for part in parts for raw in part.raws}
        self._waiting = deque(parts)

    def run(self) -> None:
        """Look at what nobody has begun with, until nothing is left."""
        while self._step():
            pass

    def holds(self, raw: bytes) -> bool:
        """Tell whether a transaction was seen to hold, once. A part that another thread has begun is waited for."""
        part = self._part_of.pop(raw, None)
        if part is None:
            return False
        while not part.done.is_set():
            if not self._step():
                part.done.wait()
        return raw in part.held

    def finish(self) -> None:
        """Look at all of it."""
        for raw in list(self._part_of):
            self.holds(raw)

    def drop(self) -> None:
        """Look at nothing more; who waits for something is told that nothing was seen."""
        with suppress(IndexError):
            while True:
                self._waiting.popleft().done.set()

    def _step(self) -> bool:
        """Look at the next part; False where none is left."""
        try:
            part = self._waiting.popleft()
        except IndexError:
            return False
        try:
            part.held.update(raw for raw in part.raws if self._look(raw))
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")
        finally:
            part.done.set()
        return True


class Ahead:
    """Fills the memories of transactions and signatures, and says whose signature held until CheckTx asks."""

    def __init__(self, decode: Decode, verify: VerifySignature) -> None:
        """Both remember what they found."""
        self._decode = decode
        self._verify = verify
        self._batch = Batch(lambda raw: False, ())
        self._helper = ThreadPoolExecutor(1, "ahead") if (os.cpu_count() or 1) > 1 else None

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Begin with a batch. What was not asked for of the batch before is forgotten."""
        self.forget()
        if self._helper is not None and len(raws) > _PART:
            self._batch = self._begin(state, chain_id, raws)

    def take(self, raw: bytes) -> bool:
        """Tell whether the signature of a fetched transaction holds; an account's number and key never change."""
        return self._batch.holds(raw)

    def forget(self) -> None:
        """Drop what was fetched."""
        self._batch.drop()
        self._batch = Batch(lambda raw: False, ())

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._begin(state, chain_id, raws).finish()

    def _begin(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> Batch:
        batch = Batch(partial(self._holds, state, chain_id), raws)
        if self._helper is not None and len(raws) > _PART:
            self._helper.submit(batch.run)
        return batch

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
