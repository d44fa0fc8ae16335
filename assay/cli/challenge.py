"""``assay challenge``."""

from secrets import token_bytes
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import DURATION, ORDER_ID, ROUND
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options, executor_option, machines_option
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import byte_progress, money, short
from domain.limits import SHARE_SEGMENTS_MAX, SLOTS_MAX
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Round
from pol.executor.names import Engine

if TYPE_CHECKING:
    from domain.proof.queries import OrderResponse
    from pol.local.groups import Machines
    from validator.watch.recompute import PlaceCheck

SLOT = click.IntRange(0, SLOTS_MAX - 1)
SEGMENT = click.IntRange(0, SHARE_SEGMENTS_MAX - 1)
BLOBS_QUOTA = 1 << 40
"""Bytes. The order's own sizes bound what is fetched."""


@click.command(
    help="Recompute one place of a running order, and challenge it if it differs from the chain.\n\n"
    "Without a place, the command chooses a random one that no panel has drawn. It fetches the place's data from the\n"
    "order's validator, which serves them to the order's consumer and to other validators. If the result differs, the\n"
    "command locks a bond and sends the challenge: a panel then recomputes the place. If the panel confirms the\n"
    "result, you get a part of the bond of the party at fault. If the chain is right, your bond pays the panel.\n\n"
    + ORDER_ID
    + "Example: assay challenge 1a2b… --round 2 --slot 0 --segment 5 --dry-run --from alice"
)
@click.argument("order")
@click.option("--round", type=ROUND, default=None, help="Number of a closed round.  [the last closed one]")
@click.option("--slot", type=SLOT, default=None, help="Slot of the segment or update.")
@click.option(
    "--segment", type=click.IntRange(0, SHARE_SEGMENTS_MAX - 1), default=None, help="Recompute this segment of --slot."
)
@click.option("--update", is_flag=True, help="Recompute the update of --slot.")
@click.option("--aggregation", is_flag=True, help="Recompute the aggregation.")
@click.option("--dry-run", is_flag=True, help="Only recompute and compare; send nothing.")
@click.option("--unserved", is_flag=True, help="Also challenge a place that is not served; this brings no reward.")
@click.option(
    "--wait",
    "seconds",
    type=DURATION,
    default="2m",
    show_default=True,
    help="Longest wait for the data and for each block.",
)
@executor_option()
@engine_options()
@machines_option()
@common_options
def command(
    context: CommandContext,
    order: str,
    round: int | None,
    slot: int | None,
    segment: int | None,
    update: bool,
    aggregation: bool,
    dry_run: bool,
    unserved: bool,
    seconds: int,
    executor: str,
    engine: Engine,
    machines: "Machines",
) -> None:
    """Recompute a place, and send a challenge if the chain has another result."""
    from consumer.deliver import find_validator
    from consumer.lookup import find_order
    from consumer.panels import name_place
    from domain.proof.queries import OrderRequest
    from link.blobs import BlobStore
    from link.client import connect
    from validator.watch.challenge import compute_bond, send_challenge
    from validator.watch.recompute import Watcher, recomputing

    if segment is not None and update:
        raise WrongUsage("--segment and --update name different places", "give one of them")
    key = context.key()
    folder = context.home / "challenges"
    with context.client() as client:
        on_chain = client.query(OrderRequest(find_order(client, order)))
        closed = _find_round(on_chain, round)
        place = _find_place(on_chain, closed, slot, segment, update=update, aggregation=aggregation)
        leg = on_chain.leg(closed.leg)
        if leg is None:
            raise CliError("the round has no leg", "read the order again")
        validator = find_validator(client, leg.validator)
        chain_id = client.status().chain_id
        with connect(validator, key, chain_id) as link, byte_progress(context.output) as bar:
            task = bar.add_task(name_place(place), total=None)

            def show(name: str, done: int, size: int) -> None:
                bar.update(task, description=name, completed=done, total=size)

            with recomputing(executor, engine, folder, machines) as run:
                watcher = Watcher(
                    link=link,
                    blobs=BlobStore(folder / "blobs", BLOBS_QUOTA),
                    jobs=folder / "jobs",
                    engine=engine,
                    seconds=seconds,
                    run=run,
                )
                check = watcher.check(on_chain, closed, place, show)
        lines = _describe(name_place(place), closed, check)
        found: dict[str, object] = {
            "order": closed.order_id,
            "leg": closed.leg,
            "round": closed.round,
            "place": name_place(place),
            "agrees": check.agrees,
            "finding": check.finding.kind.name.lower(),
            "root": check.finding.root,
            "claim": check.claim,
            "challenge": None,
        }
        is_unserved = check.finding.kind is AnswerKind.UNAVAILABLE
        if not check.agrees and not dry_run and (unserved or not is_unserved):
            bond = compute_bond(client, on_chain, closed, check)
            sent = send_challenge(client, context.sender(client, key), key.secret, closed, check, bond)
            found["challenge"] = sent.key.dispute
            found["bond"] = bond
            lines.append(
                f"challenge {sent.key.dispute} of round {closed.round} is open since height {sent.height}, with a bond"
                f" of {money(bond)}; follow it with assay order why {short(closed.order_id)}"
            )
        elif not check.agrees:
            lines.append("nothing was sent")
    context.output.result(found, lines)


