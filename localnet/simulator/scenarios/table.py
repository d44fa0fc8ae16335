"""All scenarios, by party: providers, validators, seats, proposers, challengers, replicas, consumers, and outages."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from compute_provider.decide import actions as do
from domain.disputes.events import ChallengerRewarded
from domain.events import Change
from domain.legs.messages import MsgAcceptOrder
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.proof.events import (
    AnswerRevealed,
    DeliveryWitnessed,
    PanelBegun,
    ResultRuled,
    RoundCompared,
    RoundVoid,
    RulingAppealed,
    ShareFoundWrong,
    ShareIncluded,
    ShareStood,
    SlashVoteEnded,
    TraceMissing,
    VoidSharePaid,
)
from domain.proof.messages import (
    MsgCloseRound,
    MsgCommitAnswer,
    MsgCommitTraces,
    MsgRevealAnswer,
)
from domain.proof.reasons import Comparison
from domain.proof.records import AnswerKind, Ruling
from domain.vocabulary import changes_of
from localnet.simulator.behaviours import (
    Accomplice,
    Cheat,
    ConsumerHabits,
    CopyingAuditor,
    Forger,
    Hider,
    HidingAuditor,
    HonestProvider,
    HonestValidator,
    LazyAuditor,
    Listed,
    LocalNoiseSeller,
    NeverAccepts,
    NeverCloses,
    NeverServes,
    NoiseSeller,
    Rejecter,
    SilentAuditor,
    Slanderer,
    Vanisher,
    Withholder,
)
from localnet.simulator.scenarios.findings import EITHER_CONSUMER, EITHER_PROVIDER, NO_ONE
from localnet.simulator.scenarios.markets import WINNER, Market, crash_for
from localnet.simulator.scenarios.parties import (
    AccusesAll,
    Bribed,
    Censor,
    Challenger,
    Decliner,
    EndlessJob,
    Flooder,
    ForeignJob,
    Fumbles,
    GoneAfter,
    Hasty,
    HidesOwnStates,
    Leaves,
    NeverAppeals,
    OtherSlot,
    Ruins,
    SaysUnserved,
    ServesAllButOne,
    ShowsNoTrace,
    SkippedJob,
    Slanted,
    StaleJob,
    Stopper,
    StoppingJob,
    Taker,
    TakesNothing,
    ThirdSkipped,
    Trains,
    as_job,
)
from localnet.simulator.scenarios.scenario import Scenario
from localnet.simulator.scenarios.tiers import RARE, TRIES, compared, has_skipped, one_goes_on, play_in_tiers
from localnet.simulator.training import Job
from localnet.simulator.world import World
from pol.rules.tiers.replicated import REPLICATED
from pol.rules.tiers.tolerance import TOLERANCE

CHEAT = "v0p0"
"""The provider that is not honest: of the cluster that wins."""
Swap = Callable[[], HonestProvider | HonestValidator]

# Checks that the subject of a scenario happened


def settled(world: World) -> bool:
    """Return whether every order was settled."""
    reasons = [world.order(order.order_id).order.close_reason for order in world.orders]
    return all(reason == CloseReason.SETTLED for reason in reasons)


def happened(kind: type[Change]) -> Callable[[World], bool]:
    """Return what tells whether there was an event of a kind."""
    return lambda world: any(True for _ in changes_of(kind, world.chain.events))


def held_a_share(world: World) -> bool:
    """Return whether a provider included a share although another one had the issue of its task."""
    included = changes_of(ShareIncluded, world.chain.events)
    return settled(world) and any(change.share.issue != change.task_issue for change in included)


def said_unavailable(world: World) -> bool:
    """Return whether a seat said of a place that it is not served, and every order was settled."""
    answers = changes_of(AnswerRevealed, world.chain.events)
    return settled(world) and any(answer.kind == AnswerKind.UNAVAILABLE for answer in answers)


def continued(world: World) -> bool:
    """Return whether another leg went on from a verified round, and every order was settled."""
    return settled(world) and any(leg.from_leg for order in world.orders for leg in world.order(order.order_id).legs)


def open_shares_paid(world: World) -> bool:
    """Return whether a provider was paid for a share that a leg left open, and every order was settled."""
    stood = changes_of(ShareStood, world.chain.events)
    return settled(world) and any(each.right and each.paid for each in stood)


def void_shares_paid(world: World) -> bool:
    """Return whether right void shares got the rest of the wrong share's bond, and others the cover."""
    paid = list(changes_of(VoidSharePaid, world.chain.events))
    return settled(world) and any(each.from_bonds for each in paid) and any(each.from_cover for each in paid)


