"""Names of the places that hold coins without a key: addresses that events show and plain transfers must not use."""

from collections.abc import Mapping
from types import MappingProxyType

from escrow.moves import Pot

MODULE_ADDRESSES: Mapping[Pot, str] = MappingProxyType(
    {
        Pot.BONDS: "assay1vvxdzdetrrqf89k9jr80ep4y09h0dr8hweez8h",
        Pot.ESCROWS: "assay157annce2zatsvmcmgwzlhppukm9s07xrthqp7u",
        Pot.STAKES: "assay1sdsq68pzzg3s7yaz62ufpxhcyr7ka2dnaptpp6",
        Pot.AUDITS: "assay125wpjvugu6ayxhy2vf98c7n62r5c9naqqypplz",
        Pot.FEES: "assay1lxjck4m8lpk56nncppqk5hjst0m99xc3pru89e",
        Pot.COMMUNITY: "assay1nsftlzpcvtmhva69pkz8zzc9cwtaczjm7vs696",
        Pot.BURNT: "assay1jjp2ny3dnaxws4ujccdy9hk2k3q6nw0laqp0py",
    }
)
"""One address for each pot, 160 bits of a hash of its name, so nobody has a key for them."""

_TAKEN = frozenset(MODULE_ADDRESSES.values())


def is_module(address: str) -> bool:
    """Tell whether plain transfers to ``address`` are refused."""
    return address in _TAKEN
