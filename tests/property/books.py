"""Random books with little in them, so that prices tie and conditions fail often."""

from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random

from domain.amount import PFLOP
from domain.records import Bid, Conditions, Offer
from matching_engine.records import Asked, Standing

REGIONS = ("eu", "us", "asia")
DEVICES = ("cpu", "h100")
TIERS = ("exact", "tolerance")


@dataclass(frozen=True)
class Case:
    """The arguments of one auction."""

    orders: list[Asked]
    offers: list[Standing]
    seed: bytes
    clock: int
    orders_max: int


def some(random: Random, values: tuple[str, ...], chance: float) -> tuple[str, ...]:
    return tuple(value for value in values if random.random() < chance)


def random_case(number: int) -> Case:
    """Return the book with this number; the same number gives the same book."""
    random = Random(number)
    validators = [f"assayvaloper{i}" for i in range(random.randint(1, 4))]
    bonds = {name: random.choice((0, 2, 40, 10**9)) for name in validators}
    stakes = {name: random.choice((9, 30, *[10**9] * 4)) for name in validators}
    clock = random.randint(0, 50)
    easy = random.random() < 0.5  # half of the books let most bids through
    offers = [
        _offer(random, name, bonds[name], stakes[name], clock, easy)
        for name in (random.choice(validators) for _ in range(random.randint(0, 8)))
    ]
    orders = [random_order(random, validators, easy) for _ in range(random.randint(0, 7))]
    return Case(orders, offers, random.randbytes(32), clock, random.choice((0, 2, 5, 256)))


def _offer(
    random: Random, validator: str, bond: int, stake: int, clock: int, easy: bool
) -> Standing:
    bid = Bid(
        id=sha256(random.randbytes(8)).digest(),
        validator=validator,
        offer=Offer(
            price=random.choice((1, 2, 2, 3, 10)),
            device_class=random.choice(DEVICES),
            memory=random.choice((8, 16)),
            speed=random.choice((PFLOP, PFLOP // 3, 1, 0)),
            regions=some(random, REGIONS, 0.5),
            tiers=some(random, TIERS, 0.8),
            min_work=0 if easy else random.choice((0, 2 * PFLOP)),
            max_work=0 if easy else random.choice((0, 4 * PFLOP)),
        ),
        capacity=0,
        expires_at=clock + (9 if easy else random.choice((0, 1, 9))),
        placed_height=1,
    )
    if easy:
        bid = replace(bid, offer=replace(bid.offer, speed=PFLOP, tiers=TIERS))
    jailed = not easy and random.random() < 0.2
    return Standing(bid, jailed, random.choice((0, 5, 9, 100)) * PFLOP, bond, stake)


def random_order(random: Random, validators: list[str], easy: bool = False) -> Asked:
    conditions = Conditions(
        device_class=random.choice(("", "", *DEVICES)),
        memory=random.choice((0, 0, 9)),
        regions=() if easy else some(random, REGIONS, 0.6),
        tier=random.choice(("", *TIERS)),
    )
    return Asked(
        order_id=sha256(random.randbytes(8)).digest(),
        work=random.choice((1, PFLOP, 3 * PFLOP, 5 * PFLOP, 5 * PFLOP + 1)),
        price_limit=random.choice((0, 2, 3, 99)),
        conditions=Conditions() if easy and random.random() < 0.7 else conditions,
        excluded=() if easy else some(random, tuple(validators), 0.2),
        seconds_left=random.choice((0, 24, 25, 1_000)),
        window_seconds=10,
        job_bond_bps=random.choice((0, 1_000, 10_000)),
        opened_height=random.randint(1, 3),
    )
