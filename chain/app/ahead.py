"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

While this thread decodes, and while CheckTx is at work, what is decoded already may be verified elsewhere
(:mod:`chain.app.verifier`). What is found only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, sign_doc
from wire.keys import SignatureVerifier, Steps, case_of
from wire.memory import RecentValues

log = logging.getLogger(__name__)

_ACCOUNTS_REMEMBERED = 65_536
_GLANCE = 16  # transactions that are taken before we look whether others have enough to do

Decode = Callable[[bytes], Tx | Refusal]


class _Batch:
    """Decoded transactions, and what is known of their signatures; any thread may take one."""

    def __init__(self, steps: Steps, waiting: dict[bytes, tuple[Tx, bytes]]) -> None:
        """Have all decoded; that fills ``waiting``: transaction and case by raw bytes."""
        self._steps = steps
        self._waiting = waiting
        self._held = set(next(steps))
        self._taken = 0
        self._turn = Lock()
        if not waiting:
            steps.close()

    def take(self, raw: bytes) -> Tx | None:
        """Return, once, a transaction whose signature holds. Where that is not known yet it is waited for."""
        known = self._waiting.pop(raw, None)
        if known is None:
            return None
        tx, case = known
        self._taken += 1
        if case not in self._held or not self._taken % _GLANCE or not self._waiting:
            with self._turn:
                self._go_on(case)
        return tx if case in self._held else None

    def close(self) -> None:
        """Verify no more of it. Whoever is at work in it does so when nobody else knows it any more."""
        if self._turn.acquire(blocking=False):
            try:
                self._steps.close()
            finally:
                self._turn.release()

    def _go_on(self, case: bytes) -> None:
        """See that others have enough to do, and find out whether ``case`` holds."""
        try:
            is_known = False
            while not is_known:
                has_time = case not in self._held
                self._held.update(self._steps.send(has_time))
                is_known = case in self._held
        except StopIteration:
            return
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")
        if not self._waiting:
            self._steps.close()


class Ahead:
    """Fills the memories of transactions and signatures, and says whose signature held until CheckTx asks."""

    def __init__(self, decode: Decode, verifier: SignatureVerifier) -> None:
        """Both remember what they found."""
        self._decode = decode
        self._verifier = verifier
        self._batch: _Batch | None = None
        # Number and key by address; what is known of an account that has signed never changes.
        self._accounts: RecentValues[str, tuple[int, bytes]] = RecentValues(_ACCOUNTS_REMEMBERED)

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Look at a batch. What was not asked for of the batch before is forgotten."""
        self.forget()
        waiting: dict[bytes, tuple[Tx, bytes]] = {}
        try:
            cases = self._cases(state, chain_id, raws, waiting)
            self._batch = _Batch(self._verifier.verify_in_steps(cases), waiting)
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")

    def take(self, raw: bytes) -> Tx | None:
        """Return, once, a fetched transaction whose signature holds; an account's number and key never change."""
        batch = self._batch
        return None if batch is None else batch.take(raw)

    def forget(self) -> None:
        """Drop what was fetched."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.close()

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._verifier.verify_all(self._cases(state, chain_id, raws, {}))

    def _cases(
        self,
        state: Reader,
        chain_id: str,
        raws: Sequence[bytes],
        found: dict[bytes, tuple[Tx, bytes]],
    ) -> Iterator[bytes]:
        """Yield what decides about signatures as soon as it is decoded, and put it and the transactions into
        ``found``.
        """
        for raw in raws:
            tx = self._decode(raw)
            if isinstance(tx, Refusal):
                continue
            case = self._case(state, chain_id, tx)
            if case is not None:
                found[raw] = tx, case
                yield case

    def _case(self, state: Reader, chain_id: str, tx: Tx) -> bytes | None:
        """Return what decides whether a transaction's signature holds; None where nothing can make it hold."""
        signer = tx.signers[0]  # decoding lets exactly one through
        address = signer.address or signer_of(tx.messages[0])
        known = self._accounts.get(address)
        if known is None:
            account = get_account(state, address)
            if account is None:
                return None
            known = account.number, account.pub_key
            if account.pub_key:
                self._accounts.put(address, known)
        number, pub_key = known
        doc = sign_doc(tx.body, tx.auth_info, chain_id, number)
        return case_of(signer.pub_key or pub_key, doc, signer.signature)
