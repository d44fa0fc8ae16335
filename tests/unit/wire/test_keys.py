"""Signatures: deterministic, low s, other people's libraries agree, and the memory remembers only what held."""

from hashlib import sha256
from pathlib import Path

import pytest
from coincurve import PrivateKey as LibraryKey
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT
from cosmpy.crypto.keypairs import PrivateKey

from wire.keys import Key, SignatureVerifier, verify

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY = Key(bytes(31) + b"\x07")
MESSAGE = b"what is signed"
SIGNATURE = KEY.sign(MESSAGE)


def high_s(signature: bytes) -> bytes:
    """Return the other signature that the curve would take."""
    s = ORDER - int.from_bytes(signature[32:])
    return signature[:32] + s.to_bytes(32)


def test_rfc_6979_vector() -> None:
    # Published with Trezor's and Bitcoin Core's deterministic signatures: key 1, "Satoshi Nakamoto".
    signature = Key(bytes(31) + b"\x01").sign(b"Satoshi Nakamoto")
    assert signature.hex() == (
        "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8"
        "2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5"
    )


def test_cosmpy_and_this_library_verify_each_other() -> None:
    theirs = PrivateKey(KEY.secret)
    assert theirs.public_key.public_key_bytes == KEY.pub_key
    assert theirs.public_key.verify(MESSAGE, SIGNATURE)
    assert verify(KEY.pub_key, MESSAGE, theirs.sign(MESSAGE, deterministic=True))


@pytest.mark.parametrize("number", range(20))
def test_s_is_always_low(number: int) -> None:
    signature = KEY.sign(b"%d" % number)
    assert int.from_bytes(signature[32:]) <= ORDER // 2
    assert verify(KEY.pub_key, b"%d" % number, signature)
    assert not verify(KEY.pub_key, b"%d" % number, high_s(signature))


BAD = {
    "other message": (KEY.pub_key, MESSAGE + b"!", SIGNATURE),
    "other key": (Key(bytes(31) + b"\x08").pub_key, MESSAGE, SIGNATURE),
    "flipped bit": (KEY.pub_key, MESSAGE, SIGNATURE[:-1] + bytes([SIGNATURE[-1] ^ 1])),
    "high s": (KEY.pub_key, MESSAGE, high_s(SIGNATURE)),
    "zeros": (KEY.pub_key, MESSAGE, bytes(64)),
    "ones": (KEY.pub_key, MESSAGE, b"\xff" * 64),
    "short": (KEY.pub_key, MESSAGE, SIGNATURE[:-1]),
    "long": (KEY.pub_key, MESSAGE, SIGNATURE + b"\x00"),
    "empty": (KEY.pub_key, MESSAGE, b""),
    "key not on the curve": (b"\x02" + b"\xff" * 32, MESSAGE, SIGNATURE),
    "no key": (b"", MESSAGE, SIGNATURE),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_what_does_not_hold_is_false_and_never_remembered(case: tuple[bytes, bytes, bytes]) -> None:
    verifier = SignatureVerifier()
    assert verifier(KEY.pub_key, MESSAGE, SIGNATURE), "the good one, which must not vouch for others"
    assert not verify(*case)
    assert not verifier(*case)
    assert not verifier(*case)
    assert len(verifier) == 1


def test_a_signature_is_verified_once() -> None:
    verifier = SignatureVerifier()
    assert all(verifier(KEY.pub_key, MESSAGE, SIGNATURE) for _ in range(3))
    assert (verifier.verified, len(verifier)) == (1, 1)


def test_the_memory_is_bounded_and_keeps_the_newest() -> None:
    verifier = SignatureVerifier(capacity=10)
    signed = [(KEY.pub_key, b"%d" % i, KEY.sign(b"%d" % i)) for i in range(100)]
    for case in signed:
        assert verifier(*case)
        assert len(verifier) <= 10
    asked = verifier.verified
    assert verifier(*signed[-1])
    assert verifier.verified == asked
    assert verifier(*signed[0])
    assert verifier.verified == asked + 1


def test_parts_cannot_be_shifted_into_each_other() -> None:
    verifier = SignatureVerifier()
    assert verifier(KEY.pub_key, MESSAGE, SIGNATURE)
    assert not verifier(KEY.pub_key + MESSAGE[:1], MESSAGE[1:], SIGNATURE)


def test_a_key_does_not_show_its_secret() -> None:
    assert KEY.secret.hex() not in repr(KEY)
    assert KEY.address in repr(KEY)
    assert Key.generate().secret != Key.generate().secret


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(32), bytes(33), ORDER.to_bytes(32)])
def test_what_is_no_secret_makes_no_key(secret: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the library has its own words
        Key(secret)


def test_the_message_is_hashed_with_sha256_once() -> None:
    digest = sha256(MESSAGE).digest()
    assert not verify(KEY.pub_key, digest, SIGNATURE)


def test_what_is_used_of_coincurves_bindings_is_there() -> None:
    """None of these names is promised by coincurve: where one is gone, `wire/keys.py` is the file to mend."""
    assert GLOBAL_CONTEXT.ctx
    parsed = ffi.new("secp256k1_pubkey *")
    assert lib.secp256k1_ec_pubkey_parse(GLOBAL_CONTEXT.ctx, parsed, KEY.pub_key, 33) == 1
    signature = ffi.new("secp256k1_ecdsa_signature *")
    parse = lib.secp256k1_ecdsa_signature_parse_compact
    assert parse(GLOBAL_CONTEXT.ctx, signature, SIGNATURE) == 1
    digest = sha256(MESSAGE).digest()
    assert lib.secp256k1_ecdsa_verify(GLOBAL_CONTEXT.ctx, signature, digest, parsed) == 1
    nonce = (ffi.NULL, ffi.new("unsigned char[]", bytes(32)))
    recoverable = LibraryKey(KEY.secret).sign_recoverable(MESSAGE, custom_nonce=nonce)
    assert verify(KEY.pub_key, MESSAGE, recoverable[:64])


def test_nobody_else_uses_them() -> None:
    root = Path(__file__).parents[3]
    users = [
        path.relative_to(root).as_posix()
        for package in root.glob("*/__init__.py")
        for path in package.parent.rglob("*.py")
        if "coincurve._" in path.read_text()
    ]
    assert users == ["wire/keys.py"]
