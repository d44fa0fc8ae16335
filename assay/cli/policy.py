"""``assay policy``."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import AMOUNT, FLOPS
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import amount, counted, money, price, table
from domain.amount import BPS
from domain.limits import ROUNDS_MAX, SHARE_BOND_MAX, SHARE_SEGMENTS_MAX, SLOTS_MAX
from pol.rules.tiers.table import DEFAULT_TIERS, is_replicating, tier_names

if TYPE_CHECKING:
    from domain.market.records import JobTerms
    from domain.params import Params
    from pol.policy.policy import Policy

PUBLIC, LOCAL, NODE = "public", "local", "node"
_LOCAL_VALIDATORS = 4
_NONE = "none suffices"
_BPS = click.IntRange(0, BPS)


@dataclass(frozen=True)
class PolicySource:
    """The parameters of a chain, its number of validators with the least stake (uassay), and a name for them."""

    name: str
    params: "Params"
    validators: int
    stake: int


@click.command(
    help="Compute whether honest work pays: the gain of each strategy, least bonds, and prices of bribes.\n\n"
    "The parameters are the defaults of a public or local network, those of a node, or those of a genesis file. The\n"
    "job is the one in DIRECTORY, or a reference job of the given size. Amounts are expectations per order or round,\n"
    "compared with honest work; income of later orders counts as nothing. docs/policy.md explains the formulas.\n\n"
    "Example: assay policy --network public --price 1ASSAY --stake 10000ASSAY"
)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option(
    "--network",
    type=click.Choice((PUBLIC, LOCAL, NODE)),
    default=PUBLIC,
    show_default=True,
    help="Defaults of a network, or the values of a node.",
)
@click.option(
    "--genesis",
    "genesis_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the values of a genesis file.",
)
@click.option("--price", "order_price", type=AMOUNT, default="1ASSAY", show_default=True, help="Price per PFLOP.")
@click.option("--validators", type=click.IntRange(2, 10_000), help="Number of validators.  [100, or the chain's]")
@click.option("--stake", type=AMOUNT, help="Stake of each validator.  [10000ASSAY, or the chain's least]")
@click.option("--cost-bps", type=_BPS, default=6_000, show_default=True, help="Honest cost, as a part of the price.")
@click.option("--replay-cost", type=AMOUNT, help="Cost of recomputing a PFLOP.  [that of training]")
@click.option(
    "--providers-bps",
    type=click.IntRange(0, 8_000),
    default=8_000,
    show_default=True,
    help="Part of the bid for providers.",
)
@click.option("--coalition", type=click.IntRange(0, 10_000), help="Validators that help the winner.  [a tenth]")
@click.option("--wrong-bps", type=_BPS, default=100, show_default=True, help="Wrong part of the segments watched.")
@click.option("--side", type=AMOUNT, help="Profit of a wrong round besides saved work.  [0]")
@click.option(
    "--share-bond",
    "multiple",
    type=click.IntRange(1, SHARE_BOND_MAX),
    default=1,
    show_default=True,
    help="Share bond, as a multiple of its price.",
)
@click.option(
    "--tier", type=click.Choice(tier_names()), default=DEFAULT_TIERS[0], show_default=True, help="Tier of the order."
)
@click.option("--cover-bps", type=_BPS, default=BPS, show_default=True, help="Part of the job bond for right shares.")
@click.option("--slots", type=click.IntRange(1, SLOTS_MAX), help="Slots of the reference job.  [8]")
@click.option("--segments", type=click.IntRange(1, SHARE_SEGMENTS_MAX), help="Segments of its shares.  [50]")
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), help="Its rounds.  [40]")
@click.option("--step-work", type=FLOPS, help="Work of a step; a segment has three steps.  [100GFLOP]")
@common_options
def command(
    context: CommandContext,
    directory: Path | None,
    network: str,
    genesis_file: Path | None,
    order_price: int,
    validators: int | None,
    stake: int | None,
    coalition: int | None,
    side: int | None,
    slots: int | None,
    segments: int | None,
    rounds: int | None,
    step_work: int | None,
    **values: Any,
) -> None:
    """Print the policy of an order."""
    from pol.policy.market import PolicyInputs
    from pol.policy.policy import compute_policy

    sizes = {"slots": slots, "segments": segments, "rounds": rounds, "step_work": step_work}
    given = {name: size for name, size in sizes.items() if size is not None}
    if directory is not None and given:
        option = "--" + next(iter(given)).replace("_", "-")
        raise WrongUsage(f"{option} is a size of the reference job", "leave it out, or leave out the job directory")
    source = read_source(context, network, genesis_file)
    count = validators or source.validators
    inputs = PolicyInputs(
        price=order_price,
        validators=count,
        stake=stake or source.stake,
        coalition=(count - 1) // 10 if coalition is None else coalition,
        own_picks=_own_picks(),
        side=side or 0,
        **values,
    )
    if inputs.coalition >= count:
        raise WrongUsage(
            f"{inputs.coalition} validators cannot help the winner, because there are {count - 1} others",
            f"give at most --coalition {count - 1}",
        )
    policy = compute_policy(_read_terms(directory, given), source.params.for_founders(count), inputs)
    context.output.result(
        {"network": source.name, "job": str(directory) if directory else given, **plain_policy(policy)},
        _show(policy, source.name),
    )


def plain_policy(policy: "Policy") -> dict[str, Any]:
    """Return a policy as JSON values; an infinite number becomes null, because JSON has no infinity."""
    value: dict[str, Any] = _finite(asdict(policy))
    for row, gain in zip(value["strategies"], policy.strategies, strict=True):
        row["pays"] = gain.pays
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _own_picks() -> int:
    from validator.decide.assign import OWN_PICKS

    return OWN_PICKS


def _read_terms(directory: Path | None, sizes: dict[str, int]) -> "JobTerms":
    from pol.policy.market import ReferenceJob

    if directory is None:
        return ReferenceJob(**sizes).terms
    from consumer.jobs import read_job
    from pol.job.document import order_terms

    return order_terms(read_job(directory))


def read_source(context: CommandContext, network: str, genesis_file: Path | None) -> PolicySource:
    """Return the parameters of a network's defaults, of a genesis file, or of the chain of a node."""
    from domain.params import Params, local_params

    if genesis_file is not None:
        from chain.app.comet_files import read_genesis

        genesis, _ = read_genesis(genesis_file)
        stakes = [validator.stake for validator in genesis.validators]
        return _source(str(genesis_file), genesis.params, stakes)
    if network == NODE:
        from domain.registry.queries import ValidatorsRequest

        with context.client() as client:
            params = client.params()
            found = client.query(ValidatorsRequest()).validators
            name = client.status().chain_id
        return _source(name, params, [each.stake for each in found if not each.jailed and each.stake])
    if network == LOCAL:
        from localnet.create import STAKE

        return _source("the defaults of a local network", local_params(), [STAKE] * _LOCAL_VALIDATORS)
    from pol.policy.market import PolicyInputs

    defaults = PolicyInputs()
    return _source("the defaults of a public network", Params(), [defaults.stake] * defaults.validators)


