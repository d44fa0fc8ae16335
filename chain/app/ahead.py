"""Decoding and verification of transactions before CheckTx needs them, on two cores; this module decides nothing.

While this thread decodes, and while CheckTx runs, the process of :mod:`chain.app.verifier` may verify transactions that
are already decoded. The results only save work later: CheckTx and blocks give the same answers without them.
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
_GLANCE = 16  # transactions that are taken before checking whether the other process has enough to do

Decode = Callable[[bytes], Tx | Refusal]


class _Batch:
    """Decoded transactions with the known results of their signatures; any thread may take one."""

    def __init__(self, steps: Steps, waiting: dict[bytes, tuple[Tx, bytes]]) -> None:
        """Decode all transactions, which fills ``waiting``: transaction and case by raw bytes."""
        self._steps = steps
        self._waiting = waiting
        self._valid = set(next(steps))
        self._taken = 0
        self._turn = Lock()
        if not waiting:
            steps.close()

    def take(self, raw: bytes) -> Tx | None:
        """Return, once, a transaction whose signature is valid; wait for the result if it is not known yet."""
        known = self._waiting.pop(raw, None)
        if known is None:
            return None
        tx, case = known
        self._taken += 1
        if case not in self._valid or not self._taken % _GLANCE or not self._waiting:
            with self._turn:
                self._go_on(case)
        return tx if case in self._valid else None

    def close(self) -> None:
        """Stop verifying, unless a thread is still in the batch; that thread then stops at its end."""
        if self._turn.acquire(blocking=False):
            try:
                self._steps.close()
            finally:
                self._turn.release()

    def _go_on(self, case: bytes) -> None:
        """Give the other process more work if it needs some, and verify until the result of ``case`` is known."""
        try:
            is_known = False
            while not is_known:
                has_time = case not in self._valid
                self._valid.update(self._steps.send(has_time))
                is_known = case in self._valid
        except StopIteration:
            return
        except Exception:
            log.exception("bug while preparing transactions; CheckTx continues without it")
        if not self._waiting:
            self._steps.close()


class Ahead:
    """The preparation of transactions: it fills the memories, and keeps valid ones until CheckTx asks for them."""

    def __init__(self, decode: Decode, verifier: SignatureVerifier) -> None:
        """Use ``decode`` and ``verifier``, which both remember their results."""
        self._decode = decode
        self._verifier = verifier
        self._batch: _Batch | None = None
        # Account number and key by address; both never change once the account has signed.
        self._accounts: RecentValues[str, tuple[int, bytes]] = RecentValues(_ACCOUNTS_REMEMBERED)

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Prepare a batch; the unused rest of the batch before is dropped."""
        self.forget()
        waiting: dict[bytes, tuple[Tx, bytes]] = {}
        try:
            cases = self._cases(state, chain_id, raws, waiting)
            self._batch = _Batch(self._verifier.verify_in_steps(cases), waiting)
        except Exception:
            log.exception("bug while preparing transactions; CheckTx continues without it")

    def take(self, raw: bytes) -> Tx | None:
        """Return, once, a prepared transaction whose signature is valid; an account's number and key never change."""
        batch = self._batch
        return None if batch is None else batch.take(raw)

    def forget(self) -> None:
        """Drop the prepared batch."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.close()

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that the results are known when its block is decided."""
        self._verifier.verify_all(self._cases(state, chain_id, raws, {}))

    def _cases(
        self,
        state: Reader,
        chain_id: str,
        raws: Sequence[bytes],
        waiting: dict[bytes, tuple[Tx, bytes]],
    ) -> Iterator[bytes]:
        """Yield the case of each signature as soon as its transaction is decoded, and put both into ``waiting``."""
        for raw in raws:
            tx = self._decode(raw)
            if isinstance(tx, Refusal):
                continue
            case = self._case(state, chain_id, tx)
            if case is not None:
                waiting[raw] = tx, case
                yield case

    def _case(self, state: Reader, chain_id: str, tx: Tx) -> bytes | None:
        """Return the case of a transaction's signature; None if the signature cannot be valid."""
        signer = tx.signers[0]  # decoding accepts exactly one signer
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
