"""A key has one value for a message, and nobody can show another one."""

from hashlib import sha256

import pytest
from coincurve import PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.vrf import (
    GROUP_ORDER,
    POINT_BYTES,
    PROOF_BYTES,
    SCALAR_BYTES,
    hash_to_curve,
    prove,
    value_of,
    verify,
)

SECRET, OTHER = sha256(b"one").digest(), sha256(b"other").digest()
KEY, OTHER_KEY = (PrivateKey(secret).public_key.format() for secret in (SECRET, OTHER))
MESSAGE = b"message"
PROOF = prove(SECRET, MESSAGE)
C, S = PROOF[POINT_BYTES:-SCALAR_BYTES], PROOF[-SCALAR_BYTES:]

secrets = st.integers(1, GROUP_ORDER - 1).map(lambda number: number.to_bytes(32, "big"))


@settings(max_examples=25)
@given(secret=secrets, message=st.binary(max_size=100))
def test_the_holder_of_a_key_shows_its_value(secret: bytes, message: bytes) -> None:
    key = PrivateKey(secret).public_key.format()
    proof = prove(secret, message)
    assert len(proof) == PROOF_BYTES
    assert verify(key, message, proof)
    assert proof == prove(secret, message)
    assert value_of(proof) == hash_to_curve(message).multiply(secret).format()


@settings(max_examples=50)
@given(at=st.integers(0, PROOF_BYTES - 1), change=st.integers(1, 255))
def test_no_byte_of_a_proof_can_be_changed(at: int, change: int) -> None:
    forged = PROOF[:at] + bytes([PROOF[at] ^ change]) + PROOF[at + 1 :]
    assert not verify(KEY, MESSAGE, forged)


def test_a_proof_is_of_one_key_and_one_message() -> None:
    assert verify(KEY, MESSAGE, PROOF)
    assert not verify(OTHER_KEY, MESSAGE, PROOF)
    assert not verify(KEY, b"another", PROOF)
    assert not verify(OTHER_KEY, MESSAGE, value_of(PROOF) + prove(OTHER, MESSAGE)[POINT_BYTES:])
    assert value_of(PROOF) != value_of(prove(OTHER, MESSAGE))
    assert value_of(PROOF) != value_of(prove(SECRET, b"another"))


def test_another_value_of_the_same_key_has_no_proof() -> None:
    """The holder of x itself cannot prove x'·H for its key, however it makes c and s from x'."""
    assert not verify(KEY, MESSAGE, prove(OTHER, MESSAGE))
    negated = bytes([PROOF[0] ^ 1]) + PROOF[1:]
    assert not verify(KEY, MESSAGE, negated)


@pytest.mark.parametrize("scalar", [0, GROUP_ORDER, 2**256 - 1])
def test_scalars_out_of_range_are_refused(scalar: int) -> None:
    encoded = scalar.to_bytes(SCALAR_BYTES, "big")
    assert not verify(KEY, MESSAGE, value_of(PROOF) + encoded + S)
    assert not verify(KEY, MESSAGE, value_of(PROOF) + C + encoded)


@pytest.mark.parametrize("point", [bytes(33), b"\x02" + b"\xff" * 32, b"\x04" + PROOF[1:33]])
def test_what_is_no_point_is_refused(point: bytes) -> None:
    assert not verify(KEY, MESSAGE, point + C + S)
    assert not verify(point, MESSAGE, PROOF)


@pytest.mark.parametrize("proof", [b"", PROOF[:-1], PROOF + b"\x00"])
def test_other_lengths_are_refused(proof: bytes) -> None:
    assert not verify(KEY, MESSAGE, proof)


def test_a_key_in_another_form_is_refused() -> None:
    assert not verify(PrivateKey(SECRET).public_key.format(compressed=False), MESSAGE, PROOF)


def test_points_that_cancel_out_are_refused() -> None:
    """s·G = c·X would be a nonce of zero: the point at infinity, whose encoding does not exist."""
    c = int.from_bytes(C, "big")
    s = c * int.from_bytes(SECRET, "big") % GROUP_ORDER
    assert not verify(KEY, MESSAGE, value_of(PROOF) + C + s.to_bytes(32, "big"))


@pytest.mark.parametrize("secret", [bytes(32), GROUP_ORDER.to_bytes(32, "big")])
def test_what_is_no_key_cannot_prove(secret: bytes) -> None:
    with pytest.raises(ValueError, match="scalar"):
        prove(secret, MESSAGE)


def test_hashing_to_the_curve_takes_the_first_hash_that_is_a_point() -> None:
    points = [hash_to_curve(b"%d" % number).format() for number in range(64)]
    assert len(set(points)) == 64
    assert {point[0] for point in points} == {2}
