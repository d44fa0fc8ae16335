"""Names of the places that hold coins without a key: addresses that events show and plain transfers must not use."""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

from escrow.moves import Pot

_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_PREFIX = "assay"


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit in range(5):
            check ^= _GENERATOR[bit] if top >> bit & 1 else 0
    return check


def _bech32(data: bytes) -> str:
    """Return the bech32 text of 20 bytes (BIP 173); the edge has the general one."""
    number = int.from_bytes(data, "big")
    words = [number >> 5 * at & 31 for at in reversed(range(32))]
    expanded = [ord(c) >> 5 for c in _PREFIX] + [0] + [ord(c) & 31 for c in _PREFIX]
    check = _polymod(expanded + words + [0] * 6) ^ 1
    words += [check >> 5 * at & 31 for at in reversed(range(6))]
    return _PREFIX + "1" + "".join(_ALPHABET[word] for word in words)


MODULE_ADDRESSES: Mapping[Pot, str] = MappingProxyType(
    {
        pot: _bech32(sha256(b"assay/module/" + pot.encode()).digest()[:20])
        for pot in Pot
        if pot is not Pot.ACCOUNTS
    }
)
"""One address for each pot; 160 bits of a hash, so nobody has a key for them."""

_TAKEN = frozenset(MODULE_ADDRESSES.values())


def is_module(address: str) -> bool:
    """Tell whether plain transfers to ``address`` are refused."""
    return address in _TAKEN
