"""``assay validator``."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import ADDRESS, AMOUNT, DURATION, ENDPOINT, FLOPS, HOST, PEERS, PORT, SIZE
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options, executor_option, group_option
from assay.cli.errors import CliError, WrongUsage
from assay.cli.node import LOCAL, check_distinct
from assay.cli.nodes import nodes_tables
from assay.cli.output import counted, flops, short, table
from assay.cli.running import running_options
from assay.cli.staking import RATE
from assay.settings.kinds import AddressList
from domain.amount import BPS
from domain.limits import SHARE_BOND_MAX, SLOTS_MAX
from domain.measures import duration
from host.addresses import HostPort, ip_of
from host.daemon import on_stop_signal
from pol.executor.names import Engine
from pol.machines.form import read_shape
from pol.rules.tiers.table import tier_names
from validator.decide.admission import NEWCOMER_ROUNDS_MAX, Backing, Policy

if TYPE_CHECKING:
    from chain.client.client import ChainClient
    from validator.daemon import ValidatorConfig
    from validator.decide.records import LocalSeat
    from wire.keys import Key

SPEED_MARGIN = 4
"""Number by which the measured speed is divided to get the promised speed.

The speed is measured with products; other operations of the same work may take four times as long.
"""
RATE_MARGIN = 2
BID_LIFE, BID_MEMORY = 7 * 86_400, 1 << 30
"""Seconds until a bid of `assay validator join` expires, and the memory per device that it offers (bytes)."""
RATES_MEASURED = 3
"""Number of other validators from which the download rate is measured."""


@click.group(help="Run a validator's daemon.")
def command() -> None:
    """Group of validator commands."""


@command.command(
    help="""Run the daemon until Ctrl-C: receive payloads, run the cluster, replay shares, prove rounds, sit in panels.

    Example: assay validator run --listen 0.0.0.0:9191 --endpoint validator.example:9191 --from op
    """
)
@click.option("--listen", type=ENDPOINT, help="Address to listen on.  [127.0.0.1:9191]")
@click.option(
    "--endpoint",
    type=ENDPOINT,
    help="Address at which others reach the daemon; published on the chain.  [the address in --listen]",
)
@executor_option(None)
@group_option("replay a segment together")
@engine_options(threads="1")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes for replay.",
)
@click.option(
    "--newcomer-rounds",
    type=click.IntRange(1, NEWCOMER_ROUNDS_MAX),
    help="Closed rounds that may wait for their panels while one of them has a share of a provider whose work was never"
    " verified. One wrong share makes them all void.  [1]",
)
@click.option(
    "--admit",
    type=click.Choice([policy.value for policy in Policy]),
    help="Which providers may join after passing a probe: those that you named or gave an invitation (invited), any"
    " (open), or none (closed).  [invited]",
)
@common_options
@running_options("validator")
def run(
    context: CommandContext,
    listen: str | None,
    endpoint: str | None,
    executor: str | None,
    machines: str | None,
    engine: Engine,
    processes: int,
    newcomer_rounds: int | None,
    admit: str | None,
    metrics_port: int,
) -> None:
    """Run the validator's daemon in the foreground."""
    from validator.daemon import ValidatorDaemon

    config = _make_config(
        context,
        listen=listen,
        endpoint=endpoint,
        executor=executor,
        machines=machines,
        engine=engine,
        processes=processes,
        newcomer_rounds=newcomer_rounds,
        admit=admit,
        metrics_port=metrics_port,
    )
    stop = Event()
    on_stop_signal(stop.set)
    daemon = ValidatorDaemon(config, context.key(), stop)
    ready = f"ready: serving on {config.listen}, published as {config.endpoint}"
    daemon.run(lambda: context.output.note(ready))


