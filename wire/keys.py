"""secp256k1 keys and signatures: signing for clients, verifying with a bounded memory for nodes.

Signatures are 64 bytes, r then s, with s in the lower half of the group's order; a high s is refused, because it would
be a second signature that anybody can make from the first.

coincurve's public names verify no signature of 64 bytes and keep no parsed key. So this file, and no other, uses its
bindings of libsecp256k1; a test names what it relies on.
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
"""Cases that hold, as they are found, once all cases were taken. What is sent says whether there is time to verify some
more here and now; nothing but what was found elsewhere is told where there is none.
"""

VerifyCases = Callable[[Iterable[bytes]], Steps]
"""From cases (see :func:`case_of`) to those that hold."""

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
        """Take the 32 bytes of the secret; ValueError where they are not a key."""
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
        """Return the signature of SHA-256(message): 64 bytes, low s, the same every time (RFC 6979)."""
        signature: bytes = self._private.sign_recoverable(message)
        return signature[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        """Show the address only."""
        return f"Key({self.address})"


class HedgedKey(Key):
    """A key that signs with RFC 6979 and additional random data, so that a transaction's hash belongs to one sending.

    Two programs that send the same messages with the same key at the same moment would else make the same bytes: one
    transaction, which both would take for their own.
    """

    def sign(self, message: bytes) -> bytes:
        """Return a signature of SHA-256(message): 64 bytes, low s, another one every time."""
        entropy = ffi.new("unsigned char[]", secrets.token_bytes(_ENTROPY_BYTES))
        # The library's own function for nonces, with our bytes.
        nonce = (ffi.NULL, entropy)
        signature: bytes = self._private.sign_recoverable(message, custom_nonce=nonce)
        return signature[:SIGNATURE_BYTES]


@lru_cache(maxsize=_PUBLIC_KEYS_REMEMBERED)
def _parse_public_key(pub_key: bytes) -> Any:
    """Return libsecp256k1's form of a key, or None where it is not a point of the curve."""
    parsed = ffi.new("secp256k1_pubkey *")
    ok = lib.secp256k1_ec_pubkey_parse(_CONTEXT, parsed, pub_key, len(pub_key))
    return parsed if ok == 1 else None


def verify(pub_key: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether ``signature`` is ``pub_key``'s for SHA-256(message); never raises for what it is given."""
    case = case_of(pub_key, message, signature)
    return case is not None and verify_case(case)


def case_of(pub_key: bytes, message: bytes, signature: bytes) -> bytes | None:
    """Return all that decides whether a signature holds, in CASE_BYTES; None where it does not have their form."""
    if len(signature) != SIGNATURE_BYTES or len(pub_key) != PUB_KEY_BYTES:
        return None
    # All have a fixed length, so that joining them is unambiguous.
    return signature + pub_key + sha256(message).digest()


def verify_case(case: bytes) -> bool:
    """Tell whether the signature of a case holds."""
    public = _parse_public_key(case[SIGNATURE_BYTES:-DIGEST_BYTES])
    if public is None:
        return False
    parsed = ffi.new(_SIGNATURE)
    if lib.secp256k1_ecdsa_signature_parse_compact(_CONTEXT, parsed, case[:SIGNATURE_BYTES]) != 1:
        return False
    # libsecp256k1 takes only a low s here.
    return bool(lib.secp256k1_ecdsa_verify(_CONTEXT, parsed, case[-DIGEST_BYTES:], public) == 1)


def verify_at_once(cases: Iterable[bytes]) -> Steps:
    """Yield the cases that hold, in one step."""
    yield list(filter(verify_case, cases))


def all_of(steps: Steps) -> Iterator[bytes]:
    """Go through all steps, and yield what holds."""
    with suppress(StopIteration):
        yield from next(steps)
        while True:
            yield from steps.send(True)


class SignatureVerifier:
    """``verify`` that remembers what held, so that a transaction costs one verification on its way into a block.

    The memory is keyed by the whole case, never by transaction, and holds successes only. Any thread may call.
    """

    def __init__(self, capacity: int = 200_000, verify_cases: VerifyCases = verify_at_once) -> None:
        """Remember at most ``capacity`` signatures (about 250 bytes each); ``verify_cases`` does many at once."""
        self._held: RecentValues[bytes, bool] = RecentValues(capacity)
        self._verify_cases = verify_cases
        self.verified = 0  # how often the curve was really asked

    def __call__(self, pub_key: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether the signature holds."""
        case = case_of(pub_key, message, signature)
        if case is None:
            return False
        if self._held.get(case):
            return True
        self.verified += 1
        if not verify_case(case):
            return False
        self._held.put(case, True)
        return True

    verify = __call__

    def verify_all(self, cases: Iterable[bytes]) -> set[bytes]:
        """Return the cases that hold. Each is made when it is asked for, while others are verified already."""
        return set(all_of(self.verify_in_steps(cases)))

    def verify_in_steps(self, cases: Iterable[bytes]) -> Steps:
        """Verify as :meth:`verify_all` does, step by step, so that others can do something else between them."""
        known: list[bytes] = []
        with closing(self._verify_cases(self._unknown(cases, known))) as steps:
            found = next(steps)
            self._held.put_all(found, True)
            has_time = yield known + found
            with suppress(StopIteration):
                while True:
                    found = steps.send(has_time)
                    self._held.put_all(found, True)
                    has_time = yield found

    def _unknown(self, cases: Iterable[bytes], known: list[bytes]) -> Iterator[bytes]:
        """Yield each case once that has to be verified, and put the others that hold into ``known``."""
        asked: set[bytes] = set()
        for case in cases:
            if self._held.get(case):
                known.append(case)
            elif case not in asked:
                asked.add(case)
                self.verified += 1
                yield case

    def __len__(self) -> int:
        """Return how many signatures are remembered."""
        return len(self._held)
