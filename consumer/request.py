"""What a consumer asks of the market, as keywords and as a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, Unpack

from consumer.errors import ConsumerError
from domain.market.records import Conditions
from domain.readable import Readable
from pol.rules.tiers.table import DEFAULT_TIERS


class OrderOptions(TypedDict, total=False):
    """The keywords of a quote and of an order: those of `assay order submit`.

    Example::

        found = network.quote("my-job", regions=["eu"], deadline=3600)
    """

    price_limit: int  # uassay per PFLOP; 0, the default: none
    device_class: str  # any, by default
    memory: int  # bytes that a device must have
    regions: Sequence[str]  # all, by default
    tiers: Sequence[str]  # in the order of preference; the default tier by default
    time_to_live: int  # seconds to wait for a match; 600 by default
    deadline: int  # seconds until everything is done; 86,400 by default
    rematch: bool  # whether another validator may try after a failure; True by default


_UNITS = {
    "price_limit": "uassay per PFLOP",
    "memory": "bytes",
    "time_to_live": "seconds",
    "deadline": "seconds",
}


@dataclass(frozen=True, slots=True)
class Request(Readable):
    """What a consumer asks for: conditions, prices in uassay per PFLOP, durations in chain seconds.

    Without a price limit (0) an order takes the limit that a quote finds for it.

    >>> Request(Conditions(tiers=("exact",), regions=("eu",)), deadline=3600).time_to_live
    600
    """

    conditions: Conditions = field(default_factory=lambda: Conditions(tiers=DEFAULT_TIERS))
    price_limit: int = 0
    time_to_live: int = 600
    deadline: int = 86_400
    rematch: bool = True


def request_of(**options: Unpack[OrderOptions]) -> Request:
    """Return what keywords ask for; a ConsumerError names a keyword whose value has the wrong type.

    >>> request_of(deadline=3600, regions=["us", "eu"]).conditions.regions
    ('eu', 'us')
    """
    given: dict[str, Any] = dict(options)
    for name, unit in _UNITS.items():
        number = given.get(name, 0)
        if not isinstance(number, int):
            raise ConsumerError(f"{number!r} is not a whole number", f"give {unit}, as {name}=3600", field=name)
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
