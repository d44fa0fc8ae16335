"""A proof shows that two points have one logarithm: BIP-374's vectors, and what no one can prove."""

import csv
from pathlib import Path

import pytest
from coincurve import PrivateKey, PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.dleq import GENERATOR, PROOF_BYTES, prove, verify
from wire.vrf import GROUP_ORDER

VECTORS = Path(__file__).parents[2] / "vectors" / "bip374"
SECRET, SCALAR, OTHER = (bytes([n]) * 32 for n in (1, 2, 3))
MESSAGE, RANDOMNESS = b"\x04" * 32, b"\x05" * 32


def point(scalar: bytes) -> bytes:
    return PrivateKey(scalar).public_key.format()


KEY, POINT = point(SECRET), point(SCALAR)
SHARED = PublicKey(POINT).multiply(SECRET).format()
PROOF = prove(SECRET, POINT, MESSAGE, RANDOMNESS)
NO_POINTS = {
    "infinity in SEC1": b"\x00",
    "infinity, padded": bytes(33),
    "x is not on the curve": b"\x02" + (5).to_bytes(32, "big"),
    "x is not below p": b"\x02" + b"\xff" * 32,
    "uncompressed": PublicKey(POINT).format(compressed=False),
    "hybrid": b"\x06" + PublicKey(POINT).format(compressed=False)[1:],
    "x alone": POINT[1:],
    "empty": b"",
}


def rows(name: str) -> list[dict[str, str]]:
    with (VECTORS / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows("verify.csv"), ids=lambda row: row["comment"])
def test_published_proofs_are_right_or_wrong(row: dict[str, str]) -> None:
    names = ("point_A", "point_B", "point_C", "proof", "message", "point_G")
    assert verify(*(bytes.fromhex(row[name]) for name in names)) is (row["result_success"] == "TRUE")


@pytest.mark.parametrize("row", rows("generate.csv"), ids=lambda row: row["comment"])
def test_proofs_have_the_published_bytes(row: dict[str, str]) -> None:
    names = ("scalar_a", "point_B", "message", "auxrand_r", "point_G")
    arguments = [b"" if row[name] == "INFINITY" else bytes.fromhex(row[name]) for name in names]
    if row["result_proof"] == "INVALID":
        with pytest.raises(ValueError, match=r"."):
            prove(*arguments)
    else:
        assert prove(*arguments).hex() == row["result_proof"]


@settings(max_examples=25)
@given(
    secret=st.integers(1, GROUP_ORDER - 1).map(lambda n: n.to_bytes(32, "big")),
    other=st.integers(1, GROUP_ORDER - 1).map(lambda n: n.to_bytes(32, "big")),
    message=st.binary(min_size=32, max_size=32),
)
def test_whoever_knows_the_logarithm_proves_it(secret: bytes, other: bytes, message: bytes) -> None:
    proof = prove(secret, point(other), message, RANDOMNESS)
    shared = PublicKey(point(other)).multiply(secret).format()
    assert verify(point(secret), point(other), shared, proof, message)


@settings(max_examples=50)
@given(at=st.integers(0, PROOF_BYTES - 1), change=st.integers(1, 255))
def test_no_byte_of_a_proof_can_be_changed(at: int, change: int) -> None:
    forged = PROOF[:at] + bytes([PROOF[at] ^ change]) + PROOF[at + 1 :]
    assert verify(KEY, POINT, SHARED, PROOF, MESSAGE)
    assert not verify(KEY, POINT, SHARED, forged, MESSAGE)


@pytest.mark.parametrize("proof", [b"", PROOF[:-1], PROOF + b"\x00", bytes(64), b"\xff" * 64])
def test_a_proof_has_one_length(proof: bytes) -> None:
    assert not verify(KEY, POINT, SHARED, proof, MESSAGE)


def test_a_scalar_has_one_encoding() -> None:
    """s + n would pass if it were taken modulo n, so that a proof had two forms."""
    e, s = PROOF[:32], int.from_bytes(PROOF[32:], "big")
    for other in (s + GROUP_ORDER, GROUP_ORDER):
        if other < 2**256:
            assert not verify(KEY, POINT, SHARED, e + other.to_bytes(32, "big"), MESSAGE)
    small = b"\x00" * 31 + b"\x01"
    for wrong in (bytes(32), small, (GROUP_ORDER - 1).to_bytes(32, "big")):
        assert not verify(KEY, POINT, SHARED, e + wrong, MESSAGE)
        assert not verify(KEY, POINT, SHARED, wrong + PROOF[32:], MESSAGE)


def test_another_shared_point_has_no_proof() -> None:
    """Neither the negated product nor that with another secret can be proven."""
    negated = bytes([SHARED[0] ^ 1]) + SHARED[1:]
    another = PublicKey(POINT).multiply(OTHER).format()
    for shared in (negated, another, KEY, POINT, GENERATOR):
        assert not verify(KEY, POINT, shared, PROOF, MESSAGE)
        assert not verify(KEY, POINT, shared, prove(OTHER, POINT, MESSAGE, RANDOMNESS), MESSAGE)


def test_a_proof_is_of_one_key_one_point_and_one_message() -> None:
    assert not verify(point(OTHER), POINT, SHARED, PROOF, MESSAGE)
    assert not verify(KEY, point(OTHER), SHARED, PROOF, MESSAGE)
    assert not verify(POINT, KEY, SHARED, PROOF, MESSAGE)
    assert not verify(KEY, POINT, SHARED, PROOF, MESSAGE[:-1] + b"\x00")
    assert not verify(KEY, POINT, SHARED, PROOF, b"")
    assert not verify(KEY, POINT, SHARED, PROOF, MESSAGE, POINT)


@pytest.mark.parametrize("bad", NO_POINTS.values(), ids=NO_POINTS.keys())
def test_what_is_no_point_is_refused_everywhere(bad: bytes) -> None:
    assert not verify(bad, POINT, SHARED, PROOF, MESSAGE)
    assert not verify(KEY, bad, SHARED, PROOF, MESSAGE)
    assert not verify(KEY, POINT, bad, PROOF, MESSAGE)
    assert not verify(KEY, POINT, SHARED, PROOF, MESSAGE, bad)
    with pytest.raises(ValueError, match=r"."):
        prove(SECRET, bad, MESSAGE, RANDOMNESS)


def test_commitments_at_infinity_are_refused() -> None:
    """With s = e·a both commitments would be the point at infinity, whatever the challenge is."""
    e = int.from_bytes(PROOF[:32], "big")
    s = e * int.from_bytes(SECRET, "big") % GROUP_ORDER
    assert not verify(KEY, POINT, SHARED, PROOF[:32] + s.to_bytes(32, "big"), MESSAGE)


def test_the_nonce_depends_on_everything() -> None:
    """Two proofs with one nonce and different challenges give the secret away."""
    proofs = {
        prove(SECRET, POINT, MESSAGE, RANDOMNESS),
        prove(SECRET, POINT, MESSAGE, bytes(32)),
        prove(SECRET, POINT, bytes(32), RANDOMNESS),
        prove(SECRET, point(OTHER), MESSAGE, RANDOMNESS),
    }
    assert len(proofs) == 4
    a, order = int.from_bytes(SECRET, "big"), GROUP_ORDER
    nonces = {(int.from_bytes(p[32:], "big") - int.from_bytes(p[:32], "big") * a) % order for p in proofs}
    assert len(nonces) == 4