def _find_round(on_chain: "OrderResponse", number: int | None) -> Round:
    """Return the closed round with this number, or the last one, of the current leg."""
    rounds = [r for r in on_chain.rounds_of(on_chain.order.legs) if not r.verified and not r.void]
    found = next((r for r in reversed(rounds) if number in (None, r.round)), None)
    if found is None:
        numbers = ", ".join(str(r.round) for r in rounds)
        raise CliError(
            "the order has no closed round that can still become void"
            if number is None
            else f"round {number} is not a closed round that can still become void",
            f"choose one of these rounds: {numbers}" if rounds else "challenge a round before its window ends",
        )
    return found


def _find_place(
    on_chain: "OrderResponse",
    closed: Round,
    slot: int | None,
    segment: int | None,
    *,
    update: bool,
    aggregation: bool,
) -> AuditPlace:
    """Return the place that the options name, or a random one that no panel has drawn."""
    from pol.rules.panels import is_place
    from pol.rules.stops import AGGREGATION
    from validator.watch.places import choose_place, get_extents

    if aggregation:
        return AGGREGATION
    if slot is None:
        if segment is not None or update:
            raise WrongUsage("--segment and --update need a slot", "add --slot")
        chosen = choose_place(on_chain, closed, token_bytes(32))
        if chosen is None:
            raise CliError("panels have drawn every place of the round", "name a place to have it decided again")
        return chosen
    extents = get_extents(on_chain, closed)
    extent = next((e for e in extents if e.slot == slot), None)
    if extent is None:
        raise CliError(f"the round has no slot {slot}", f"choose one of 0 to {len(extents) - 1}")
    kind = AuditKind.UPDATE if update or segment is None else AuditKind.SEGMENT
    number = extent.segments if kind is AuditKind.UPDATE else segment or 0
    place = AuditPlace(kind=kind, slot=slot, issue=extent.issue, segment=number)
    if not is_place(place, extents, closed.stopped):
        raise CliError(
            f"slot {slot} has no such place in round {closed.round}",
            f"choose a segment from 0 to {extent.segments - 1}",
        )
    return place


def _describe(name: str, closed: Round, check: "PlaceCheck") -> list[str]:
    where = f"the {name} in round {closed.round}"
    if check.finding.kind is AnswerKind.UNAVAILABLE:
        return [f"{where} was not served: {check.why}"]
    if check.agrees:
        return [f"{where} is right: {_shown(check.finding)}"]
    claim = check.claim.hex() if check.claim else "that the job stopped there"
    return [f"{where} is wrong: the recomputation gives {_shown(check.finding)}, but the chain has {claim}"]


def _shown(finding: Finding) -> str:
    return finding.root.hex() if finding.kind is AnswerKind.FINISHED else f"a stop at step {finding.step}"
