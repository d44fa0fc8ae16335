import pytest

from domain.amount import MONEY_MAX
from domain.errors import INSUFFICIENT_FUNDS, INVALID_ADDRESS, INVALID_COINS, UNAUTHORIZED
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.moves import ACCOUNTS_POT
from domain.ledger.records import Coin
from domain.vocabulary import POTS
from tests.support.chain_harness import COINS, Chain, make_genesis


@pytest.fixture
def chain() -> Chain:
    return Chain(make_genesis(("alice", "bob"), ("v0",)))


def send(amount: int, to: str = "bob", denom: str = DENOM) -> MsgSend:
    return MsgSend("alice", to, (Coin(denom, amount),))


def test_coins_arrive_and_cosmos_events_say_so(chain: Chain) -> None:
    (result,) = chain.ok(send(7)).tx_results
    assert chain.worth("alice") == COINS - 7
    assert chain.balance("bob") == COINS + 7
    (event,) = [e for e in result.events if e.type == "transfer" and e.get("msg_index") == "0"]
    assert (event.get("sender"), event.get("recipient"), event.get("amount")) == (
        "alice",
        "bob",
        "7uassay",
    )
    kinds = [event.type for event in result.events]
    for kind in ("tx", "message", "coin_spent", "coin_received"):
        assert kind in kinds
    assert all(event.number == 0 for event in result.events)


def test_a_new_address_gets_an_account_with_the_next_number(chain: Chain) -> None:
    chain.ok(send(7, to="dora"))
    account = chain.account("dora")
    assert account is not None
    assert (account.number, account.sequence, account.pub_key) == (3, 0, b"")


def test_all_but_the_fee_can_be_sent(chain: Chain) -> None:
    tx = chain.tx(send(1))
    chain.ok(send(chain.balance("alice") - tx.fee[0].amount))
    assert chain.balance("alice") == 0


def test_sending_to_oneself_changes_nothing(chain: Chain) -> None:
    chain.ok(send(5, to="alice"))
    assert chain.worth("alice") == COINS


@pytest.mark.parametrize("amount", [0, -1])
def test_an_amount_must_be_positive(chain: Chain, amount: int) -> None:
    chain.refused(INVALID_COINS, send(amount))


def test_no_account_has_more_than_can_exist(chain: Chain) -> None:
    assert "insufficient funds" in chain.refused(INSUFFICIENT_FUNDS, send(MONEY_MAX + 1)).log


def test_exactly_one_known_coin(chain: Chain) -> None:
    chain.refused(INVALID_COINS, MsgSend("alice", "bob", ()))
    chain.refused(INVALID_COINS, MsgSend("alice", "bob", (Coin(DENOM, 1), Coin(DENOM, 2))))
    chain.refused(INVALID_COINS, send(1, denom="ufoo"), field="amount.denom")


def test_too_much_is_refused_and_the_fee_stays_paid(chain: Chain) -> None:
    chain.refused(INSUFFICIENT_FUNDS, send(COINS))
    assert chain.worth("alice") == COINS
    assert chain.balance("alice") < COINS
    account = chain.account("alice")
    assert account is not None
    assert account.sequence == 1


def test_modules_take_no_plain_transfers(chain: Chain) -> None:
    for pot in POTS.values():
        if pot is not ACCOUNTS_POT:
            chain.refused(UNAUTHORIZED, send(1, to=pot.address), field="to_address")


def test_a_recipient_is_named(chain: Chain) -> None:
    chain.refused(INVALID_ADDRESS, send(1, to=""))
