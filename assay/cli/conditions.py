"""The options by which a consumer states conditions, shared by ``quote`` and ``order submit``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import AMOUNT, DURATION, SIZE, TAGS

if TYPE_CHECKING:
    from consumer.submit import Request

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--price-limit", type=AMOUNT, help="At most so much a PFLOP, as 1000000uassay."),
    click.option("--device-class", default="", help="Only this device class."),
    click.option("--memory", type=SIZE, default="0", help="At least so many bytes a device."),
    click.option(
        "--regions", type=TAGS, default="", help="Comma-separated; work must stay in them."
    ),
    click.option("--tier", default="exact", show_default=True, help="How strictly to verify."),
    click.option(
        "--time-to-live", type=DURATION, default="10m", show_default=True, help="Wait for a match."
    ),
    click.option(
        "--deadline",
        type=DURATION,
        default="1d",
        show_default=True,
        help="Everything done by then.",
    ),
    click.option("--rematch/--no-rematch", default=True, show_default=True),
)
NAMES = (
    "price_limit", "device_class", "memory", "regions", "tier", "time_to_live", "deadline", "rematch",
)  # fmt: skip


def condition_options(command: F) -> F:
    """Add the options to a command."""
    made: Any = command
    for option in reversed(_OPTIONS):
        made = option(made)
    return made  # type: ignore[no-any-return]


def read_request(values: dict[str, Any]) -> "Request":
    """Take the options out of ``values`` and return what is asked for (price limit 0: none given)."""
    from consumer.submit import Request
    from domain.records import Conditions

    given = {name: values.pop(name) for name in NAMES}
    return Request(
        conditions=Conditions(
            device_class=given["device_class"],
            memory=given["memory"],
            regions=given["regions"],
            tier=given["tier"],
        ),
        price_limit=given["price_limit"] or 0,
        time_to_live=given["time_to_live"],
        deadline=given["deadline"],
        rematch=given["rematch"],
    )
