"""Genesis of the application (``app_state`` in CometBFT's genesis file)."""

from dataclasses import dataclass

from domain.params import Params
from domain.records import Coin


@dataclass(frozen=True, slots=True)
class GenesisAccount:
    """An address and its coins."""

    address: str
    coins: tuple[Coin, ...]


@dataclass(frozen=True, slots=True)
class GenesisValidator:
    """A validator: its stake is extra to its account's coins; power = stake // POWER_REDUCTION."""

    operator: str
    moniker: str
    cons_key: bytes
    stake: int
    endpoint: str = ""
    certificate: bytes = b""


@dataclass(frozen=True, slots=True)
class Genesis:
    """Everything the state starts with."""

    chain_id: str
    denom: str
    params: Params
    accounts: tuple[GenesisAccount, ...]
    validators: tuple[GenesisValidator, ...]


POWER_REDUCTION = 1_000_000
DENOM = "uassay"
LOCAL_PREFIX = "assay-local"
"""Chain ids of local networks begin with it: short windows, and providers that may cheat on purpose."""
