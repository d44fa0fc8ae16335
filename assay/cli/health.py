"""The state of a home for its operator, and the home's problems that need attention."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction

from assay.cli.output import counted, cut, money
from chain.app.comet_rpc import CometStanding, Votes
from domain.ledger.queries import AccountResponse
from domain.market.records import Bid
from domain.measures import duration
from domain.node.queries import StatusResponse
from domain.registry.records import Provider, Validator
from validator.decide.deadlines import OpenDuty

LATE_SECONDS = 60
"""Largest age (seconds) of the last block of a chain that is not halted; blocks come every few seconds."""
AHEAD_SECONDS = 10
"""Largest difference (seconds) by which a block's time may be ahead of this machine's clock."""
FREE_BYTES = 2 << 30
_QUORUM = Fraction(2, 3)
_SECOND = 10**9


class HealthProblem(StrEnum):
    """A kind of problem that needs attention. Scripts compare these values, so the values must not change."""

    NODE_AWAY = "node_away"
    COMET_AWAY = "comet_away"
    OTHER_CHAIN = "other_chain"
    CATCHING_UP = "catching_up"
    HALTED = "halted"
    WRONG_CLOCK = "wrong_clock"
    NO_PEERS = "no_peers"
    JAILED = "jailed"
    CONSENSUS_JAILED = "consensus_jailed"
    SIGNED_TWICE = "signed_twice"
    DAEMON_AWAY = "daemon_away"
    NO_COINS = "no_coins"
    OVERDUE = "overdue"
    PROVIDER_STOPPED = "provider_stopped"
    PROVIDER_WARNED = "provider_warned"
    DISK_LOW = "disk_low"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that needs attention, and its remedy."""

    trouble: HealthProblem
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ConsensusJail:
    """The jail of a validator that was absent, or that signed twice (``for_good``).

    ``until_ns`` is the time (Unix nanoseconds) from which the operator may free it.
    """

    until_ns: int
    for_good: bool


