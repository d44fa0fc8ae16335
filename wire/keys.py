"""secp256k1 keys and signatures: signing for clients, and verification for nodes, which remember valid signatures.

Signatures are 64 bytes, r then s, with s in the lower half of the group's order. A signature with a high s is refused,
because anyone can compute it from the signature with the low s.

coincurve's public functions cannot verify a signature of 64 bytes and cannot keep a parsed key. So this
file uses coincurve's bindings of libsecp256k1, and no other file does. A test lists the names that this file relies on.
"""

import secrets
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, Self

from coincurve import PrivateKey
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from wire.address import PUB_KEY_BYTES, address_of
from wire.memory import RecentValues

SIGNATURE_BYTES = 64
SECRET_BYTES = 32
DIGEST_BYTES = 32
CASE_BYTES = SIGNATURE_BYTES + PUB_KEY_BYTES + DIGEST_BYTES

Steps = Generator[list[bytes], bool, None]
"""A generator that yields lists of valid cases. It reads all cases before it yields the first list.

After each list, the caller sends True or False. After True, the generator may verify more cases in this thread, because
the caller has time. After False, it only collects results from other places, for example from another process.
"""

VerifyCases = Callable[[Iterable[bytes]], Steps]
"""A function that takes cases (see :func:`case_of`) and yields the valid ones in steps."""

_ENTROPY_BYTES = 32
_CONTEXT = GLOBAL_CONTEXT.ctx
_SIGNATURE = ffi.typeof("secp256k1_ecdsa_signature *")
_PUBLIC_KEYS_REMEMBERED = 16_384


class Key:
    """A private key with its public key and address. The secret never appears in ``repr``.

    >>> Key.generate().address[:6]
    'assay1'
    """

    def __init__(self, secret: bytes) -> None:
        """Take the 32 bytes of the secret; ValueError if they are not a private key."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a private key has {SECRET_BYTES} bytes, not {len(secret)}")
        self._private = PrivateKey(secret)
        self.pub_key: bytes = self._private.public_key.format(compressed=True)
        self.address = address_of(self.pub_key)

    @classmethod
    def generate(cls) -> Self:
        """Return a new random key."""
        while True:
            try:
                return cls(secrets.token_bytes(SECRET_BYTES))
            except ValueError:  # the bytes are zero or above the group's order: one in 2^128
                continue

    @property
    def secret(self) -> bytes:
        """The 32 bytes of the private key."""
        value: bytes = self._private.secret
        return value

    def sign(self, message: bytes) -> bytes:
        """Return the signature of SHA-256(message): 64 bytes, low s, the same each time (RFC 6979)."""
        signature: bytes = self._private.sign_recoverable(message)
        return signature[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        """Show the address only."""
        return f"Key({self.address})"


class HedgedKey(Key):
    """A key that signs with additional random data, so that a transaction has another hash each time it is signed.

    The signatures follow RFC 6979 with additional data. Without that data, two programs that send the same messages
    with the same key at the same time would make the same bytes. The two transactions would then be the same
    transaction, and each program would believe that the transaction was its own.
    """

    def sign(self, message: bytes) -> bytes:
        """Return a signature of SHA-256(message): 64 bytes, low s, different each time."""
        entropy = ffi.new("unsigned char[]", secrets.token_bytes(_ENTROPY_BYTES))
        # NULL stands for libsecp256k1's default nonce function, which takes these bytes as additional data.
        nonce = (ffi.NULL, entropy)
        signature: bytes = self._private.sign_recoverable(message, custom_nonce=nonce)
        return signature[:SIGNATURE_BYTES]


@lru_cache(maxsize=_PUBLIC_KEYS_REMEMBERED)
def _parse_public_key(pub_key: bytes) -> Any:
    """Return the key as libsecp256k1 parses it, or None if the bytes are not a point of the curve."""
    parsed = ffi.new("secp256k1_pubkey *")
    ok = lib.secp256k1_ec_pubkey_parse(_CONTEXT, parsed, pub_key, len(pub_key))
    return parsed if ok == 1 else None


def verify(pub_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether ``signature`` is ``pub_key``'s signature of SHA-256(message).

    The arguments may have any size. A key or signature of a wrong size gives False.
    """
    case = case_of(pub_key, message, signature)
    return case is not None and verify_case(case)


