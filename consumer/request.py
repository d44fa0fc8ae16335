"""A consumer's request to the market, as keywords and as a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, Unpack

from consumer.errors import ConsumerError
from domain.market.records import Conditions
from domain.readable import Readable
from pol.rules.tiers.table import DEFAULT_TIERS


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
    time_to_live: int  # seconds to wait for a match; default 600
    deadline: int  # seconds until the whole order must be done; default 86,400
    rematch: bool  # whether another validator may try after a failed leg; default True


_UNITS = {
    "price_limit": "uassay per PFLOP",
    "memory": "bytes",
    "time_to_live": "seconds",
    "deadline": "seconds",
}


@dataclass(frozen=True, slots=True)
class Request(Readable):
    """A consumer's conditions, price limit (uassay per PFLOP) and durations (seconds of the chain's clock).

    Without a price limit (0) an order gets the limit of its quote.

    >>> Request(Conditions(tiers=("exact",), regions=("eu",)), deadline=3600).time_to_live
    600
    """

    conditions: Conditions = field(default_factory=lambda: Conditions(tiers=DEFAULT_TIERS))
    price_limit: int = 0
    time_to_live: int = 600
    deadline: int = 86_400
    rematch: bool = True


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
    for name in ("regions", "tiers"):
        names = given.get(name, ())
        if isinstance(names, str):
            raise ConsumerError(f"{names!r} is a string", f"give a list: {name}=[{names!r}]", field=name)
    if "regions" in given:
        given["regions"] = tuple(sorted(set(given["regions"])))
    if "tiers" in given:
        given["tiers"] = tuple(given["tiers"])
    named = {field.name for field in fields(Conditions)} & given.keys()
    conditions = replace(Request().conditions, **{name: given.pop(name) for name in named})
    return Request(conditions=conditions, **given)
