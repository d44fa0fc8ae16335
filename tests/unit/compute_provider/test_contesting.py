"""The provider recomputes what a panel found wrong, and appeals with a bond that it deposits, if the bond pays."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide.contests import compute_bond
from compute_provider.decide.records import Contest, Shares, ShareWork, Stage
from compute_provider.interfaces import Honest
from compute_provider.perform import Performer
from compute_provider.store import Store
from compute_provider.work import machines
from domain.disputes.messages import MsgAppeal
from domain.ledger.messages import MsgDepositBond
from domain.messages import Message
from domain.params import local_params
from pol.work.records import Boundary
from tests.unit.compute_provider import support as s
from tests.unit.compute_provider.contested import KEY, place, ruled

ORDER = ruled(place(2), dispute=1)
WORK = ShareWork(s.task(), Stage.DELIVERED, contest=Contest(1, (2,), is_checked=True, is_right=True))


def play(
    home: Path,
    action: do.Action,
    free: int = 0,
    balance: int = 0,
    validators: int = 4,
    *,
    work: ShareWork = WORK,
    has_credential: bool = False,
) -> tuple[Any, Shares]:
    """Carry out an action; return the messages that were sent, and the record after it."""
    sent: list[Message] = []
    chain: Any = SimpleNamespace(
        order=lambda order_id: ORDER,
        account=lambda address: SimpleNamespace(bond=SimpleNamespace(free=free), balance=balance),
        count_validators=lambda: validators,
        has_credential=lambda owner: has_credential,
        params=local_params,
        send=lambda *messages, in_lane=False: sent.extend(messages),
    )
    shares, store = Shares((work,)), Store(home)
    made = Performer(
        s.config(home), s.CHAIN, chain, chain, store=store, behaviour=Honest(), shares=lambda: shares, stop=Event()
    )
    result = made.perform(action)
    made.close()
    made.blobs.close()
    store.close()
    for change in result.changes:
        shares = change(shares)
    return sent, shares


def test_the_missing_bond_is_deposited_with_the_appeal(tmp_path: Path) -> None:
    bond = compute_bond(ORDER, ORDER.panels[0], 4, local_params())
    sent, shares = play(tmp_path, do.Appeal(KEY), free=bond - 5, balance=5)
    me = s.config(tmp_path).key.address
    assert sent == [
        MsgDepositBond(me, 5),
        MsgAppeal(appellant=me, order_id=KEY.order_id, leg=KEY.leg, round=KEY.round, dispute=1),
    ]
    assert shares.works == (WORK,)


def test_an_appeal_that_does_not_pay_is_given_up(tmp_path: Path) -> None:
    sent, shares = play(tmp_path, do.Appeal(KEY), free=10**18, validators=10**9)
    assert sent == []
    assert shares.works[0].contest == replace(WORK.contest, is_right=False)  # type: ignore[type-var]


@pytest.mark.parametrize(("validators", "is_liable"), [(10**9, True), (4, False)])
def test_a_credential_is_worth_an_appeal(tmp_path: Path, validators: int, is_liable: bool) -> None:
    """Also one whose bond is more than the share is worth, or for which the validator would pay."""
    contest = Contest(1, (2,), is_checked=True, is_right=True, is_liable=is_liable)
    work = replace(WORK, contest=contest)
    for number, (has_credential, free) in enumerate(((True, 10**18), (False, 10**18))):
        home = tmp_path / str(number)
        home.mkdir()
        sent, shares = play(home, do.Appeal(KEY), free, 0, validators, work=work, has_credential=has_credential)
        assert [type(message) for message in sent] == [MsgAppeal] * has_credential
        assert shares.works[0].contest == replace(contest, is_right=has_credential)


@pytest.mark.parametrize("again", [True, False])
def test_a_segment_is_right_if_it_has_its_result_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    known = Boundary(index=3, step=6, global_root=bytes(32), local_root=bytes(32), metrics=(), root=bytes(32))
    monkeypatch.setattr(Store, "boundaries", lambda self, key: (known,))
    found: Callable[..., Boundary | None] = lambda order, segment, home: known if again else None  # noqa: E731
    monkeypatch.setattr(machines, "recompute_segment", found)
    _, shares = play(tmp_path, do.Recheck(KEY))
    assert shares.works[0].contest == Contest(1, (2,), is_checked=True, is_right=again)
