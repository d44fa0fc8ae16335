"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

libsecp256k1 runs without the interpreter's lock, so that two threads which alternate between decoding and verifying
keep two cores busy. What they find only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, VerifySignature, sign_doc

log = logging.getLogger(__name__)

Decode = Callable[[bytes], Tx | Refusal]
_WORTH_A_THREAD = 8  # transactions; handing over costs about as much as one signature


class Batch:
    """Transactions that are looked at by whoever has time: a helper, and the thread that asks for them in order."""

    def __init__(self, look: Callable[[bytes], bool], raws: Iterable[bytes]) -> None:
        """``look`` tells whether a transaction's signature holds."""
        self._look = look
        self._waiting = deque(dict.fromkeys(raws))
        self._unasked = set(self._waiting)
        self._held: dict[bytes, bool] = {}
        self._help: Future[None] | None = None

    def share(self, helper: Executor) -> None:
        """Let a helper look, too."""
        self._help = helper.submit(self._run)

    def holds(self, raw: bytes) -> bool:
        """Tell whether a transaction was seen to hold, once; until that is known, look at others."""
        if raw not in self._unasked:
            return False
        self._unasked.discard(raw)
        while raw not in self._held:
            if not self._step():
                self._join()
                break
        return self._held.get(raw, False)

    def finish(self) -> None:
        """Look at all of it."""
        self._run()
        self._join()

    def drop(self) -> None:
        """Look at nothing more."""
        self._waiting.clear()

    def _run(self) -> None:
        while self._step():
            pass

    def _join(self) -> None:
        """Wait for the helper's last look, if it came to look at all."""
        if self._help is not None and not self._help.cancel():
            self._help.result()

    def _step(self) -> bool:
        """Look at the next transaction; False where none is left."""
        try:
            raw = self._waiting.popleft()
        except IndexError:
            return False
        try:
            self._held[raw] = self._look(raw)
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")
            self._held[raw] = False
        return True


_NOTHING = Batch(lambda raw: False, ())


class Ahead:
    """Fills the memories of transactions and signatures, and says whose signature held until CheckTx asks."""

    def __init__(self, decode: Decode, verify: VerifySignature) -> None:
        """Both remember what they found."""
        self._decode = decode
        self._verify = verify
        self._batch = _NOTHING
        self._helper = ThreadPoolExecutor(1, "ahead") if (os.cpu_count() or 1) > 1 else None

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Begin with a batch. What was not asked for of the batch before is forgotten."""
        self.forget()
        if self._helper is not None and len(raws) >= _WORTH_A_THREAD:
            self._batch = self._begin(state, chain_id, raws)

    def take(self, raw: bytes) -> bool:
        """Tell whether the signature of a fetched transaction holds; an account's number and key never change."""
        return self._batch.holds(raw)

    def forget(self) -> None:
        """Drop what was fetched."""
        self._batch.drop()
        self._batch = _NOTHING

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._begin(state, chain_id, raws).finish()

    def _begin(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> Batch:
        batch = Batch(partial(self._holds, state, chain_id), raws)
        if self._helper is not None and len(raws) >= _WORTH_A_THREAD:
            batch.share(self._helper)
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
