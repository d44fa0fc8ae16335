"""A job's outlook, which is its expected times on a network: the options for the network, and the lines to print."""

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
    click.option("--slot-speed", type=FLOPS, help="FLOP/s per slot, as in a bid.  [the chain's reference]"),
    click.option(
        "--slots-at-once",
        type=click.IntRange(1, SLOTS_MAX),
        help="Slots that train at once.  [all of the job's slots]",
    ),
)


def network_options(command: F) -> F:
    """Add to a command the options that describe a network."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_params(file: Path | None) -> "Params":
    """Return the chain parameters in a file, or the defaults of a public network if no file is given."""
    from domain.codec import from_plain
    from domain.params import Params

    if file is None:
        return Params()
    try:
        value = json.loads(file.read_text())
        # Integers above 2^53 are decimal strings in JSON.
        numbers = {
            component: {name: int(number) for name, number in values.items()} for component, values in value.items()
        }
        return from_plain(Params, numbers)
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"the file does not hold the parameters of a chain ({error})"
        remedy = f"write it with: assay query params --output json > {file}"
        raise CliError(reason, remedy, field=str(file)) from None


def look_at(
    terms: "JobTerms", file: Path | None, slot_speed: int | None, slots: int | None
) -> tuple[dict[str, Any], list[tuple[str, str]], str]:
    """Return a job's outlook as JSON values, as the rows of a table, and the table's title.

    ``file`` has the network's parameters. ``slot_speed`` is in FLOP/s, and ``slots`` is the number of slots that train
    at once. If one of these three is None, its default is used.
    """
    from pol.rules.outlook import outlook
    from pol.split.machine import SLOT_SPEED

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
    """Return the rows of a table that shows an outlook."""
    return [
        ("consecutive steps", f"{found.steps:,}"),
        (
            "providers that can train at once",
            f"{found.providers:,}, in {counted(found.turns, 'turn')}",
        ),
        ("time per round", duration(found.round)),
        ("time for all rounds", duration(found.job)),
        ("from match to acceptance, at most", duration(found.accept)),
        ("time limit to close a round", duration(found.progress)),
        ("time to audit a round", duration(found.audit)),
        ("payment of a round after its close", duration(found.window)),
    ]