def went_back(world: World) -> bool:
    """Return whether an order went back to a round that was handed over, and was settled."""
    legs = (leg for order in world.orders for leg in world.order(order.order_id).legs)
    return settled(world) and any(leg.back_root and leg.back_leg for leg in legs)


def provider_appealed(world: World) -> bool:
    """Return whether the provider of a right share appealed a ruling against it, and no share was found wrong."""
    appealed = {change.appellant for change in changes_of(RulingAppealed, world.chain.events)}
    return settled(world) and CHEAT in appealed and not happened(ShareFoundWrong)(world)


def price_rose(world: World) -> bool:
    """Return whether gas became dearer, and every order was settled."""
    prices = [int(event.get("price_millionths")) for event in world.chain.seen("gas.price_changed")]
    return settled(world) and bool(prices) and max(prices) > 2_000


def was_slashed(world: World) -> bool:
    """Return whether a vote of all validators slashed the one that was at fault."""
    return any(vote.slashed for vote in changes_of(SlashVoteEnded, world.chain.events))


def copied_in_vain(world: World) -> bool:
    """Return whether each round with a late share needed a panel, there was one, and the other replica was settled."""
    late = {closed.key for order in world.orders for closed in world.order(order.order_id).rounds if closed.late}
    alone = {each.round for each in changes_of(RoundCompared, world.chain.events) if each.outcome == Comparison.ALONE}
    return one_goes_on(world) and bool(late) and late <= alone


def other_is_settled(world: World) -> bool:
    """Return whether the replica that the cheapest validator does not serve was settled, and the other one lost a
    round.
    """
    replicas = [world.order(order.order_id) for order in world.orders]
    (first,) = [each for each in replicas if each.legs[0].validator == WINNER]
    others = [each.order.close_reason for each in replicas if each is not first]
    return any(closed.void for closed in first.rounds) and set(others) == {CloseReason.SETTLED}


# Rows


def _provider(name: str, shows: str, fault: str, make: Swap, **changes: Any) -> Scenario:
    """Return a scenario in which one provider of the winner is not honest."""
    return Scenario(name=name, shows=shows, fault=fault, market=Market(swaps={CHEAT: make}, **changes), shown=settled)


def _habit(name: str, shows: str, fault: str, habit: str) -> Scenario:
    return _provider(name, shows, fault, lambda: Cheat(CHEAT, (habit,), 100))


def fetched_by_seats(world: World) -> bool:
    """Return whether seats found a result, and the consumer has it."""
    ruled = changes_of(ResultRuled, world.chain.events)
    found = {change.panel.round_key for change in ruled if change.ruling == Ruling.RIGHT}
    return settled(world) and any(found & order.checked for order in world.orders)


def _winner(
    name: str,
    shows: str,
    fault: str,
    make: Swap,
    shown: Callable[[World], bool] = settled,
    tries: int = 1,
    seed: int = 1,
    **changes: Any,
) -> Scenario:
    """Return a scenario in which the cheapest validator is not honest."""
    market = Market(swaps={WINNER: make}, **changes)
    return Scenario(name=name, shows=shows, fault=fault, market=market, shown=shown, tries=tries, seed=seed)


