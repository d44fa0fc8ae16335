"""What an operator has to know of a home, and what of it somebody should see to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
"""How old the last block may be; blocks come every few seconds."""
AHEAD_SECONDS = 10
"""How far a block may lie in this machine's future."""
FREE_BYTES = 2 << 30
_QUORUM = Fraction(2, 3)
_SECOND = 10**9


class HealthProblem(StrEnum):
    """What somebody should see to; the words are for scripts, and stay."""

    NODE_AWAY = "node_away"
    COMET_AWAY = "comet_away"
    OTHER_CHAIN = "other_chain"
    CATCHING_UP = "catching_up"
    HALTED = "halted"
    WRONG_CLOCK = "wrong_clock"
    NO_PEERS = "no_peers"
    JAILED = "jailed"
    SIGNED_TWICE = "signed_twice"
    DAEMON_AWAY = "daemon_away"
    NO_COINS = "no_coins"
    OVERDUE = "overdue"
    PROVIDER_STOPPED = "provider_stopped"
    PROVIDER_WARNED = "provider_warned"
    DISK_LOW = "disk_low"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should see to, and how."""

    trouble: HealthProblem
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ProviderSeen:
    """The provider of a home: what its daemon wrote last, and what the chain has of it (None: not asked).

    ``idle`` is why it has nothing to train, and since when; ``warning`` what its operator has to see to.
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
    """One look at a home and its node. ``now_ns`` is this machine's clock in Unix nanoseconds.

    ``away`` is why the node did not answer, ``own_chain`` the chain of the home's own node, ``has_comet`` whether it
    is one of this home and has a CometBFT. ``wrong_clock`` says that this machine's clock is
    ahead of the chain's. ``signed_twice`` is what its node has found of another node that signs with its key,
    ``key_user`` the process of this machine, not its node, that does so now (0: it cannot be seen). ``me`` is the
    validator whose keys are here, ``listens`` where its daemon does, ``answers`` whether it does so now. ``bids`` are
    its own and ``providers`` those of its cluster. ``disk`` are bytes by folder of the home, ``free`` those left beside
    them.
    """

    now_ns: int
    away: str = ""
    own_chain: str = ""
    status: StatusResponse | None = None
    validators: tuple[Validator, ...] = ()
    has_comet: bool = False
    comet: CometStanding | None = None
    votes: Votes | None = None
    wrong_clock: str = ""
    signed_twice: str = ""
    key_user: int | None = None
    me: Validator | None = None
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
        """Seconds since the time in the newest block that is known, None where none is."""
        known = [found.time_ns for found in (self.status, self.comet) if found is not None]
        return (self.now_ns - max(known)) / _SECOND if known else None


def problems(seen: Seen) -> Iterator[Problem]:
    """Yield what somebody should see to, the worst first."""
    if seen.away:
        yield Problem(
            HealthProblem.NODE_AWAY,
            seen.away,
            "start it (assay node start), or name another with --node",
        )
    if seen.has_comet and seen.comet is None:
        yield Problem(HealthProblem.COMET_AWAY, "CometBFT of this home does not answer", "see the log of the node")
    if seen.status is not None and seen.own_chain not in ("", seen.status.chain_id):
        yield Problem(
            HealthProblem.OTHER_CHAIN,
            f"a node of {cut(seen.status.chain_id)} answers in the place of this home's, which is of {seen.own_chain}",
            "give this node ports of its own in config.toml, and start it (assay node start)",
        )
    yield from _of_key(seen)
    yield from _of_blocks(seen)
    yield from _of_validator(seen)
    provider = seen.provider
    # The chain knows one that has left its cluster, too.
    known = provider.on_chain if provider and not provider.running else None
    if provider and known and known.validator:
        yield Problem(
            HealthProblem.PROVIDER_STOPPED,
            f"the provider {provider.address} is in a cluster, and its daemon does not run",
            "start it (assay provider join), or leave (assay provider leave)",
        )
    if provider and provider.running and provider.warning:
        text, _, remedy = provider.warning.rpartition("; ")
        yield Problem(HealthProblem.PROVIDER_WARNED, text, remedy)
    if seen.free < FREE_BYTES:
        yield Problem(
            HealthProblem.DISK_LOW,
            f"{seen.free / 2**30:.1f} GiB of disk are left",
            "make room: a node that cannot write ends",
        )


