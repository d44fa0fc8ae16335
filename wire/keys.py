"""secp256k1 keys and signatures: signing for clients, and verification for nodes, which remember valid signatures.

Signatures are 64 bytes, r then s, with s in the lower half of the group's order. A high s is refused, because anyone
can make such a second signature from the first.

coincurve's public functions cannot verify a signature of 64 bytes and cannot keep a parsed key. So this file, and no
other, uses coincurve's bindings of libsecp256k1; a test lists the names that it relies on.
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
"""A generator of lists of valid cases; the first list comes after all cases were taken.

The caller sends True if there is time to verify more cases here and now. After False, only results from elsewhere are
yielded.
"""

VerifyCases = Callable[[Iterable[bytes]], Steps]
"""A function from cases (see :func:`case_of`) to the valid ones."""

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
            except ValueError:  # zero or above the group's order: one in 2^128
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
    """A key that signs with RFC 6979 and additional random data, so that each sending gives a transaction its own hash.

    Without the random data, two programs that send the same messages with the same key at the same time would make the
    same bytes: one transaction, which each would take for its own.
    """

    def sign(self, message: bytes) -> bytes:
        """Return a signature of SHA-256(message): 64 bytes, low s, different each time."""
        entropy = ffi.new("unsigned char[]", secrets.token_bytes(_ENTROPY_BYTES))
        # libsecp256k1's default nonce function, with these bytes as additional data.
        nonce = (ffi.NULL, entropy)
        signature: bytes = self._private.sign_recoverable(message, custom_nonce=nonce)
        return signature[:SIGNATURE_BYTES]


@lru_cache(maxsize=_PUBLIC_KEYS_REMEMBERED)
def _parse_public_key(pub_key: bytes) -> Any:
    """Return libsecp256k1's form of a key, or None if it is not a point of the curve."""
    parsed = ffi.new("secp256k1_pubkey *")
    ok = lib.secp256k1_ec_pubkey_parse(_CONTEXT, parsed, pub_key, len(pub_key))
    return parsed if ok == 1 else None


def verify(pub_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether ``signature`` is ``pub_key``'s signature of SHA-256(message); arguments of any size are safe."""
    case = case_of(pub_key, message, signature)
    return case is not None and verify_case(case)


def case_of(pub_key: bytes, message: bytes, signature: bytes) -> bytes | None:
    """Return the CASE_BYTES that decide whether a signature is valid; None if signature or key has a wrong length."""
    if len(signature) != SIGNATURE_BYTES or len(pub_key) != PUB_KEY_BYTES:
        return None
    # Each part has a fixed length, so joining them is unambiguous.
    return signature + pub_key + sha256(message).digest()


def verify_case(case: bytes) -> bool:
    """Return whether the signature of a case is valid."""
    public = _parse_public_key(case[SIGNATURE_BYTES:-DIGEST_BYTES])
    if public is None:
        return False
    parsed = ffi.new(_SIGNATURE)
    if lib.secp256k1_ecdsa_signature_parse_compact(_CONTEXT, parsed, case[:SIGNATURE_BYTES]) != 1:
        return False
    # libsecp256k1 accepts only a low s here.
    return bool(lib.secp256k1_ecdsa_verify(_CONTEXT, parsed, case[-DIGEST_BYTES:], public) == 1)


def verify_at_once(cases: Iterable[bytes]) -> Steps:
    """Yield the valid cases in one step."""
    yield list(filter(verify_case, cases))


def all_of(steps: Steps) -> Iterator[bytes]:
    """Run all steps, and yield the valid cases."""
    with suppress(StopIteration):
        yield from next(steps)
        while True:
            yield from steps.send(True)


class SignatureVerifier:
    """``verify`` with a memory of valid signatures, so that a transaction is verified once on its way into a block.

    The memory's key is the whole case, not the transaction, and it holds valid cases only. Any thread may call.
    """

    def __init__(self, capacity: int = 200_000, verify_cases: VerifyCases = verify_at_once) -> None:
        """Remember at most ``capacity`` signatures (about 250 bytes each); ``verify_cases`` verifies many at once."""
        self._valid: RecentValues[bytes, bool] = RecentValues(capacity)
        self._verify_cases = verify_cases
        self.verified = 0  # number of signatures that were verified, not remembered

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
        """Return the valid cases. A case is made when it is asked for, while others are already being verified."""
        return set(all_of(self.verify_in_steps(cases)))

    def verify_in_steps(self, cases: Iterable[bytes]) -> Steps:
        """Verify as :meth:`verify_all` does, step by step, so that the caller can do other things in between."""
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
        """Yield once each case that must be verified; put the other valid cases into ``known``."""
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
