"""Words give the keys that other wallets derive from them, and a typing error is noticed."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import Refusal
from wire.mnemonic import key_of_words, words_of
from wire.mnemonic_words import WORDS

ABANDON = "abandon " * 11 + "about"
LEGAL = "legal winner thank year wave sausage worth useful " * 2 + "legal winner thank year wave sausage worth title"

# As DirectSecp256k1HdWallet of CosmJS 0.39 derives them.
COSMJS = {
    ABANDON: "assay19rl4cm2hmr8afy4kldpxz3fka4jguq0aqyly38",
    LEGAL: "assay15f7sdzduxh5umchk433z275xz8gnw8lq5gn0y0",
    "zoo " * 23 + "vote": "assay1kl0dn0rtwk46h9zcmazyyrruta290crhz2erwn",
}


@pytest.mark.parametrize(("words", "address"), COSMJS.items())
def test_the_keys_are_those_of_cosmjs(words: str, address: str) -> None:
    assert key_of_words(words).address == address
    assert key_of_words(f"  {words.upper()}\n").address == address


def test_the_words_are_those_of_bip_39() -> None:
    text = "\n".join(WORDS) + "\n"
    assert sha256(text.encode()).hexdigest() == "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("m", "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35"),
        ("m/0'", "edb2e14f9ee77d26dd93b4ecede8d16ed408ce149b6cd80b0715a2d911a0afea"),
        ("m/0'/1", "3c6cb8d0f6a264c91ea8b5030fadaa8e538b020f0a387421a12de9319dc93368"),
        ("m/0'/1/2'/2/1000000000", "471b76e389e528d6de6d816857e012c5455051cad6660850e58372a6c3e6e7c8"),
    ],
)
def test_derivation_is_that_of_bip_32(path: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test vector 1 of BIP-32, whose seed does not come from words."""
    seed = bytes(range(16))
    monkeypatch.setattr("wire.mnemonic.pbkdf2_hmac", lambda *_: seed)
    assert key_of_words(ABANDON, path).secret.hex() == secret


@given(st.sampled_from([16, 20, 24, 28, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_random_words_are_accepted_and_an_exchange_is_noticed_or_harmless(entropy: bytes) -> None:
    words = words_of(entropy)
    assert key_of_words(words, "m").address.startswith("assay1")
    given_words = words.split()
    changed = [given_words[1], given_words[0], *given_words[2:]]
    if changed != given_words:
        try:
            assert key_of_words(" ".join(changed), "m").address != key_of_words(words, "m").address
        except Refusal as refusal:
            assert "checksum" in refusal.reason  # noqa: PT017 — a checksum of four bits misses one in sixteen


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "has 0 words"),
        ("abandon " * 13, "has 13 words"),
        ("abandon " * 11 + "abuot", "unknown word in place 12"),
        ("abandon " * 12, "wrong checksum"),
    ],
)
def test_wrong_words_are_refused_without_repeating_them(words: str, text: str) -> None:
    with pytest.raises(Refusal, match=text) as refused:
        key_of_words(words)
    assert "abuot" not in str(refused.value)


@pytest.mark.parametrize("path", ["", "44'/118'", "m/x", "m/2147483648", "m//1", "m/1''", "m" + "/1" * 11])
def test_wrong_paths_are_refused(path: str) -> None:
    with pytest.raises(Refusal, match="is not a path of keys"):
        key_of_words(ABANDON, path)
