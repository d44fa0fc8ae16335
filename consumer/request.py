"""A consumer's request to the market, as keywords and as a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, Unpack

from consumer.errors import ConsumerError
from domain.market.records import NO_CHALLENGERS, ChallengeTerms, Conditions
from domain.readable import Readable
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.table import DEFAULT_TIERS, is_replicating

ANYONE = "anyone"
"""The word for all accounts that have a bond, in a list of challengers."""


class OrderOptions(TypedDict, total=False):
    """The keyword arguments of a quote and of an order; they match the options of `assay order submit`.

    Example::

        offer = network.quote("my-job", regions=["eu"], deadline=3600)
    """

    price_limit: int  # uassay per PFLOP; default 0, which means no limit
    device_class: str  # class of the devices that train the job; default: any
    memory: int  # bytes of memory that a device must have; default: what the job needs
    regions: Sequence[str]  # regions in which the job may be trained; default: all
    tiers: Sequence[str]  # tiers that the order allows, the preferred one first; default: the default tier
    attested: bool  # whether credentials of providers may lower the chance of panels; default False
    time_to_live: int  # seconds to wait for a match; default 600
    deadline: int  # seconds until the whole order must be done; default 86,400
    rematch: bool  # whether another validator may try after a failed leg; default True
    # Accounts that may challenge rounds besides you and all validators, or "anyone"; default: none
    challengers: Sequence[str]
    replicas: int  # validators that each train the job, in a tier that replicates; default there: 2
    challenge_wait: int  # seconds after a round's window in which it can be challenged; default 0


_UNITS = {
    "price_limit": "uassay per PFLOP",
    "memory": "bytes",
    "time_to_live": "seconds",
    "deadline": "seconds",
    "challenge_wait": "seconds",
    "replicas": "a number of validators",
}


@dataclass(frozen=True, slots=True)
class Request(Readable):
    """A consumer's conditions, price limit (uassay per PFLOP) and durations (seconds of the chain's clock).

    If the price limit is 0, the order gets the price limit of its quote. ``replicas`` is 0 if one validator serves the
    order.

    >>> Request(Conditions(tiers=("exact",), regions=("eu",)), deadline=3600).time_to_live
    600
    """

    conditions: Conditions = field(default_factory=lambda: Conditions(tiers=DEFAULT_TIERS))
    price_limit: int = 0
    time_to_live: int = 600
    deadline: int = 86_400
    rematch: bool = True
    challenges: ChallengeTerms = NO_CHALLENGERS
    replicas: int = 0


def request_of(**options: Unpack[OrderOptions]) -> Request:
    """Return the request that the keyword arguments describe.

    Raise ConsumerError with the name of the argument if a value has the wrong type.

    >>> request_of(deadline=3600, regions=["us", "eu"]).conditions.regions
    ('eu', 'us')
    """
    given: dict[str, Any] = dict(options)
    for name, unit in _UNITS.items():
        number = given.get(name, 0)
        if not isinstance(number, int):
            raise ConsumerError(f"{number!r} is not a whole number", f"give {unit}: {name}=3600", field=name)
    for name in ("regions", "tiers", "challengers"):
        names = given.get(name, ())
        if isinstance(names, str):
            raise ConsumerError(f"{names!r} is a string", f"give a list: {name}=[{names!r}]", field=name)
    if "regions" in given:
        given["regions"] = tuple(sorted(set(given["regions"])))
    if "tiers" in given:
        given["tiers"] = tuple(given["tiers"])
    given["challenges"] = _challenges_of(given.pop("challengers", ()), given.pop("challenge_wait", 0))
    named = {field.name for field in fields(Conditions)} & given.keys()
    conditions = replace(Request().conditions, **{name: given.pop(name) for name in named})
    if not given.get("replicas") and any(is_replicating(name) for name in conditions.tiers):
        given["replicas"] = REPLICAS
    return Request(conditions=conditions, **given)


def _challenges_of(challengers: Sequence[str], wait: int) -> ChallengeTerms:
    """Return an order's rules about challenges."""
    addresses = tuple(sorted(set(challengers) - {ANYONE}))
    return ChallengeTerms(anyone=ANYONE in challengers, addresses=addresses, wait=wait)