@dataclass(frozen=True, slots=True)
class ProviderSeen:
    """The provider of a home, from its daemon's status file and the chain.

    ``note`` is the daemon's last error. ``on_chain`` is the chain's record of the provider; it is None if the chain was
    not asked or has no such record. ``idle`` says why the provider has nothing to train, and since when. ``warning`` is
    a problem and its remedy.
    """

    address: str
    running: bool
    pid: int
    note: str
    on_chain: Provider | None
    idle: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a home and its node at one moment.

    - ``now_ns``: this machine's clock in Unix nanoseconds.
    - ``away``: why the node did not answer; empty if it did.
    - ``own_chain``: the chain id of the home's own node.
    - ``has_comet``: whether the home has its own node with CometBFT.
    - ``wrong_clock``: a message if this machine's clock is ahead of the chain's.
    - ``signed_twice``: a message if the home's node found another node that signs with the same key.
    - ``key_user``: process id of another process on this machine that uses the home's consensus key; 0 if the id
      cannot be seen, None if there is none.
    - ``me``: the validator whose keys are in this home; ``bids`` are the validator's bids, and ``providers`` are the
      providers of its cluster.
    - ``consensus_jailed``: operators that the consensus jailed.
    - ``jail``: the jail in which the consensus put this validator; None if it is free.
    - ``listens``: the address of the validator's daemon; ``answers``: whether the daemon answers at this address.
    - ``disk``: bytes on disk, keyed by the folder of the home; ``free``: free bytes on that disk.
    """

    now_ns: int
    away: str = ""
    own_chain: str = ""
    status: StatusResponse | None = None
    validators: tuple[Validator, ...] = ()
    consensus_jailed: tuple[str, ...] = ()
    has_comet: bool = False
    comet: CometStanding | None = None
    votes: Votes | None = None
    wrong_clock: str = ""
    signed_twice: str = ""
    key_user: int | None = None
    me: Validator | None = None
    jail: ConsensusJail | None = None
    account: AccountResponse | None = None
    duties: tuple[OpenDuty, ...] = ()
    bids: tuple[Bid, ...] = ()
    providers: tuple[Provider, ...] = ()
    listens: str = ""
    answers: bool = False
    provider: ProviderSeen | None = None
    disk: Mapping[str, int] = field(default_factory=dict)
    free: int = FREE_BYTES

    @property
    def block_age(self) -> float | None:
        """Seconds since the time of the newest block that the node or CometBFT reports; None if neither reports a
        block.
        """
        known = [source.time_ns for source in (self.status, self.comet) if source is not None]
        return (self.now_ns - max(known)) / _SECOND if known else None


def problems(seen: Seen) -> Iterator[Problem]:
    """Yield the problems of a home, the worst first."""
    if seen.away:
        yield Problem(
            HealthProblem.NODE_AWAY,
            seen.away,
            "start it (assay node start), or use another node (--node HOST:PORT)",
        )
    if seen.has_comet and seen.comet is None:
        yield Problem(HealthProblem.COMET_AWAY, "this home's CometBFT does not answer", "see the node's log")
    if seen.status is not None and seen.own_chain not in ("", seen.status.chain_id):
        yield Problem(
            HealthProblem.OTHER_CHAIN,
            f"a node of chain {cut(seen.status.chain_id)} answers at the address of this home's node, which belongs to"
            f" {seen.own_chain}",
            "give this home's node unused ports (assay node init MONIKER --grpc-port PORT), and start it (assay node"
            " start)",
        )
    yield from _of_key(seen)
    yield from _of_blocks(seen)
    yield from _of_validator(seen)
    provider = seen.provider
    # The chain also keeps the record of a provider that has left its cluster; its ``validator`` is then empty.
    known = provider.on_chain if provider and not provider.running else None
    if provider and known and known.validator:
        yield Problem(
            HealthProblem.PROVIDER_STOPPED,
            f"provider {provider.address} is in a cluster, but its daemon does not run",
            "start it (assay provider join), or leave the cluster (assay provider leave)",
        )
    if provider and provider.running and provider.warning:
        text, _, remedy = provider.warning.rpartition("; ")
        yield Problem(HealthProblem.PROVIDER_WARNED, text, remedy)
    if seen.free < FREE_BYTES:
        yield Problem(
            HealthProblem.DISK_LOW,
            f"only {seen.free / 2**30:.1f} GiB of the disk are free",
            "free some space: a node that cannot write stops",
        )


def _of_key(seen: Seen) -> Iterator[Problem]:
    remedy = "stop one of the two nodes for good, and see docs/operate/backup.md"
    if seen.key_user is not None:
        yield Problem(
            HealthProblem.SIGNED_TWICE,
            f"another node on this machine (process {seen.key_user or '?'}) uses this home's consensus key",
            remedy,
        )
    if seen.signed_twice:
        yield Problem(HealthProblem.SIGNED_TWICE, seen.signed_twice, remedy)


def idle_validator(seen: Seen) -> str:
    """Return a text with the reason why this home's validator has no duties, and a remedy.

    Return an empty string if the validator has duties, if the home has no validator, or if the node does not answer.
    """
    me, status = seen.me, seen.status
    if me is None or status is None or seen.duties:
        return ""
    if not me.endpoint:
        return "its endpoint is not on the chain yet: assay validator run publishes it"
    standing = [bid for bid in seen.bids if bid.expires_at > status.clock]
    if not standing:
        return "it has no bid: assay bid place"
    measured = [
        each
        for each in seen.providers
        if each.admitted and each.capability and each.capability.expires_at > status.clock
    ]
    if not measured:
        return (
            "its cluster has no provider with a certified speed: assay provider join"
            f" {me.moniker or me.operator} on a machine that trains"
        )
    since = min(bid.placed_height for bid in standing)
    if not any(bid.free for bid in standing):
        return (
            f"it waits until a leg ends, because no capacity of its {counted(len(standing), 'bid')} is left: assay bid"
            " change --capacity adds more"
        )
    bids, price = counted(len(standing), "bid"), money(min(bid.offer.price for bid in standing))
    return (
        f"it waits for an order, with {bids} from {price} per PFLOP (oldest since height {since:,}) and"
        f" {counted(len(measured), 'provider')}: a lower price wins more orders (assay bid change)"
    )


def _of_blocks(seen: Seen) -> Iterator[Problem]:
    age, comet = seen.block_age, seen.comet
    if age is not None and age < -AHEAD_SECONDS:
        yield Problem(
            HealthProblem.WRONG_CLOCK,
            f"this machine's clock is {duration(round(-age))} behind the chain's last block",
            "set the clock of this machine (as root: timedatectl set-ntp true)",
        )
    if seen.wrong_clock:
        yield Problem(
            HealthProblem.WRONG_CLOCK,
            seen.wrong_clock,
            "set the clock of this machine (as root: timedatectl set-ntp true)",
        )
    elif age is not None and age > LATE_SECONDS:
        if comet is not None and comet.catching_up:
            yield Problem(
                HealthProblem.CATCHING_UP,
                f"the node is catching up; its last block is {duration(round(age))} old",
                "wait: the validator cannot vote or do its duties until the node is in sync",
            )
        else:
            yield Problem(
                HealthProblem.HALTED,
                f"no block for {duration(round(age))}{_who_is_away(seen)}",
                "the chain continues by itself when more than two thirds of the voting power are online",
            )
    if comet is not None and not comet.peers and len(seen.validators) > 1:
        yield Problem(
            HealthProblem.NO_PEERS,
            "the node has no peers",
            "make its p2p port reachable, or set peers (assay node init MONIKER --peers ID@HOST:26656)",
        )


def _who_is_away(seen: Seen) -> str:
    votes = seen.votes
    if votes is None or votes.power > _QUORUM:
        return ""
    monikers = {each.cons_address: each.moniker for each in seen.validators}
    away = ", ".join(monikers.get(address, address.hex()) for address in votes.absent)
    return cut(f": only {percent(votes.power)} of the power vote, without {away}")


def percent(power: Fraction) -> str:
    """Return a fraction of the voting power as a percentage, rounded down.

    If the percentage were rounded up, a power just below a quorum would look like a quorum.
    """
    return f"{power * 1000 // 1 / 10:g} %"


def _of_validator(seen: Seen) -> Iterator[Problem]:
    me = seen.me
    if me is None:
        return
    if seen.jail is not None:
        yield _of_jail(seen, me.moniker, seen.jail)
    if me.jailed:
        yield Problem(
            HealthProblem.JAILED,
            f"{me.moniker} is jailed, because panels found three of its legs wrong",
            "wait until the jail ends: until then it gets no matches and no seats",
        )
    if not seen.answers:
        where = f" at {seen.listens}" if seen.listens else ""
        yield Problem(
            HealthProblem.DAEMON_AWAY,
            f"the daemon of {me.moniker} does not answer{where}",
            "start it (assay validator run): missed seats in panels cost stake",
        )
    late = [duty for duty in seen.duties if duty.left is not None and duty.left < 0]
    if late:
        kinds = ", ".join(sorted({duty.kind.value for duty in late}))
        yield Problem(HealthProblem.OVERDUE, f"duties overdue: {len(late)} ({kinds})", "see the log of the daemon")
    if seen.account is not None and not seen.account.balance:
        yield Problem(
            HealthProblem.NO_COINS,
            f"{me.operator} has {money(0)} and cannot pay transaction fees",
            f"send it coins: assay tx send {me.operator} 10ASSAY",
        )


def _of_jail(seen: Seen, moniker: str, jail: ConsensusJail) -> Problem:
    if jail.for_good:
        return Problem(
            HealthProblem.CONSENSUS_JAILED,
            f"the consensus jailed {moniker} for good, because it signed two blocks of one height",
            "see docs/operate/upkeep.md: undelegate its coins, and make a new validator with a new account and home",
        )
    text = f"the consensus jailed {moniker}, because it did not sign blocks"
    # The jail ends on the chain clock, which stands still while the chain does: only a block's time counts.
    now_ns = seen.status.time_ns if seen.status is not None else seen.now_ns
    if jail.until_ns > now_ns:
        wait = duration(-((now_ns - jail.until_ns) // _SECOND))
        return Problem(
            HealthProblem.CONSENSUS_JAILED,
            f"{text}; the jail ends in {wait}, at {utc(jail.until_ns)}",
            "get its node in sync, wait until then, and free it: assay tx slashing unjail",
        )
    return Problem(
        HealthProblem.CONSENSUS_JAILED,
        f"{text}; the jail ended at {utc(jail.until_ns)}",
        "get its node in sync, and free it: assay tx slashing unjail",
    )


def utc(time_ns: int) -> str:
    """Return a time (Unix nanoseconds) as text: 2026-01-31 12:00:00 UTC."""
    return datetime.fromtimestamp(time_ns // _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
