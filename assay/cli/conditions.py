"""The command-line options for a consumer's conditions and a validator's offer, from the table of conditions."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import AMOUNT, DURATION, DURATION_OR_NONE, FLOPS, NAMES, SIZE, TAGS
from domain.limits import REPLICAS_MAX, SLOTS_MAX
from matching_engine.conditions import CONDITIONS, Option, OptionKind
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.table import default_tier, tier_names

if TYPE_CHECKING:
    from consumer.request import Request
    from domain.market.records import Offer

F = TypeVar("F", bound=Callable[..., Any])

_TYPES: dict[OptionKind, click.ParamType[Any]] = {
    OptionKind.TEXT: click.STRING,
    OptionKind.TAGS: TAGS,
    OptionKind.AMOUNT: AMOUNT,
    OptionKind.WORK: FLOPS,
    OptionKind.SIZE: SIZE,
    OptionKind.SLOTS: click.IntRange(1, SLOTS_MAX),
    OptionKind.TIER: click.Choice(tier_names()),
    OptionKind.TIERS: NAMES,
    OptionKind.FLAG: click.BOOL,
}
_TIER_LISTS = (OptionKind.TIER, OptionKind.TIERS)
_ASKED = [option for row in CONDITIONS for option in row.asks]
_OFFERED = [option for row in CONDITIONS for option in row.offers]
_PRICE_LIMIT = click.option(
    "--price-limit",
    type=AMOUNT,
    help="Highest price per PFLOP, for example 900000ASSAY.  [twice the best price]",
)
_LIFE = (
    click.option("--time-to-live", type=DURATION, default="10m", show_default=True, help="Longest wait for a match."),
    click.option(
        "--deadline",
        type=DURATION,
        default="1d",
        show_default=True,
        help="Time within which the whole order must be done.",
    ),
    click.option(
        "--rematch/--no-rematch",
        default=True,
        show_default=True,
        help="Match another validator after a leg fails.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(0, REPLICAS_MAX),
        default=0,
        help=f"Validators that each train the job, in a tier that replicates.  [{REPLICAS} there]",
    ),
    click.option(
        "--challengers",
        type=NAMES,
        default=(),
        help="Accounts that may challenge rounds besides you and all validators, or anyone.  [none]",
    ),
    click.option(
        "--challenge-wait",
        type=DURATION_OR_NONE,
        default=0,
        help="Time after a round's window in which it can be challenged, at most 7d.  [0s]",
    ),
)


def condition_options(command: F) -> F:
    """Add to a command the options that set an order's conditions."""
    return _add(command, (_PRICE_LIMIT, *map(_option, _ASKED), *_LIFE))


def read_request(values: dict[str, Any]) -> "Request":
    """Return the request that the options in ``values`` describe, and remove these options from ``values``.

    A price limit of 0 means no limit.
    """
    from consumer.request import request_of

    return request_of(
        price_limit=values.pop("price_limit") or 0,
        time_to_live=values.pop("time_to_live"),
        deadline=values.pop("deadline"),
        rematch=values.pop("rematch"),
        replicas=values.pop("replicas"),
        challengers=values.pop("challengers"),
        challenge_wait=values.pop("challenge_wait"),
        **_take(values, _ASKED),
    )


def offer_options(command: F) -> F:
    """Add to a command the options that set a bid's offer."""
    return _add(command, map(_option, _OFFERED))


def read_offer(values: dict[str, Any], **others: Any) -> "Offer":
    """Return the offer that the options in ``values`` describe, and remove these options from ``values``.

    ``others`` gives the values of the offer's other fields, which are not conditions.
    """
    from domain.market.records import Offer

    return Offer(**_take(values, _OFFERED), **others)


def _option(option: Option) -> Callable[[F], F]:
    # click counts a default of None as a value, so a required option is made without a default.
    more: dict[str, Any] = {} if option.default is None else {"default": option.default, "show_default": True}
    if option.kind in _TIER_LISTS:
        more = {"default": (default_tier().name,), "show_default": default_tier().name}
    if option.kind is OptionKind.TIER:
        more["multiple"] = True
    if option.kind is OptionKind.FLAG:
        more["is_flag"] = True
    kind, required = _TYPES[option.kind], option.required
    return click.option(option.flag, option.field, type=kind, required=required, help=option.help, **more)


def _add(command: F, options: Iterable[Callable[[F], F]]) -> F:
    for option in reversed(list(options)):
        command = option(command)
    return command


def _take(values: dict[str, Any], options: Iterable[Option]) -> dict[str, Any]:
    """Remove the options from ``values``; return the values of the options that are set, keyed by field name.

    The record that is made from the result has defaults for the options that are not set.
    """
    given = {option.field: values.pop(option.field) for option in options}
    return {name: value for name, value in given.items() if value is not None}
