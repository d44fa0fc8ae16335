"""What a network makes of a job, for people: options that say which network, and lines that say what comes of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import FLOPS
from assay.cli.errors import CliError
from assay.cli.output import counted, flops
from domain.limits import SLOTS_MAX
from domain.measures import duration

if TYPE_CHECKING:
    from domain.market.records import JobTerms
    from domain.params import Params
    from pol.rules.outlook import Outlook

F = TypeVar("F", bound=Callable[..., Any])

PUBLIC = "the defaults of a public network"
_OPTIONS = (
    click.option(
        "--params",
        "params_file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help=f"Parameters of a chain, as `assay query params --output json` prints them.  [{PUBLIC}]",
    ),
    click.option("--slot-speed", type=FLOPS, help="FLOP/s of a slot, as in a bid.  [the chain's reference]"),
    click.option(
        "--slots-at-once",
        type=click.IntRange(1, SLOTS_MAX),
        help="Slots that train at once.  [those of the job]",
    ),
)


def network_options(command: F) -> F:
    """Add what a job is looked at with to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_params(file: Path | None) -> "Params":
    """Return the parameters in a file, else the public defaults."""
    from domain.codec import from_plain
    from domain.params import Params

    if file is None:
        return Params()
    try:
        value = json.loads(file.read_text())
        # What is too large for a number in JSON is written as text.
        numbers = {
            component: {name: int(number) for name, number in values.items()} for component, values in value.items()
        }
        return from_plain(Params, numbers)
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"it does not hold the parameters of a chain ({error})"
        raise CliError(reason, "write it with assay query params --output json", field=str(file)) from None


def look_at(
    terms: "JobTerms", file: Path | None, slot_speed: int | None, slots: int | None
) -> tuple[dict[str, Any], list[tuple[str, str]], str]:
    """Return the outlook of a job as JSON values, as lines of a table, and as the table's title."""
    from pol.local.inspect import SLOT_SPEED
    from pol.rules.outlook import outlook

    params = read_params(file)
    speed, at_once = slot_speed or SLOT_SPEED, slots or terms.slots
    found = outlook(terms, params, speed, at_once)
    network = str(file) if file else PUBLIC
    value = {
        "params": network,
        "slot_speed": speed,
        "slots_at_once": at_once,
        **{name: getattr(found, name) for name in type(found).__slots__},
    }
    title = f"On a network with {network}: {counted(at_once, 'slot')} at once, {flops(speed)}/s each"
    return value, outlook_rows(found), title


def outlook_rows(found: "Outlook") -> list[tuple[str, str]]:
    """Return an outlook for people."""
    return [
        ("steps one after another", f"{found.steps:,}"),
        (
            "providers that are of use at once",
            f"{found.providers:,}, in {counted(found.turns, 'turn')}",
        ),
        ("a round", duration(found.round)),
        ("all rounds", duration(found.job)),
        ("from match to acceptance, at most", duration(found.accept)),
        ("a round has to be closed within", duration(found.progress)),
        ("an audit of a round", duration(found.audit)),
        ("a round is paid after its close in", duration(found.window)),
    ]
