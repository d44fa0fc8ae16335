"""The addresses of pots are those that their definition gives, written by another implementation of bech32."""

from hashlib import sha256

import pytest
from bech32 import bech32_encode, convertbits

from chain.state_machine.ledger.balances import is_module
from domain.ledger.moves import ACCOUNTS_POT
from domain.moves import Pot
from domain.vocabulary import POTS


def test_accounts_alone_have_no_address_of_their_own() -> None:
    assert [pot for pot in POTS.values() if not pot.address] == [ACCOUNTS_POT]
    assert not is_module("")


OF_COSMOS = ("gov", "distribution")
"""Pots with the address of the Cosmos SDK's module of the same name, which wallets compute."""


@pytest.mark.parametrize("pot", [pot for pot in POTS.values() if pot.address])
def test_the_address_is_a_hash_of_the_pots_name(pot: Pot) -> None:
    prefix = b"" if pot.name in OF_COSMOS else b"assay/module/"
    digest = sha256(prefix + pot.name.encode()).digest()[:20]
    words = convertbits(digest, 8, 5)
    assert words is not None
    address = bech32_encode("assay", words)
    assert pot.address == address
    assert is_module(address)