def _seats(
    name: str, shows: str, fault: str, make: Swap, shown: Callable[[World], bool] = settled, **changes: Any
) -> Scenario:
    """Return a scenario in which a third of the strangers are not honest, each on its own."""
    swaps = {f"v{number}": make for number in (1, 3)}
    market = Market(swaps=swaps, **changes)
    return Scenario(name=name, shows=shows, fault=fault, market=market, shown=shown, tries=6, seed=2)


def _decliner(reason: LegEnd) -> Scenario:
    role = "validator" if reason in (LegEnd.DECLINED_BY_CHOICE, LegEnd.DECLINED_NO_CAPACITY) else EITHER_CONSUMER
    text = reason.name.lower()
    return _winner(
        f"declines-{text.removeprefix('declined_').replace('_', '-')}",
        f"A validator declines what it wins, and says without truth: {text}. Another one serves the order.",
        f"{role}: {text}",
        partial(Decliner, reason),
    )


def _bribed(count: int) -> Scenario:
    swaps: dict[str, Swap] = {WINNER: lambda: Accomplice(frozenset({WINNER}), forges=True)}
    for number in range(1, 10):
        swaps[f"v{number}"] = partial(Bribed, frozenset({WINNER}), seats=count)
    return Scenario(
        name=f"{count}-of-4-seats-collude",
        shows=f"A validator aggregates wrongly, and {count} of a panel's first four seats say that it is right.",
        fault="validator: wrong_round",
        market=Market(validators=10, swaps=swaps, params={"auditors": 4}),
    )


def _outage(blocks: int) -> Scenario:
    names = ("v1", "v2", "v3")
    times = "one block" if blocks == 1 else f"{blocks} blocks"
    return Scenario(
        name=f"outage-of-half-for-{blocks}",
        shows=f"Half of the strangers are away for {times}, while panels recompute rounds. The order is settled.",
        fault=NO_ONE if blocks < 100 else "auditor: silent",
        market=Market(
            swaps=dict.fromkeys(names, Slanted),
            begin=crash_for(names, 12_000, blocks),
            rounds=6,
        ),
        shown=settled,
    )


def _stops(name: str, where: str, at: int) -> Scenario:
    def stopped(world: World) -> bool:
        reasons = {world.order(order.order_id).order.close_reason for order in world.orders}
        return reasons == {CloseReason.STOPPED_BY_JOB}

    market = Market(make_job=lambda terms: StoppingJob(terms, breaks_in=1, at=at))
    shows = f"A job stops in {where} of its second round. What was trained before is paid, and no one is at fault."
    return Scenario(name=name, shows=shows, fault="job: stopped", market=market, shown=stopped)


def _friends(count: int, name: str, shows: str) -> Scenario:
    names = [f"v{number}" for number in range(count)]
    swaps: dict[str, Swap] = {
        each: partial(Accomplice, frozenset(names), forges=each == WINNER, withholding=True) for each in names
    }
    return Scenario(name=name, shows=shows, fault="validator: wrong_round", market=Market(validators=9, swaps=swaps))


def _challenge(
    name: str, shows: str, fault: str, shown: Callable[[World], bool], *, right: bool = True, opens: bool = True
) -> Scenario:
    """Return a scenario in which the operator of v6 challenges a place; it is honest if what it claims is right."""
    swaps: dict[str, Swap] = {}
    if right:
        swaps = {
            WINNER: lambda: Accomplice(frozenset({WINNER, CHEAT})),
            CHEAT: lambda: Trains(as_job(ThirdSkipped)),
        }
    else:
        swaps["v6"] = Slanted
    market = Market(
        segments=20,
        rounds=2,
        swaps=swaps,
        params={"duty_segments": 2},
        begin=lambda world: Challenger("v6", right=right, opens=opens).begin(world),
    )
    return Scenario(name=name, shows=shows, fault=fault, market=market, shown=shown, tries=12)


def _replicas(
    name: str, shows: str, fault: str, make: Swap, shown: Callable[[World], bool], **changes: Any
) -> Scenario:
    """Return a scenario about an order with replicas, the first of which the cheapest validator serves."""
    swaps = {WINNER: make, **changes.pop("swaps")}
    params = {**RARE, **changes.pop("params", {})}
    market = Market(tier=REPLICATED.name, swaps=swaps, params=params, **{"rounds": 4, **changes})
    return Scenario(name=name, shows=shows, fault=fault, market=market, shown=shown, tries=TRIES)