def _of_key(seen: Seen) -> Iterator[Problem]:
    remedy = "end one of the two nodes for good, and see docs/operate/backup.md"
    if seen.key_user is not None:
        yield Problem(
            HealthProblem.SIGNED_TWICE,
            "the consensus key of this home is in use by another node of this machine, as process"
            f" {seen.key_user or '?'}",
            remedy,
        )
    if seen.signed_twice:
        yield Problem(HealthProblem.SIGNED_TWICE, seen.signed_twice, remedy)


def idle_validator(seen: Seen) -> str:
    """Say what a validator without duties waits for, and what would help; nothing where it has some or is no one."""
    me, status = seen.me, seen.status
    if me is None or status is None or seen.duties:
        return ""
    if not me.endpoint:
        return "it waits for its endpoint on chain: assay validator run publishes it"
    standing = [bid for bid in seen.bids if bid.expires_at > status.clock]
    if not standing:
        return "it waits for a bid of its own: assay bid place"
    measured = [
        each
        for each in seen.providers
        if each.admitted and each.capability and each.capability.expires_at > status.clock
    ]
    if not measured:
        return (
            "it waits for a provider with a certified speed in its cluster: assay provider join"
            f" {me.moniker or me.operator} on a machine that trains"
        )
    since = min(bid.placed_height for bid in standing)
    if not any(bid.free for bid in standing):
        return (
            f"it waits until a leg ends, since no capacity of its {counted(len(standing), 'bid')} is left: assay bid"
            " change --capacity gives more"
        )
    bids, price = counted(len(standing), "bid"), money(min(bid.offer.price for bid in standing))
    return (
        f"it waits for an order, with {bids} from {price} per PFLOP, the oldest of height {since:,}, and"
        f" {counted(len(measured), 'provider')}: a lower price wins more (assay bid change)"
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
                f"the node fetches old blocks; the last one is {duration(round(age))} old",
                "wait: until then it does nothing that a validator has to do",
            )
        else:
            yield Problem(
                HealthProblem.HALTED,
                f"no block for {duration(round(age))}{_who_is_away(seen)}",
                "the chain goes on by itself when more than two thirds of the power vote",
            )
    if comet is not None and not comet.peers and len(seen.validators) > 1:
        yield Problem(
            HealthProblem.NO_PEERS,
            "the node is connected with nobody",
            "see that its p2p port is reachable, and --peers of assay node init",
        )


def _who_is_away(seen: Seen) -> str:
    votes = seen.votes
    if votes is None or votes.power > _QUORUM:
        return ""
    monikers = {each.cons_address: each.moniker for each in seen.validators}
    away = ", ".join(monikers.get(address, address.hex()) for address in votes.absent)
    return cut(f": votes of {percent(votes.power)} of the power are there, without {away}")


def percent(power: Fraction) -> str:
    """Write a part of the power, cut and not rounded: two thirds are not enough, and shall not look as if they were."""
    return f"{power * 1000 // 1 / 10:g} %"


def _of_validator(seen: Seen) -> Iterator[Problem]:
    me = seen.me
    if me is None:
        return
    if me.jailed:
        yield Problem(HealthProblem.JAILED, f"{me.moniker} is jailed", "its bids do not match, and it does not vote")
    if not seen.answers:
        where = f" at {seen.listens}" if seen.listens else ""
        yield Problem(
            HealthProblem.DAEMON_AWAY,
            f"the daemon of {me.moniker} does not answer{where}",
            "start it (assay validator run): seats that it misses cost",
        )
    late = [duty for duty in seen.duties if duty.left is not None and duty.left < 0]
    if late:
        kinds = ", ".join(sorted({duty.kind.value for duty in late}))
        yield Problem(HealthProblem.OVERDUE, f"{len(late)} duties are overdue: {kinds}", "see the daemon's log")
    if seen.account is not None and not seen.account.balance:
        yield Problem(
            HealthProblem.NO_COINS,
            f"{me.operator} has {money(0)}, and pays no fee of a transaction",
            "send it coins: assay tx send",
        )
