"""The events of rules, fees, grants, votes and new coins."""

from domain.mint.events import CoinsMinted
from domain.mint.records import Minter
from domain.node.events import GasPriceChanged, RulesChanged
from localnet.simulator.rebuilt.authz import AuthzChange
from localnet.simulator.rebuilt.books import Rebuilt, take
from localnet.simulator.rebuilt.distribution import DistributionChange
from localnet.simulator.rebuilt.feegrant import FeeGrantChange
from localnet.simulator.rebuilt.gov import GovChange
from localnet.simulator.rebuilt.slashing import SlashingChange


@take.register
def _(change: RulesChanged, books: Rebuilt) -> None:
    books.rules = change.version


@take.register
def _(change: GasPriceChanged, books: Rebuilt) -> None:
    books.gas_prices[()] = change.price_millionths


@take.register
def _(change: FeeGrantChange, books: Rebuilt) -> None:
    books.fee_granting.take(change)


@take.register
def _(change: AuthzChange, books: Rebuilt) -> None:
    books.authorizing.take(change)


@take.register
def _(change: CoinsMinted, books: Rebuilt) -> None:
    books.fees += change.amount
    books.minters.pop((), None)
    if change.minter != Minter():
        books.minters[()] = change.minter


@take.register
def _(change: DistributionChange, books: Rebuilt) -> None:
    for pot, amount in books.sharing.take(change).items():
        setattr(books, pot, getattr(books, pot) + amount)


@take.register
def _(change: GovChange, books: Rebuilt) -> None:
    books.burnt += books.governing.take(change)


@take.register
def _(change: SlashingChange, books: Rebuilt) -> None:
    books.burnt += books.slashing.take(change)