def _make_config(
    context: CommandContext,
    *,
    engine: Engine,
    metrics_port: int,
    listen: str | None = None,
    endpoint: str | None = None,
    executor: str | None = None,
    machines: str | None = None,
    processes: int = 1,
    newcomer_rounds: int | None = None,
    admit: str | None = None,
) -> "ValidatorConfig":
    """Return the daemon's settings: those of options, and of the home's configuration for options that are None."""
    from validator.daemon import ValidatorConfig

    listen = str(context.setting("validator.listen", listen).value)
    endpoint = str(context.setting("validator.endpoint", endpoint).value or listen)
    _check_reachable(endpoint)
    return ValidatorConfig(
        home=context.home / "validator",
        node=context.node,
        listen=listen,
        endpoint=endpoint,
        engine=engine,
        executor=str(context.setting("validator.executor", executor).value),
        machines=read_shape(str(context.setting("validator.machines", machines).value)),
        processes=processes,
        admit=Policy(str(context.setting("validator.admit", admit).value)),
        backing=Backing(
            int(context.setting("validator.share_bond").value or 1), int(context.setting("validator.cover").value or 0)
        ),
        metrics_port=metrics_port,
        newcomer_rounds=int(context.setting("validator.newcomer_rounds", newcomer_rounds).value or 1),
        mirrors=AddressList.split(context.setting("validator.mirrors").value or ""),
        mirror_for=AddressList.split(context.setting("validator.mirror_for").value or ""),
    )


@command.command(
    help="""Become a validator of a running chain: from a machine and an account with coins to a bonded validator.

    The command makes the home, starts the node, waits until it has the newest block, registers the validator and its
    beacon key, runs the daemon, promises a measured speed, and places a bid if you give its price and capacity. Then
    it runs the node and the daemon until Ctrl-C. Run it again, and it goes on where it stopped.

    \b
    Examples:
      assay validator join mine --genesis genesis.json --peers ID@HOST:26656 --stake 1000ASSAY --from op
      assay validator join mine --genesis genesis.json --peers ID@HOST:26656 --stake 1000ASSAY
        --listen 0.0.0.0:9191 --endpoint HOST:9191 --bond 100000ASSAY
        --price 900000ASSAY --capacity 10000000000000000 --slot-speed 1000000000 --slots 2 --from op
    """
)
@click.argument("moniker")
@click.option("--genesis", type=click.Path(path_type=Path), help="The chain's genesis file; needed the first time.")
@click.option("--peers", type=PEERS, default="", help="ID@host:port of nodes to connect to, comma-separated.")
@click.option("--host", type=HOST, default=LOCAL, show_default=True, help="Address for peers.")
@click.option("--p2p-port", type=PORT, default=26656, show_default=True, help="Port for other nodes.")
@click.option("--rpc-port", type=PORT, default=26657, show_default=True, help="Port of CometBFT's RPC on 127.0.0.1.")
@click.option("--grpc-port", type=PORT, default=9090, show_default=True, help="Port for commands, on 127.0.0.1.")
@click.option("--stake", type=AMOUNT, required=True, help="Coins to delegate to it.")
@click.option("--commission-rate", type=RATE, default="0.10", show_default=True, help="Part of the rewards to keep.")
@click.option("--bond", type=AMOUNT, help="Free coins to keep in the bond account, for won orders.")
@click.option("--listen", type=ENDPOINT, help="Address that the daemon listens on.  [127.0.0.1:9191]")
@click.option("--endpoint", type=ENDPOINT, help="Address at which others reach the daemon.  [the one in --listen]")
@click.option("--price", type=AMOUNT, help="Place a bid at this price: uassay per PFLOP.")
@click.option("--capacity", type=FLOPS, help="FLOPs that the bid sells in all.")
@click.option("--slot-speed", type=FLOPS, help="FLOP/s that the bid gives to one slot.")
@click.option("--slots", type=click.IntRange(1, SLOTS_MAX), default=1, show_default=True, help="Slots of the bid.")
@engine_options(threads="1")
@common_options
@running_options("validator")
def join(
    context: CommandContext,
    moniker: str,
    genesis: Path | None,
    peers: str,
    host: str,
    p2p_port: int,
    rpc_port: int,
    grpc_port: int,
    stake: int,
    commission_rate: int,
    bond: int | None,
    listen: str | None,
    endpoint: str | None,
    price: int | None,
    capacity: int | None,
    slot_speed: int | None,
    slots: int,
    engine: Engine,
    metrics_port: int,
) -> None:
    """Do what a validator needs, step by step, and run its node and daemon in the foreground."""
    from assay.cli.joining import Joining, NodeWishes, Promise, StandingBid
    from chain.app.comet_files import Ports
    from domain.market.records import Offer

    wanted = (price, capacity, slot_speed)
    bid = None
    if price and capacity and slot_speed:
        offer = Offer(
            price=price,
            slot_speed=slot_speed,
            slots=slots,
            max_work=capacity,
            memory=BID_MEMORY,
            tiers=tier_names()[:1],
        )
        bid = StandingBid(offer, capacity, BID_LIFE)
    elif any(wanted):
        raise WrongUsage(
            "a bid needs --price, --capacity and --slot-speed", "give all three, or none and use `assay bid place`"
        )
    ports = Ports(p2p_port, rpc_port, grpc_port)
    check_distinct(ports)
    config = _make_config(context, listen=listen, endpoint=endpoint, engine=engine, metrics_port=metrics_port)
    key = context.key()
    joining = Joining(context, key)
    stop = Event()
    try:
        chain_id = joining.make_home(NodeWishes(moniker=moniker, genesis=genesis, peers=peers, host=host, ports=ports))
        on_stop_signal(stop.set)
        context = joining.context
        config = replace(config, node=context.node)
        joining.run_node(chain_id, stop)
        with context.client() as client:
            joining.wait_for_coins(client, stake, bond or 0, stop)
            joining.create_validator(client, moniker, stake, commission_rate)
            joining.register_beacon_key(client)
            joining.deposit_bond(client, bond or 0)
            promise = None if joining.has_promised(client) else Promise(*_measured(context, client, key, engine))
        joining.run_daemon(config, stop, promise, bid)
    finally:
        joining.close()