def case_of(pub_key: bytes, message: bytes, signature: bytes) -> bytes | None:
    """Return the case of a signature: signature, public key and the message's SHA-256, joined to CASE_BYTES bytes.

    The case alone decides whether the signature is valid. Return None if the signature or the key has a wrong length.
    """
    if len(signature) != SIGNATURE_BYTES or len(pub_key) != PUB_KEY_BYTES:
        return None
    # Each part has a fixed length, so joining them is unambiguous.
    return signature + pub_key + sha256(message).digest()


def verify_case(case: bytes) -> bool:
    """Return whether the signature in a case (see :func:`case_of`) is valid."""
    public = _parse_public_key(case[SIGNATURE_BYTES:-DIGEST_BYTES])
    if public is None:
        return False
    parsed = ffi.new(_SIGNATURE)
    if lib.secp256k1_ecdsa_signature_parse_compact(_CONTEXT, parsed, case[:SIGNATURE_BYTES]) != 1:
        return False
    # libsecp256k1 accepts only a low s here.
    return bool(lib.secp256k1_ecdsa_verify(_CONTEXT, parsed, case[-DIGEST_BYTES:], public) == 1)


def verify_at_once(cases: Iterable[bytes]) -> Steps:
    """Verify all cases here, and yield the list of the valid ones in one step."""
    yield list(filter(verify_case, cases))


def all_of(steps: Steps) -> Iterator[bytes]:
    """Run all steps of a verification, and yield each valid case."""
    with suppress(StopIteration):
        yield from next(steps)
        while True:
            yield from steps.send(True)


class SignatureVerifier:
    """A verifier that remembers valid signatures, so that a node verifies each signature only once.

    The memory holds whole cases (see :func:`case_of`), not transactions, and only valid ones. Any thread may call the
    verifier.
    """

    def __init__(self, capacity: int = 200_000, verify_cases: VerifyCases = verify_at_once) -> None:
        """Remember at most ``capacity`` signatures (about 250 bytes each); ``verify_cases`` verifies many at once."""
        self._valid: RecentValues[bytes, bool] = RecentValues(capacity)
        self._verify_cases = verify_cases
        self.verified = 0  # number of signatures that were verified, because the memory did not have them

    def __call__(self, pub_key: bytes, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is valid."""
        case = case_of(pub_key, message, signature)
        if case is None:
            return False
        if self._valid.get(case):
            return True
        self.verified += 1
        if not verify_case(case):
            return False
        self._valid.put(case, True)
        return True

    verify = __call__

    def verify_all(self, cases: Iterable[bytes]) -> set[bytes]:
        """Return the set of the valid cases among ``cases``.

        A case is taken from ``cases`` only when it is needed, while earlier cases are already being verified.
        """
        return set(all_of(self.verify_in_steps(cases)))

    def verify_in_steps(self, cases: Iterable[bytes]) -> Steps:
        """Yield the valid cases step by step, so that the caller can do other things between the steps.

        Apart from that, the method verifies as :meth:`verify_all` does.
        """
        known: list[bytes] = []
        with closing(self._verify_cases(self._unknown(cases, known))) as steps:
            valid = next(steps)
            self._valid.put_all(valid, True)
            has_time = yield known + valid
            with suppress(StopIteration):
                while True:
                    valid = steps.send(has_time)
                    self._valid.put_all(valid, True)
                    has_time = yield valid

    def _unknown(self, cases: Iterable[bytes], known: list[bytes]) -> Iterator[bytes]:
        """Yield each case that must be verified, once. Add the cases that are known to be valid to ``known``."""
        asked: set[bytes] = set()
        for case in cases:
            if self._valid.get(case):
                known.append(case)
            elif case not in asked:
                asked.add(case)
                self.verified += 1
                yield case

    def __len__(self) -> int:
        """Return the number of remembered signatures."""
        return len(self._valid)
