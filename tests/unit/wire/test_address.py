"""Addresses: known vectors, one spelling each, and typing errors caught."""

import pytest
from bech32 import bech32_decode, bech32_encode, convertbits

from domain.errors import Refusal
from wire.address import (
    address_of,
    check_address,
    cons_address,
    to_bech32,
)

# The generator point's key: its hash is the best-known one there is (Bitcoin's "1BgGZ9tc…", key 1).
KEY_1 = bytes.fromhex("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
HASH_1 = bytes.fromhex("751e76e8199196d454941c45d1b3a323f1433bd6")
GOOD = to_bech32(HASH_1)


def test_the_address_of_a_key_is_the_bech32_of_its_known_hash() -> None:
    assert address_of(KEY_1) == GOOD
    _, words = bech32_decode(GOOD)
    assert bytes(convertbits(words or [], 5, 8, False) or []) == HASH_1
    # The same hash under another prefix has the published data part (BIP 173's test vector, less
    # its version): the prefix only moves the checksum.
    assert GOOD.startswith("assay1w508d6qejxtdg4y5r3zarvary0c5xw7k")


def test_the_consensus_address_is_a_cut_sha256() -> None:
    assert cons_address(bytes(32)).hex() == "66687aadf862bd776c8fc18b8e9f8e20089714856ee2"[:40]


@pytest.mark.parametrize(
    "key",
    [b"", KEY_1[:-1], KEY_1 + b"\x00", b"\x04" + KEY_1[1:], b"\x00" * 33],
    ids=["empty", "short", "long", "uncompressed", "zero"],
)
def test_what_is_no_compressed_key_has_no_address(key: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        address_of(key)
    assert refused.value.code.name == "invalid_pubkey"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "assay1",
        GOOD[:-1],
        GOOD + "q",
        GOOD.upper(),
        GOOD[:20].upper() + GOOD[20:],
        GOOD[:-1] + ("q" if GOOD[-1] != "q" else "p"),
        GOOD.replace("assay", "cosmo"),
        bech32_encode("cosmo", convertbits(HASH_1, 8, 5) or []),
        " " + GOOD[1:],
        "é" * 44,
        to_bech32(HASH_1)[:6] + "b" * 38,
        "a" * 100_000,
    ],
)
def test_everything_else_is_refused_and_the_field_named(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_address(text, "to_address")
    assert (refused.value.code.name, refused.value.field) == ("invalid_address", "to_address")
    assert refused.value.remedy


def test_twenty_bytes_only() -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        to_bech32(bytes(32))
