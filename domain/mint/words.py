"""The vocabulary of the mint component."""

from domain.mint.events import CoinsMinted
from domain.mint.params import LOCAL, MintParams
from domain.words import Words

WORDS = Words(name="mint", events=(CoinsMinted,), params=MintParams, local_params=LOCAL)