_SCENARIOS = (
    # Wrong work of providers
    _habit("wrong-first-segment", "A provider invents its first segment.", "provider: segment_mismatch", "first"),
    _habit("wrong-middle-segment", "A provider invents a segment.", "provider: segment_mismatch", "middle"),
    _habit("wrong-last-segment", "A provider invents its last segment.", "provider: segment_mismatch", "last"),
    _habit(
        "wrong-update",
        "A provider trains rightly, and hands in an update that does not follow from it.",
        "provider: update_mismatch",
        "update",
    ),
    _habit("wrong-metrics", "A provider states metrics of its own.", "provider: segment_mismatch", "metrics"),
    _habit(
        "made-up-stop",
        "A provider says that the job stops, to be done earlier.",
        "provider: not_stopped",
        "quits",
    ),
    Scenario(
        name="ignored-stop",
        shows="A provider goes on where its job stops, and invents the rest.",
        fault="provider: not_finite",
        market=Market(
            swaps={CHEAT: lambda: Trains(as_job(EndlessJob))},
            make_job=lambda terms: StoppingJob(terms, breaks_in=1, at=1),
        ),
    ),
    _provider(
        "skipped-work",
        "A provider trains the first half of its share, and invents the states of the other half.",
        "provider: segment_mismatch",
        lambda: Trains(as_job(SkippedJob)),
    ),
    _provider(
        "foreign-work",
        "A provider hands in the work of another job.",
        "provider: segment_mismatch",
        lambda: Trains(as_job(ForeignJob)),
    ),
    _provider(
        "copied-work",
        "A provider hands in the work of another slot, as if it had copied it.",
        "provider: segment_mismatch",
        lambda: Trains(as_job(OtherSlot)),
    ),
    _provider(
        "stale-work",
        "A provider trains from the states of the first round in every round.",
        "provider: segment_mismatch",
        lambda: Trains(as_job(StaleJob)),
    ),
    _habit(
        "stolen-work",
        "A provider commits under its own name to what another one has committed to.",
        f"{EITHER_PROVIDER}: no_answer",
        "copied",
    ),
    _habit(
        "other-bond",
        "A provider signs another bond than its task states, so its validator takes no share from it.",
        NO_ONE,
        "odd bond",
    ),
    _habit(
        "garbage-update",
        "A provider sends bytes that are not the update of its commitment.",
        f"{EITHER_PROVIDER}: no_answer",
        "garbage",
    ),
    Scenario(
        name="missed-by-the-validator",
        shows="A third of a share is invented; the draws of the validator miss it, and an auditor finds it.",
        fault="provider: wrong_share",
        market=Market(
            swaps={CHEAT: lambda: Trains(as_job(ThirdSkipped))},
            orders=3,
            rounds=4,
            segments=12,
            params={"duty_segments": 1},
        ),
        tries=12,
        seed=3,
    ),
    Scenario(
        name="void-shares-are-paid",
        shows="An auditor finds an invented segment, and several rounds are void. Half of the wrong share's bond and"
        " the cover pay the right shares.",
        fault="provider: wrong_share",
        market=Market(
            swaps={WINNER: Hasty, CHEAT: lambda: Trains(as_job(ThirdSkipped))},
            rounds=6,
            segments=12,
            params={"duty_segments": 1},
        ),
        shown=void_shares_paid,
        tries=30,
        seed=8,
    ),
    # Silence of providers
    _habit("never-answers", "A provider trains and hands in nothing.", NO_ONE, "silent"),
    _habit("late", "A provider hands in its share after its deadline.", NO_ONE, "late"),
    _habit(
        "seems-away",
        "A provider seems to be away, and puts its share on chain itself shortly before the deadline of its task.",
        NO_ONE,
        "away",
    ),
    _habit("never-delivers", "A provider commits and delivers nothing.", f"{EITHER_PROVIDER}: no_answer", "hidden"),
    _habit("delivers-noise", "A provider commits and delivers noise.", f"{EITHER_PROVIDER}: no_answer", "noise"),
    _habit(
        "keeps-its-key",
        "A provider delivers, gets the receipt, and shows no key.",
        f"{EITHER_PROVIDER}: no_answer",
        "keyless",
    ),
    _habit(
        "never-opens",
        "A provider shows no state of the segments that are drawn. Its validator recomputes them from the delivery.",
        NO_ONE,
        "closed",
    ),
    _habit(
        "opens-junk",
        "A provider shows states that do not hash to its trace. Its validator recomputes them from the delivery.",
        NO_ONE,
        "junk",
    ),
    _provider("gone-before-training", "A provider leaves when it should train.", NO_ONE, lambda: Leaves(do.Train)),
    _provider("gone-before-committing", "A provider trains, and leaves.", NO_ONE, lambda: Leaves(do.Submit)),
    _provider(
        "gone-before-delivering",
        "A provider commits, and leaves.",
        f"{EITHER_PROVIDER}: no_answer",
        lambda: Leaves(do.Deliver),
    ),
    _provider(
        "gone-before-opening",
        "A provider delivers, and leaves when it should show states. Its validator recomputes them.",
        NO_ONE,
        lambda: Leaves(do.Open),
    ),
    _provider(
        "gone-when-audited",
        "A provider shows no state to auditors. Its validator recomputes what they need.",
        NO_ONE,
        lambda: Listed([], absent=True),
    ),
    # Wrong work of validators
    _winner(
        "wrong-aggregation",
        "A validator closes rounds on a wrong aggregate. A panel finds it, and all validators vote to slash it.",
        "validator: wrong_round",
        Forger,
        was_slashed,
    ),
    _winner(
        "noise-as-the-result",
        "A validator hands over noise, in a chunk that no panel draws. The consumer proves it.",
        "validator: wrong_handover",
        NoiseSeller,
        lambda _: True,
    ),
    _winner(
        "noise-in-a-drawn-chunk",
        "A validator hands over noise, in a chunk that a panel draws.",
        "validator: wrong_round",
        LocalNoiseSeller,
        happened(RoundVoid),
    ),
    _winner(
        "serves-no-one",
        "A validator shows its rounds to no seat.",
        "validator: wrong_round",
        Hider,
        happened(RoundVoid),
    ),
    _winner(
        "serves-all-but-one",
        "A validator shows its rounds to all seats but one. That one abstains, and costs no one anything.",
        NO_ONE,
        ServesAllButOne,
        said_unavailable,
        rounds=6,
    ),
    _winner(
        "rejects-right-shares",
        "A validator rejects right shares as mismatches. It pays each of them, and as much is burnt.",
        "validator: rejected_right_share",
        Rejecter,
        rounds=6,
    ),
    _winner(
        "censors-a-provider",
        "A validator puts no share of one provider on chain. The provider includes them itself, and loses no coin.",
        NO_ONE,
        partial(Censor, CHEAT),
        happened(ShareIncluded),
    ),
    _winner(
        "gives-one-issue-twice",
        "A validator keeps a provider off the chain, and a friend takes its issues. The provider loses no coin.",
        NO_ONE,
        partial(Censor, CHEAT, "v0p1"),
        held_a_share,
    ),
    _winner(
        "signs-no-receipt",
        "A validator takes no delivery of one provider. Witnesses have it, and the validator pays.",
        "validator: rejected_right_share",
        partial(TakesNothing, CHEAT),
        happened(DeliveryWitnessed),
    ),
    Scenario(
        name="lets-a-friend-cheat",
        shows="A validator accepts whatever its friend, a provider, invents.",
        fault="validator: wrong_round",
        market=Market(
            swaps={
                WINNER: lambda: Accomplice(frozenset({WINNER, CHEAT})),
                CHEAT: lambda: Cheat(CHEAT, ("first", "update"), 100),
            },
            rounds=4,
        ),
        tries=12,
        seed=2,
    ),
    _winner(
        "floods-blocks",
        "A validator fills every block with payments to itself. Gas becomes dear for it, and all duties arrive.",
        NO_ONE,
        HonestValidator,
        price_rose,
        begin=lambda world: Flooder(WINNER).begin(world),
    ),
    # Silence of validators
    _winner("never-accepts", "A validator wins orders and accepts none.", "validator: not_accepted", NeverAccepts),
    _winner("never-closes", "A validator closes no round.", "validator: no_progress", NeverCloses),
    _winner(
        "gives-up", "A validator gives its leg up in the second round.", "validator: stopped_by_validator", Stopper
    ),
    _winner(
        "takes-and-gives-up",
        "A validator gives its leg up when it has all shares of the second round. Their providers stand for them.",
        "validator: stopped_by_validator",
        Taker,
        open_shares_paid,
    ),
    _winner(
        "gone-after-accepting",
        "A validator accepts an order and is gone.",
        "validator: no_progress",
        lambda: GoneAfter(MsgAcceptOrder),
    ),
    _winner(
        "gone-after-commitments",
        "A validator puts commitments on chain and is gone.",
        "validator: no_progress",
        lambda: GoneAfter(MsgCommitTraces),
    ),
    _winner(
        "gone-after-closing",
        "A validator accepts shares, closes a round, and is gone before anyone could look at it.",
        "validator: wrong_round",
        lambda: GoneAfter(MsgCloseRound),
    ),
    _winner(
        "gone-after-a-round",
        "A validator is gone after a verified round. Another one continues from the consumer's copy.",
        "validator: wrong_round",
        Vanisher,
        continued,
        tries=12,
    ),
    _winner(
        "states-are-lost",
        "A validator is gone for good, and with it the states of its last round. The order goes back to a round that"
        " was handed over.",
        "validator: wrong_round",
        partial(Vanisher, 3),
        went_back,
        tries=12,
        seed=6,
        rounds=6,
        params={"handover_every": 2},
    ),
    _winner(
        "never-serves-the-consumer",
        "A validator serves its result to no one. A panel finds that it is unavailable, and the job bond pays.",
        "validator: wrong_handover",
        partial(NeverServes, seats=False),
        lambda _: True,
    ),
    _winner(
        "serves-the-result-to-seats-alone",
        "A validator serves its result only to the seats of a panel, which then serve it to the consumer.",
        NO_ONE,
        partial(NeverServes, seats=True),
        fetched_by_seats,
    ),
    Scenario(
        name="consumer-says-it-was-not-served",
        shows="A consumer says without truth that it was not served its result. It pays the seats, and gains nothing.",
        fault=NO_ONE,
        market=Market(habits=ConsumerHabits(lies=True), honest_consumer=False),
        shown=fetched_by_seats,
    ),
    # Declines of validators
    *map(
        _decliner,
        (
            LegEnd.DECLINED_BY_CHOICE,
            LegEnd.DECLINED_NO_CAPACITY,
            LegEnd.DECLINED_BAD_JOB,
            LegEnd.DECLINED_WORK_MISMATCH,
            LegEnd.DECLINED_TOO_SLOW,
            LegEnd.DECLINED_NOT_FINITE,
            LegEnd.PAYLOAD_NOT_DELIVERED,
        ),
    ),
    Scenario(
        name="declines-state-unavailable",
        shows="A validator that should continue an order says falsely that it lacks the states. Seats find them.",
        fault="validator: not_accepted",
        market=Market(swaps={WINNER: Vanisher, "v1": lambda: Decliner(LegEnd.STATE_UNAVAILABLE)}),
        shown=settled,
        tries=12,
        seed=7,
    ),
    # Seats
    _seats("seats-lie", "A third of the strangers answer what they did not find.", "auditor: refuted", Slanderer),
    _seats("seats-are-silent", "A third of the strangers answer nothing.", "auditor: silent", SilentAuditor),
    _seats("seats-reveal-nothing", "A third of the strangers hide what they found.", "auditor: silent", HidingAuditor),
    _seats(
        "seats-do-not-compute",
        "A third of the strangers repeat what the chain claims. They do not know the digest of the work.",
        "auditor: refuted",
        LazyAuditor,
        lambda _: True,
    ),
    _seats(
        "seats-copy",
        "A third of the strangers copy what another seat has shown.",
        "auditor: refuted",
        CopyingAuditor,
        lambda _: True,
    ),
    _seats(
        "seats-say-unavailable",
        "A third of the strangers say that nothing is served. It earns and costs nothing, and more seats decide.",
        NO_ONE,
        SaysUnserved,
        said_unavailable,
    ),
    _seats(
        "seat-gone-after-committing",
        "Seats are gone after they committed to an answer.",
        "auditor: silent",
        lambda: GoneAfter(MsgCommitAnswer),
    ),
    _seats(
        "seat-gone-after-revealing",
        "Seats are gone after they revealed what they found.",
        NO_ONE,
        lambda: GoneAfter(MsgRevealAnswer),
        rounds=1,
    ),
    _seats(
        "seats-hide-their-states",
        "A third of the strangers serve the end states that they computed to no one. Reviews find it.",
        "auditor: refuted",
        HidesOwnStates,
        lambda _: True,
        tier=TOLERANCE.name,
    ),
    _seats(
        "reviewers-accuse-everyone",
        "A third of the strangers say of each state that they review that it is outside the thresholds.",
        "auditor: refuted",
        AccusesAll,
        lambda _: True,
        orders=3,
        tier=TOLERANCE.name,
    ),
    *map(_bribed, (1, 2, 3)),
    _friends(
        2,
        "two-of-nine-collude",
        "A validator aggregates wrongly, another one vouches for it, and both hold back blocks.",
    ),
    _friends(
        3,
        "a-third-of-the-stake",
        "A third of the stake is in one hand: one validator aggregates wrongly, two vouch for it and hold back blocks.",
    ),
    Scenario(
        name="seats-ruin-a-provider",
        shows="All seats of two stages say that a provider's right share is wrong. It appeals, and all validators"
        " decide.",
        fault="auditor: refuted",
        market=Market(
            validators=14,
            segments=12,
            params={"duty_segments": 1},
            swaps={WINNER: NeverAppeals, **{f"v{number}": partial(Ruins, CHEAT) for number in range(1, 14)}},
        ),
        shown=provider_appealed,
        tries=6,
    ),
    # Proposers and blocks
    Scenario(
        name="proposers-withhold",
        shows="A third of the proposers make no block in half of their turns. Lots are late, and nothing else changes.",
        fault=NO_ONE,
        market=Market(validators=9, swaps=dict.fromkeys(("v2", "v4", "v6"), Withholder)),
        shown=settled,
    ),
    Scenario(
        name="filled-blocks",
        shows="An outsider fills every block from the first to the last. Duties have a lane, and all of them arrive.",
        fault=NO_ONE,
        market=Market(plan={"spam": 12}),
        shown=price_rose,
    ),
    *map(_outage, (1, 10, 100)),
    # Challenges
    _challenge(
        "true-challenge",
        "An operator finds an invented segment that no draw found, challenges it, and is rewarded.",
        "provider: wrong_share",
        happened(ChallengerRewarded),
    ),
    _challenge(
        "false-challenge",
        "An operator challenges a right place. Its bond pays the seats.",
        "challenger: refuted_challenge",
        settled,
        right=False,
    ),
    _challenge(
        "unopened-challenge",
        "An operator commits to a challenge, and never opens it.",
        "challenger: unopened_challenge",
        settled,
        right=False,
        opens=False,
    ),
    # Replicas
    _replicas(
        "replicas-find-a-departure",
        "A validator accepts what its friend, a provider, invents. The replicas differ, and a panel recomputes the"
        " first segment in which they depart from each other.",
        "provider: wrong_share",
        lambda: Accomplice(frozenset({WINNER, CHEAT})),
        compared(Comparison.DIFFERENT, other_is_settled),
        segments=12,
        params={"duty_segments": 1},
        swaps={CHEAT: lambda: Trains(as_job(ThirdSkipped))},
    ),
    _replicas(
        "replica-shows-no-trace",
        "A validator accepts what its friend invents, and shows no trace when the replicas differ.",
        "validator: wrong_round",
        lambda: ShowsNoTrace(frozenset({WINNER, CHEAT})),
        lambda world: happened(TraceMissing)(world) and one_goes_on(world),
        swaps={CHEAT: lambda: Cheat(CHEAT, ("first", "update"), 100)},
    ),
    _replicas(
        "replica-copies-roots",
        "Providers of a validator commit to shares that they never deliver. They commit again when the roots of the"
        " other replica are public, and copy these roots without the states. The late round confirms nothing.",
        "validator: wrong_round",
        Hider,
        copied_in_vain,
        swaps={f"{WINNER}p{rank}": Fumbles for rank in range(3)},
    ),
    _replicas(
        "replicas-collude",
        "The validators of all replicas close rounds on the same wrong aggregate, until a lot draws one of them.",
        "validator: wrong_round",
        lambda: Accomplice(frozenset({WINNER, "v1"}), forges=True, agrees=True),
        has_skipped(compared(Comparison.CONFIRMED, happened(RoundVoid))),
        rounds=8,
        swaps={"v1": lambda: Accomplice(frozenset({WINNER, "v1"}), forges=True, agrees=True)},
    ),
    # Consumers
    Scenario(
        name="consumer-never-delivers",
        shows="A consumer delivers its job to no one. Each validator that waits loses a fee, and the consumer as much.",
        fault=f"{EITHER_CONSUMER}: payload_not_delivered",
        market=Market(habits=ConsumerHabits(deliver=(False,)), honest_consumer=False),
    ),
    Scenario(
        name="consumer-delivers-late",
        shows="A consumer delivers its job only to the second validator.",
        fault=f"{EITHER_CONSUMER}: payload_not_delivered",
        market=Market(habits=ConsumerHabits(deliver=(False, True)), honest_consumer=False),
        shown=settled,
    ),
    Scenario(
        name="consumer-delivers-rubbish",
        shows="A consumer delivers a job that no one can read. Validators with enough stake blame it.",
        fault=f"{EITHER_CONSUMER}: declined_bad_job",
        market=Market(make_job=lambda terms: Job(terms, decline=LegEnd.DECLINED_BAD_JOB), honest_consumer=False),
    ),
    Scenario(
        name="consumer-vanishes",
        shows="A consumer delivers its job, and is gone. Everyone else is paid.",
        fault=NO_ONE,
        market=Market(habits=ConsumerHabits(fetches=False, keeps=False, acks=False), honest_consumer=False),
        shown=settled,
    ),
    Scenario(
        name="false-complaint",
        shows="A consumer complains about right chunks. The chain decrypts them, and refuses.",
        fault="consumer: refused_complaint",
        market=Market(habits=ConsumerHabits(slanders=True), honest_consumer=False),
        shown=settled,
        refusals=True,
    ),
    _stops("job-stops-in-a-step", "a step", 1),
    _stops("job-stops-in-an-update", "the updates", 3),
    _stops("job-stops-in-an-aggregation", "the aggregation", 4),
    Scenario(
        name="everyone-is-honest",
        shows="Everyone is honest: rounds are trained, recomputed, paid and handed over.",
        fault=NO_ONE,
        market=Market(orders=2),
        shown=lambda world: settled(world) and happened(PanelBegun)(world),
    ),
)
_BY_NAME = {scenario.name: scenario for scenario in _SCENARIOS}
SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    _BY_NAME | {scenario.name: scenario for scenario in play_in_tiers(_BY_NAME)}
)
"""All scenarios by name."""
