"""When a provider shows the key of a delivery to the chain, and in which order it delivers."""

from dataclasses import replace

from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.claims import must_show
from compute_provider.decide.duties import decide
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, Share, ShareClaim, ShareState, ShownDelivery
from link.types import DeliveryReceipt
from tests.unit.compute_provider import support as s

KEY = s.task().key
CLAIM = ShareClaim(
    order_id=KEY.order_id,
    leg=KEY.leg,
    round=KEY.round,
    slot=KEY.slot,
    issue=KEY.issue,
    provider=s.PROVIDER.address,
    commitment=bytes(32),
)
MANIFEST = DeliveryManifest(bytes(32), bytes(32), 5, 3, 0)
RECEIPT = DeliveryReceipt(100, False, bytes(64))
SHOWN = replace(RECEIPT, was_shown=True)
WAIT = s.order().order.params.show_wait


def on_chain(
    state: ShareState = ShareState.COMMITTED,
    reason: ShareReason = ShareReason.NONE,
    delivery: ShownDelivery | None = None,
    *,
    is_received: bool = False,
) -> OrderResponse:
    share = Share(CLAIM, bytes(64), bytes(32), 1, 1, state, int(reason), 0, 0, (), None, is_received=is_received)
    return replace(s.order(), shares=(share,), deliveries=(delivery,) if delivery else ())


def posted(show_by: int, *, is_wrong: bool = False) -> ShownDelivery:
    return ShownDelivery(
        order_id=KEY.order_id,
        leg=KEY.leg,
        round=KEY.round,
        slot=KEY.slot,
        issue=KEY.issue,
        manifest=MANIFEST,
        show_by=show_by,
        is_wrong=is_wrong,
    )


def test_a_key_is_shown_to_the_chain_only_where_the_validator_does_not_take_it() -> None:
    silent = on_chain(ShareState.REJECTED, ShareReason.NO_ANSWER)
    late = on_chain(ShareState.REJECTED, ShareReason.LATE)
    for order, receipt, clock, wanted in (
        (on_chain(), None, 100, False),
        (on_chain(), RECEIPT, 100, False),  # the link has some time
        (on_chain(), RECEIPT, 100 + WAIT // 2, True),
        (on_chain(), RECEIPT, 100 + WAIT, False),  # too late
        (on_chain(), SHOWN, 100 + WAIT // 2, False),
        (on_chain(delivery=posted(120)), None, 119, True),
        (on_chain(delivery=posted(120)), None, 120, False),
        (on_chain(delivery=posted(120, is_wrong=True)), RECEIPT, 110, False),
        (on_chain(is_received=True, delivery=posted(120)), RECEIPT, 110, False),
        (silent, None, 100, False),
        (silent, RECEIPT, 100, True),
        (silent, RECEIPT, 100 + WAIT, False),
        (silent, SHOWN, 100 + 9 * WAIT, True),
        (late, SHOWN, 100, True),
        (on_chain(ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH), SHOWN, 100, False),
        (on_chain(ShareState.ACCEPTED), SHOWN, 100, False),
    ):
        assert must_show(order, CLAIM, receipt, clock) is wanted, (receipt, clock)


def test_a_key_is_shown_when_the_leg_left_the_share_open() -> None:
    """The validator's signature is all that shows what it got."""
    window = 30
    dropped = on_chain(ShareState.REJECTED, ShareReason.LEG_ENDED)
    for order, reason, receipt, clock, wanted in (
        (dropped, LegEnd.STOPPED_BY_VALIDATOR, None, 100, False),
        (dropped, LegEnd.STOPPED_BY_VALIDATOR, RECEIPT, 101, True),
        (dropped, LegEnd.STOPPED_BY_VALIDATOR, RECEIPT, 100 + WAIT, False),
        (dropped, LegEnd.NO_PROGRESS, SHOWN, 100 + window - 1, True),
        (dropped, LegEnd.NO_PROGRESS, SHOWN, 100 + window, False),
        (on_chain(), LegEnd.NO_PROGRESS, RECEIPT, 101, True),
        (on_chain(ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH), LegEnd.NO_PROGRESS, SHOWN, 101, False),
        (dropped, LegEnd.WRONG_SHARE, SHOWN, 101, False),
        (dropped, LegEnd.UNDECIDED, SHOWN, 101, False),
    ):
        leg = replace(order.legs[0], state=LegState.FAILED, end_reason=int(reason), left_at=100)
        known = replace(order, order=replace(order.order, window=window), legs=(leg,))
        assert must_show(known, CLAIM, receipt, clock) is wanted, (reason, receipt, clock)


def actions_of(work: ShareWork, *, listed: bool = True) -> set[type]:
    picture = ValidatorView((s.task(),) if listed else (), ())
    _, actions = decide(Shares((work,)), Look(joined=True, picture=picture))
    return {type(action) for action in actions}


def test_the_ciphertext_goes_first_then_the_receipt_comes_and_then_the_key_goes() -> None:
    work = ShareWork(s.task(), Stage.SUBMITTED)
    assert do.Upload in actions_of(work)
    assert do.Upload not in actions_of(replace(work, uploaded=True))
    work = replace(work, stage=Stage.COMMITTED, uploaded=True)
    assert do.Deliver in actions_of(work)
    assert do.ShowKey not in actions_of(work)
    work = replace(work, receipt=RECEIPT)
    assert do.ShowKey in actions_of(work)
    assert do.Deliver not in actions_of(work)
    assert do.ShowOnChain in actions_of(replace(work, to_show=True))


def test_a_receipt_for_the_key_is_never_replaced_by_one_for_the_ciphertext() -> None:
    shares = Shares((ShareWork(s.task(), Stage.COMMITTED),))
    for receipt, kept in ((RECEIPT, RECEIPT), (SHOWN, SHOWN), (replace(RECEIPT, at=300), SHOWN)):
        shares = receive.receipted(shares, KEY, receipt)
        assert shares.works[0].receipt == kept