def _measured(context: CommandContext, client: "ChainClient", key: "Key", engine: Engine) -> tuple[int, int]:
    """Return the speed and the rate to promise; what cannot be measured yet is what every machine reaches."""
    from domain.genesis import AUDIT_RATE

    speed = _measure_speed(context, engine)
    try:
        return speed, max(1, _measure_rate(client, key) // RATE_MARGIN)
    except CliError as error:
        context.output.note(f"{error.reason}; promising {AUDIT_RATE:,} bytes/s")
        return speed, AUDIT_RATE


def _check_reachable(endpoint: str) -> None:
    """Raise WrongUsage if the endpoint means all addresses, as 0.0.0.0 does, because others cannot connect to such an
    endpoint.
    """
    host = HostPort.parse(endpoint).host
    address = ip_of(host)
    if address is not None and address.is_unspecified:
        raise WrongUsage(
            f"{host} means all addresses of this machine, so others cannot connect to it; give the address at which"
            " others reach the daemon, for example --endpoint validator.example:9191"
        )


def backing_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the two numbers that tasks for a provider state about the bonds behind its shares."""
    cover = click.option(
        "--cover",
        type=click.IntRange(0, BPS),
        default=BPS,
        show_default=True,
        help="Basis points of the job bond that pay its right shares if another provider's fault makes them void.",
    )
    bond = click.option(
        "--share-bond",
        type=click.IntRange(1, SHARE_BOND_MAX),
        default=1,
        show_default=True,
        help="Bond of each of its shares, as a multiple of the share's price.",
    )
    return bond(cover(function))


@command.command(
    help="""Admit a provider: at once if it has applied, otherwise when it applies and passes the probe.

    Example: assay validator admit assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@backing_options
@common_options
def admit(context: CommandContext, address: str, share_bond: int, cover: int) -> None:
    """Record in the daemon's home that a provider may join; admit the provider if it has applied."""
    _name(context, address, admit=True, backing=Backing(share_bond, cover))


@command.command(
    help="""Remove a provider from the cluster, or reject it when it applies.

    This is not possible while the provider has a committed share.

    Example: assay validator dismiss assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@common_options
def dismiss(context: CommandContext, address: str) -> None:
    """Record in the daemon's home that a provider may not join; dismiss the provider if it has joined or applied."""
    _name(context, address, admit=False)


@command.command(
    help="""Print an invitation to this validator's cluster, for `assay provider join --invitation`.

    Every provider that knows the invitation may use it until it ends.

    Example: assay validator invite --valid 7d --from op
    """
)
@click.option("--valid", type=DURATION, default=7 * 86_400, help="Time for which the invitation is valid.  [7d]")
@backing_options
@common_options
def invite(context: CommandContext, valid: int, share_bond: int, cover: int) -> None:
    """Sign an invitation that ends after ``valid`` seconds of the chain clock."""
    from chain.client.client import ChainClient
    from domain.node.queries import StatusRequest
    from validator.decide.admission import make_invitation

    key = context.key()
    with ChainClient(context.node) as client:
        now = client.query(StatusRequest())
    until = now.clock + valid
    invitation = make_invitation(now.chain_id, key.address, until, Backing(share_bond, cover), key.sign).hex()
    context.output.result({"invitation": invitation, "until": until}, [invitation])


def _name(context: CommandContext, address: str, *, admit: bool, backing: Backing | None = None) -> None:
    from chain.client.client import ChainClient
    from chain.client.sender import TxSender
    from domain.registry.messages import MsgAdmitProvider, MsgDismissProvider
    from domain.registry.queries import ProviderRequest, ValidatorsRequest
    from validator.store import ValidatorStore

    key = context.key()
    with ChainClient(context.node) as client:
        operators = {validator.operator for validator in client.query(ValidatorsRequest()).validators}
    if admit and address in operators - {key.address}:
        raise CliError(f"{address} is the operator of a validator", "admit another account of this provider")
    store = ValidatorStore(context.home / "validator" / "validator.db")
    try:
        store.name(address, admit)
        if backing is not None:
            store.save_backing(address, backing)
    finally:
        store.close()
    with ChainClient(context.node) as client:
        known = client.query(ProviderRequest(address)).provider
        mine = known is not None and known.validator == key.address
        done = not mine or (admit and known is not None and known.admitted)
        if not done:
            message = (MsgAdmitProvider if admit else MsgDismissProvider)(key.address, address)
            TxSender(client, key).send(message)
    what = "admitted" if admit else "dismissed"
    if mine:
        line = f"{address} is {what}"
    else:
        line = f"{address} has not applied; it will be {what if admit else 'rejected'} when it does"
    context.output.result({"provider": address, "admit": admit, "on_chain": mine}, [line])


@command.command(
    help="""Promise this validator's speed and download rate in panels; by default, both are measured.

    The time for an order's audits follows from these promises. A validator whose promise is too low for an order
    never sits in its panels and earns nothing there. Each stage of a panel that it misses halves its promise.

    \b
    Examples:
      assay validator promise --from op
      assay validator promise --speed 500000000 --rate 20MiB --from op
    """
)
@click.option("--speed", type=FLOPS, help="FLOP/s of exact work.  [measured, with a margin]")
@click.option("--rate", type=SIZE, help="Download rate from other validators, bytes/s.  [measured, with a margin]")
@engine_options()
@common_options
def promise(context: CommandContext, speed: int | None, rate: int | None, engine: Engine) -> None:
    """Promise a speed and a download rate on the chain. A value that the user does not give is measured."""
    from domain.registry.messages import MsgPromiseAudits

    key = context.key()
    with context.client() as client:
        if speed is None:
            speed = _measure_speed(context, engine)
        if rate is None:
            context.output.note("measuring the download rate from other validators")
            rate = max(1, _measure_rate(client, key) // RATE_MARGIN)
        message = MsgPromiseAudits(key.address, speed, rate)
        receipt = context.sender(client, key).send(message)
    context.output.result(
        {"speed": speed, "rate": rate, "height": receipt.height, "tx": receipt.hash},
        f"promised {flops(speed)}/s and {rate:,} bytes/s at height {receipt.height}",
    )


def _measure_speed(context: CommandContext, engine: Engine) -> int:
    """Return the measured speed of exact work (FLOP/s), divided by the margin."""
    from compute_provider.work.bench import measure_speed

    context.output.note("measuring the speed of exact work")
    measured = measure_speed(engine)
    if measured.limits:
        context.output.note(f"measured within {measured.limits}")
    return max(1, measured.flops // SPEED_MARGIN)


def _measure_rate(client: "ChainClient", key: "Key") -> int:
    """Measure the download rates (bytes/s) from at most ``RATES_MEASURED`` other validators, and return the lowest
    rate.

    Validators that do not answer are left out. Raise CliError if no validator answers.
    """
    from compute_provider.work.bench import measure_bandwidth
    from domain.registry.queries import ValidatorsRequest
    from link.client import connect
    from link.errors import ClusterError

    chain_id = client.status().chain_id
    rates: list[int] = []
    for other in client.query(ValidatorsRequest()).validators:
        if other.operator == key.address or not other.endpoint or len(rates) == RATES_MEASURED:
            continue
        try:
            link = connect(other, key, chain_id)
        except ClusterError:
            continue
        try:
            rates.append(measure_bandwidth(link))
        except ClusterError:
            continue
        finally:
            link.close()
    if not rates:
        raise CliError(
            "no other validator answers, so the download rate cannot be measured",
            "give the download rate of your connection in bytes/s: --rate 20MiB",
        )
    return min(rates)


@command.command(
    help="Show this validator's orders, its seats in panels, and its verdicts on shares.\n\n"
    "Example: assay validator status"
)
@common_options
def status(context: CommandContext) -> None:
    """Show the orders, seats and verdicts in the daemon's database."""
    from domain.proof.reasons import ShareReason
    from pol.work.cluster.seen import read_nodes
    from validator.store import COMPUTING, ValidatorStore

    path: Path = context.home / "validator" / "validator.db"
    if not path.exists():
        raise CliError(f"{path} does not exist", "run the daemon first: assay validator run")
    store = ValidatorStore(path)
    try:
        verdicts, orders, audits = store.verdicts(), store.all_orders(), store.answered()
        seats = [seat for key in store.seats() if (seat := store.seat(key)) is not None]
    finally:
        store.close()
    said = path.with_name(COMPUTING)
    computing = said.read_text() if said.exists() else ""
    cluster = read_nodes(path.parent)
    machines = () if cluster is None else cluster.nodes
    since = duration(max(0, int(time.time()) - cluster.at)) if cluster else ""
    rows = [
        (
            short(v.order_id),
            v.round,
            v.slot,
            v.issue,
            short(v.provider),
            v.segments,
            v.checked,
            "accepted" if not v.reason else ShareReason(v.reason).name.lower(),
            v.segment if v.segment >= 0 else "-",
        )
        for v in verdicts
    ]
    columns = (
        "order",
        "round",
        "slot",
        "issue",
        "provider",
        "segments",
        "checked",
        "verdict",
        "segment",
    )
    context.output.result(
        {
            "computing": computing,
            "orders": [{"order": order_id, "leg": leg} for order_id, leg in orders],
            "verdicts": verdicts,
            "audits": [
                {"order": order_id, "leg": leg, "round": number, "agreed": agreed}
                for order_id, leg, number, agreed in audits
            ],
            "seats": [
                {
                    "order": seat.duty.order_id,
                    "leg": seat.duty.leg,
                    "round": seat.duty.round,
                    "stage": seat.duty.stage,
                    "places": len(seat.places),
                    "open": sum(place.is_open for place in seat.places),
                    "commits_end": seat.duty.commits_end,
                    "ready": seat.sealed is not None,
                }
                for seat in seats
            ],
            "machines": machines,
        },
        [
            f"{counted(len(orders), 'leg')}, answers in {counted(len(audits), 'panel')}, "
            f"{sum(not agreed for *_, agreed in audits)} of them different from the chain's result",
            *([f"computing with {computing}"] if computing else []),
            *(_seat_line(seat) for seat in seats),
            *nodes_tables(machines, f", unchanged for {since}"),
            table("Verdicts on shares", columns, rows),
        ],
    )


def _seat_line(seat: "LocalSeat") -> str:
    """Return a line with this validator's progress in one of its seats in panels."""
    duty = seat.duty
    waiting = sum(place.is_open for place in seat.places)
    progress = "answers ready" if seat.sealed else f"{waiting} still to recompute"
    return (
        f"seat in the panel of order {short(duty.order_id)} round {duty.round} stage {duty.stage}: "
        f"{len(seat.places)} places, {progress}, commit until chain time {duty.commits_end} s"
    )
