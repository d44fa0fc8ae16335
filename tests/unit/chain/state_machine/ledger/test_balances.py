"""The addresses of pots are those that their definition gives, written by another implementation of bech32."""

from hashlib import sha256

import pytest
from bech32 import bech32_encode, convertbits

from chain.state_machine.ledger.balances import MODULE_ADDRESSES, is_module
from escrow.moves import Pot


def test_every_pot_but_the_accounts_has_an_address() -> None:
    assert set(MODULE_ADDRESSES) == set(Pot) - {Pot.ACCOUNTS}


@pytest.mark.parametrize("pot", MODULE_ADDRESSES)
def test_the_address_is_a_hash_of_the_pots_name(pot: Pot) -> None:
    digest = sha256(b"assay/module/" + pot.encode()).digest()[:20]
    words = convertbits(digest, 8, 5)
    assert words is not None
    address = bech32_encode("assay", words)
    assert MODULE_ADDRESSES[pot] == address
    assert is_module(address)
