"""Preparation of transactions on two cores: they are decoded and verified before CheckTx needs them.

While this thread decodes, and while CheckTx runs, the process of :mod:`chain.app.verifier` may verify transactions that
are already decoded. The results only save work: without them, CheckTx and blocks would give the same answers.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from chain.state_machine.ledger.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.tx import Tx, signers_of
from wire.keys import SignatureVerifier, Steps, case_of
from wire.memory import RecentValues

log = logging.getLogger(__name__)

_ACCOUNTS_REMEMBERED = 65_536
_GLANCE = 16  # Number of transactions that are taken between two checks that the other process has enough to do.

Decode = Callable[[bytes], Tx | Refusal]


Waiting = dict[bytes, tuple[Tx, tuple[bytes, ...]]]
"""Transactions with the cases of their signatures, by their raw bytes."""


class _Batch:
    """A batch of decoded transactions and the results of their signature checks. Any thread may take a transaction."""

    def __init__(self, steps: Steps, waiting: Waiting) -> None:
        """Decode all transactions of the batch.

        ``steps`` decodes the transactions and fills ``waiting``.
        """
        self._steps = steps
        self._waiting = waiting
        self._valid = set(next(steps))
        self._taken = 0
        self._turn = Lock()
        if not waiting:
            steps.close()

    def take(self, raw: bytes) -> Tx | None:
        """Return the transaction with the bytes ``raw`` if its signatures are valid, else None.

        If a signature is not checked yet, wait for the result. Each transaction is returned only once.
        """
        known = self._waiting.pop(raw, None)
        if known is None:
            return None
        tx, cases = known
        self._taken += 1
        for case in cases:
            if case not in self._valid or not self._taken % _GLANCE or not self._waiting:
                with self._turn:
                    self._go_on(case)
            if case not in self._valid:
                return None
        return tx

    def close(self) -> None:
        """Stop the verification. If a thread is inside the batch, that thread stops the verification when it leaves."""
        if self._turn.acquire(blocking=False):
            try:
                self._steps.close()
            finally:
                self._turn.release()

    def _go_on(self, case: bytes) -> None:
        """Verify until the result of ``case`` is known, and give the other process more work if it needs some."""
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
    """The preparation of transactions for CheckTx: it decodes and verifies a batch, and keeps it until CheckTx asks."""

    def __init__(self, decode: Decode, verifier: SignatureVerifier) -> None:
        """Use ``decode`` to decode transactions and ``verifier`` to check signatures; both remember their results."""
        self._decode = decode
        self._verifier = verifier
        self._batch: _Batch | None = None
        # Account number and public key by address. Neither changes after the account's first signature.
        self._accounts: RecentValues[str, tuple[int, bytes]] = RecentValues(_ACCOUNTS_REMEMBERED)

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Decode a batch of transactions and start to verify their signatures.

        Drop the rest of the previous batch.
        """
        self.forget()
        waiting: Waiting = {}
        try:
            cases = self._cases(state, chain_id, raws, waiting)
            self._batch = _Batch(self._verifier.verify_in_steps(cases), waiting)
        except Exception:
            log.exception("bug while preparing transactions; CheckTx continues without it")

    def take(self, raw: bytes) -> Tx | None:
        """Return the prepared transaction with the bytes ``raw`` if its signature is valid, else None.

        Each transaction is returned only once. The result stays true, because an account's number and key never
        change.
        """
        batch = self._batch
        return None if batch is None else batch.take(raw)

    def forget(self) -> None:
        """Drop the prepared batch."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.close()

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal now, so that their results are known when its block is decided."""
        self._verifier.verify_all(self._cases(state, chain_id, raws, {}))

    def _cases(
        self,
        state: Reader,
        chain_id: str,
        raws: Sequence[bytes],
        waiting: Waiting,
    ) -> Iterator[bytes]:
        """Yield the case of each signature as soon as its transaction is decoded.

        Before a transaction's first yield, store it with its cases in ``waiting`` under its raw bytes.
        """
        for raw in raws:
            tx = self._decode(raw)
            if isinstance(tx, Refusal):
                continue
            cases = self._cases_of(state, chain_id, tx)
            if cases is not None:
                waiting[raw] = tx, cases
                yield from cases

    def _cases_of(self, state: Reader, chain_id: str, tx: Tx) -> tuple[bytes, ...] | None:
        """Return the cases to verify for a transaction; None if a signature cannot be valid."""
        signers = tx.signers
        addresses = signers_of(tx)
        if len(addresses) != len(signers):
            return None
        if len(signers) == 1 and not signers[0].parts:  # as almost always: no part needs to be made
            (signer,) = signers
            known = self._accounts.get(addresses[0]) or self._account(state, addresses[0])
            if known is None:
                return None
            document = tx.document(signer.mode, chain_id, known[0], signer.sequence)
            case = case_of(signer.pub_key or known[1], document, signer.signature)
            return None if case is None else (case,)
        cases: list[bytes] = []
        for at, signer in enumerate(signers):
            known = self._accounts.get(addresses[at]) or self._account(state, addresses[at])
            if known is None:
                return None
            number, account_key = known
            for part in signer.signatures(account_key):
                document = tx.document(part.mode, chain_id, number, signer.sequence)
                case = case_of(part.key, document, part.signature)
                if case is None:
                    return None
                cases.append(case)
        return tuple(cases)

    def _account(self, state: Reader, address: str) -> tuple[int, bytes] | None:
        """Return an account's number and key as the state has them, or None."""
        account = get_account(state, address)
        if account is None:
            return None
        if account.pub_key:
            self._accounts.put(address, (account.number, account.pub_key))
        return account.number, account.pub_key
