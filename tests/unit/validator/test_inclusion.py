"""Decisions about shares that their providers put on chain themselves."""

from dataclasses import replace
from functools import partial

import pytest

from domain.proof.events import ShareSkipped
from domain.proof.messages import MsgCommitTraces, SignedShare
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareState
from link.types import ShareSubmission
from pol.rules.inclusion import HELD_ISSUES_FROM, task_sign_bytes
from tests.unit.validator.support import CHAIN_ID, chain, loaded, share_key, share_of, signed_of, view, works
from validator.decide.actions import Action, SendTx
from validator.decide.orders import decide_order
from validator.decide.receive import share_skipped
from validator.decide.records import LocalOrder, SlotWork
from validator.decide.taking import next_issue
from validator.decide.tasks import sign_task, train_tasks
from wire.keys import Key, verify


def planned() -> LocalOrder:
    """Return the record of a leg whose first round is given out."""
    return decide_order(loaded(), view(chain()))[0]


def included(submission: ShareSubmission) -> Share:
    reason = int(ShareReason.INCLUDED)
    return share_of(submission, state=ShareState.REJECTED, reason=reason, drawn=(), is_drawn=False)


def commits(actions: tuple[Action, ...]) -> list[SignedShare]:
    messages = [message for action in actions if isinstance(action, SendTx) for message in action.messages]
    return [share for message in messages if isinstance(message, MsgCommitTraces) for share in message.shares]


def put(local: LocalOrder, work: SlotWork) -> LocalOrder:
    current = local.rounds[0]
    others = (work if (each.slot, each.issue) == (work.slot, work.issue) else each for each in current.works)
    return local.put(replace(current, works=tuple(others)))


def test_an_included_share_is_committed_as_if_it_had_been_handed_in() -> None:
    local = planned()
    work = next(works(local))
    submission = signed_of(local, work)
    for known in (local, put(local, replace(work, signed=submission))):
        after, actions = decide_order(known, view(chain(shares=(included(submission),))))
        assert commits(actions) == [SignedShare(submission.claim, submission.signature)]
        assert next(works(after)).signed == submission
        assert not next(works(after)).verdict


def test_an_included_commitment_replaces_the_one_that_was_handed_in() -> None:
    """The chain would skip that one, for a fee, as often as it is sent; the included one can be paid all the same."""
    local = planned()
    work = next(works(local))
    submission = signed_of(local, work)
    other = replace(submission, claim=replace(submission.claim, commitment=bytes(32)))
    known = put(local, replace(work, signed=submission, skipped=ShareReason.OTHER_COMMITMENT, offer_holds=True))
    after, actions = decide_order(known, view(chain(shares=(included(other),))))
    taken = next(works(after))
    assert (taken.signed, taken.verdict, taken.skipped) == (other, ShareReason.NONE, 0)
    assert (taken.offer, taken.offer_holds) == (None, False)
    assert commits(actions) == [SignedShare(other.claim, other.signature)]


@pytest.mark.parametrize("reason", [ShareReason.NO_BOND, ShareReason.NOT_IN_CLUSTER, ShareReason.OTHER_COMMITMENT])
def test_a_skipped_share_keeps_its_slot_until_the_deadline_of_its_task(reason: ShareReason) -> None:
    """Until then its provider can put it on chain itself."""
    local = planned()
    work = next(works(local))
    known = put(local, replace(work, signed=signed_of(local, work)))
    skipped = share_skipped(known, chain(), ShareSkipped(share_key(), work.provider, reason, 1))
    waiting, actions = decide_order(skipped, view(chain(), work.answer_by - 1))
    assert not next(works(waiting)).verdict
    assert not commits(actions)
    ended = next(w for w in works(decide_order(skipped, view(chain(), work.answer_by))[0]) if w.slot == work.slot)
    assert (ended.verdict, ended.settled) == (reason, True)
    taken, actions = decide_order(skipped, view(chain(shares=(included(signed_of(local, work)),))))
    assert next(works(taken)).skipped == 0
    assert commits(actions)


def test_an_included_share_of_another_provider_is_not_taken() -> None:
    local = planned()
    work = next(works(local))
    submission = signed_of(local, work)
    other = replace(submission, claim=replace(submission.claim, provider="p9"))
    after, actions = decide_order(local, view(chain(shares=(included(other),))))
    assert next(works(after)).verdict == ShareReason.OTHER_COMMITMENT
    assert not commits(actions)


def test_a_share_that_was_given_up_is_not_taken_back_because_it_is_included() -> None:
    local = planned()
    work = next(works(local))
    known = put(local, replace(work, verdict=ShareReason.NO_ANSWER, settled=True))
    _, actions = decide_order(known, view(chain(shares=(included(signed_of(local, work)),))))
    assert not commits(actions)


def test_a_task_is_signed_with_its_deadline() -> None:
    local, key = planned(), Key(b"\x09" * 32)
    work = next(works(local))
    (task, *_) = train_tasks(local, chain(), work.provider, 10)
    assert (task.deadline, task.seconds_left) == (work.answer_by, work.answer_by - 10)
    signed = sign_task(task, work.provider, CHAIN_ID, key.sign)
    holds = partial(
        verify,
        key.pub_key,
        task_sign_bytes(CHAIN_ID, task.key, work.provider, task.every, task.deadline, task.multiple, task.cover),
    )
    assert holds(signed.signature)
    assert not holds(sign_task(task, "p9", CHAIN_ID, key.sign).signature)


def test_the_issues_of_a_slot_go_on_from_those_of_its_tasks() -> None:
    """The chain would skip a task with an issue like that of a held share."""
    submission = signed_of(planned(), next(works(planned())))
    held = replace(included(submission), held_as=HELD_ISSUES_FROM)
    on_chain = chain(shares=(share_of(submission), held))
    (leg,) = on_chain.legs
    later = replace(leg, number=2, first_round=0, round=0)
    assert next_issue(on_chain, later, submission.claim.slot) == submission.claim.issue + 1