def _source(name: str, params: "Params", stakes: Sequence[int]) -> PolicySource:
    if len(stakes) < 2:
        reason = f"{name} has {counted(len(stakes), 'active validator')}, and a policy needs two"
        raise CliError(reason, "give the expected number of validators: --validators 7 --network public")
    return PolicySource(name=name, params=params, validators=len(stakes), stake=min(stakes))


# --- the text ------------------------------------------------------------------------------------


def _show(policy: "Policy", source: str) -> list[Any]:
    inputs, amounts, bounds = policy.inputs, policy.amounts, policy.bounds
    bribes, watching = policy.bribes, policy.watching
    replay = price(inputs.replay_cost) if inputs.replay_cost is not None else "that of training"
    paying = [row.name for row in policy.strategies if row.pays]
    stated = f"{amounts.multiple} × its price"
    return [
        table(
            f"Inputs: {source}",
            ("what", "value"),
            [
                ("tier", inputs.tier),
                ("price of the work", price(inputs.price)),
                ("honest cost of training", _percent(inputs.cost_bps / BPS) + " of its price"),
                ("cost of recomputing", replay),
                ("part of the bid for providers", _percent(inputs.providers_bps / BPS)),
                ("validators, with the stake of each", f"{inputs.validators}, {money(inputs.stake)}"),
                ("validators that help the winner", amount(inputs.coalition)),
                ("profit of a wrong round besides saved work", money(inputs.side)),
            ],
        ),
        table(
            "An order",
            ("what", "value"),
            [
                ("price of the order, of a round", f"{money(amounts.order_price)}, {money(amounts.round_price)}"),
                (
                    "pay of a share, part of the validator",
                    f"{money(amounts.share_pay)}, {money(amounts.validator_part)}",
                ),
                ("bond of a share, job bond", f"{money(amounts.share_bond)}, {money(amounts.job_bond)}"),
                ("slash for a wrong round", money(amounts.slash)),
                ("segments that a panel draws", f"{amounts.drawn_segments:,} of {amounts.segments:,}"),
                ("pay of a panel", money(amounts.audit_fee)),
                ("chance that a panel finds one wrong segment", _percent(amounts.found_one)),
                ("chance that it finds a tenth of all", _percent(amounts.found_tenth)),
            ],
        ),
        table(
            "Strategies, compared with honest work",
            ("party", "strategy", "not found", "chance to find it", "loss if found", "expected gain"),
            [
                (
                    row.party,
                    row.name,
                    _money(row.kept),
                    _percent(row.found),
                    _money(row.lost),
                    _money(row.gain) + (" (pays)" if row.pays else ""),
                )
                for row in policy.strategies
            ],
        ),
        *_about_replicas(inputs.tier),
        table(
            "Least values at which honest work pays",
            ("what", "least", "on this chain"),
            [
                ("share bond, for a provider alone", _multiple(bounds.share_bond), stated),
                (
                    "share bond, for a provider and its validator",
                    _multiple(bounds.share_bond_confirmed),
                    stated,
                ),
                ("share bond, so that no one is paid twice by the cover", _multiple(bounds.share_bond_cover), stated),
                (
                    "job bond, so that no consumer trains for nothing",
                    _percent(bounds.job_bond_bps / BPS) + " of the price",
                    _percent(amounts.job_bond / amounts.order_price) + " of the price" if amounts.order_price else "-",
                ),
                (
                    f"cover of the {amounts.rounds_at_risk} rounds that one ruling can make void",
                    money(bounds.cover),
                    f"{_percent(inputs.cover_bps / BPS)} of a job bond that covers"
                    f" {counted(bounds.rounds_covered, 'round')}",
                ),
                (
                    "chance of a panel per round",
                    _chance(bounds.honest_rate_bps / BPS),
                    _percent(amounts.rate_bps / BPS),
                ),
                ("segments that a panel draws", _count(bounds.drawn_segments), amount(amounts.drawn_segments)),
                ("chance of a check, by proof of sampling", _chance(bounds.sampling), "100%"),
            ],
        ),
        table(
            "Bribes, if a seat asks for what it can lose",
            ("what", "price"),
            [
                ("one seat", money(bribes.seat)),
                ("a first stage, to confirm a wrong round", money(bribes.confirm)),
                ("two stages, to make a right round void", money(bribes.deny)),
                ("more than half of the last stage", money(bribes.last_stage)),
                ("the most that a cluster would pay", _money(bribes.worth)),
            ],
        ),
        table(
            "Coalitions of validators",
            ("part", "validators", "confirms a wrong root", "denies a right root"),
            [
                (f"{row.percent}%", row.validators, _percent(row.confirms), _percent(row.denies))
                for row in bribes.captures
            ],
        ),
        table(
            "A watchtower",
            ("what", "value"),
            [
                ("cost of recomputing a segment", _money(watching.check)),
                ("bond of a challenge", money(watching.bond)),
                ("reward for a wrong share", money(watching.reward_share)),
                ("reward for a validator's fault", money(watching.reward_validator)),
                ("wrong segments above which it pays", _percent(watching.least_wrong)),
                (f"income per segment if {_percent(inputs.wrong_bps / BPS)} are wrong", _money(watching.income)),
                ("reward that pays with planted errors of 1%", _money(watching.jackpot)),
            ],
        ),
        f"these strategies earn more than honest work: {', '.join(paying)}" if paying else "no strategy pays",
    ]


def _money(value: float) -> str:
    return money(round(value))


def _about_replicas(tier: str) -> list[str]:
    """Return a list with one line about strategies in a tier that replicates; an empty list for another tier."""
    if not is_replicating(tier):
        return []
    return ["These are the strategies of one party that has all replicas; what differs from another replica is found."]


def _percent(part: float) -> str:
    """Return a part as a percentage with three digits."""
    return f"{100 * part:.3g}%" if isfinite(part) else _NONE


def _chance(value: float) -> str:
    """Return a least chance as a percentage; no chance above 1 exists."""
    return _percent(value) if value <= 1 else _NONE


def _multiple(value: float) -> str:
    return f"{value:.3g} × its price" if isfinite(value) else _NONE


def _count(value: float) -> str:
    return amount(int(value)) if isfinite(value) else _NONE
