"""Decoding and verifying transactions before they are asked for, on two cores; nothing is decided here.

While this thread decodes, what it has decoded already may be verified elsewhere (:mod:`chain.app.verifier`). What is
found only saves work later: CheckTx and blocks give the same answers without it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from chain.state_machine.queries import get_account
from chain.state_machine.store import Reader
from domain.errors import Refusal
from domain.messages import signer_of
from domain.tx import Tx, sign_doc
from wire.keys import SignatureVerifier, case_of
from wire.memory import Memory

log = logging.getLogger(__name__)

_ACCOUNTS_REMEMBERED = 65_536

Decode = Callable[[bytes], Tx | Refusal]


class Ahead:
    """Fills the memories of transactions and signatures, and says whose signature held until CheckTx asks."""

    def __init__(self, decode: Decode, verifier: SignatureVerifier) -> None:
        """Both remember what they found."""
        self._decode = decode
        self._verifier = verifier
        self._held: dict[bytes, Tx] = {}  # by raw bytes
        # Number and key by address; what is known of an account that has signed never changes.
        self._accounts: Memory[str, tuple[int, bytes]] = Memory(_ACCOUNTS_REMEMBERED)

    def fetch(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Look at a batch. What was not asked for of the batch before is forgotten."""
        self.forget()
        try:
            self._held.update(self._look(state, chain_id, raws))
        except Exception:
            log.exception("bug in a look ahead; CheckTx goes on without it")

    def take(self, raw: bytes) -> Tx | None:
        """Return, once, a fetched transaction whose signature holds; an account's number and key never change."""
        return self._held.pop(raw, None)

    def forget(self) -> None:
        """Drop what was fetched."""
        self._held.clear()

    def verify_all(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> None:
        """Verify the signatures of a proposal, so that they are known when its block is decided."""
        self._look(state, chain_id, raws)

    def _look(self, state: Reader, chain_id: str, raws: Sequence[bytes]) -> dict[bytes, Tx]:
        """Return the transactions whose signatures hold, by their bytes."""
        looked_at: list[tuple[bytes, Tx, bytes]] = []

        def decoded() -> Iterator[bytes]:
            for raw in raws:
                tx = self._decode(raw)
                if isinstance(tx, Refusal):
                    continue
                case = self._case(state, chain_id, tx)
                if case is not None:
                    looked_at.append((raw, tx, case))
                    yield case

        held = self._verifier.verify_all(decoded())
        return {raw: tx for raw, tx, case in looked_at if case in held}

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
