import pytest

from domain.amount import PFLOP
from domain.ledger.moves import DEPOSIT, REFUND
from domain.ledger.records import Depositor, Escrow
from domain.moves import Transfer
from escrow.deposits import affordable_price, locked, open_escrow, refund, use

ORDER = b"\x01" * 32
TWO = Escrow(ORDER, (Depositor("a", 10, 0, 0), Depositor("b", 5, 0, 0)), ())


def test_an_escrow_opens_with_one_row_and_the_move_of_its_deposit() -> None:
    escrow, move = open_escrow(ORDER, "a", 10)
    assert escrow == Escrow(ORDER, (Depositor("a", 10, 0, 0),), ())
    assert move == Transfer(DEPOSIT, "a", ORDER.hex(), 10)
    assert locked(escrow) == 10


@pytest.mark.parametrize("amount", [-1, 2**63])
def test_a_deposit_is_an_amount_of_money(amount: int) -> None:
    with pytest.raises(OverflowError):
        open_escrow(ORDER, "a", amount)


@pytest.mark.parametrize(
    ("amount", "rows"),
    [
        (0, ((10, 0), (5, 0))),
        (4, ((6, 4), (5, 0))),
        (12, ((0, 10), (3, 2))),
        (15, ((0, 10), (0, 5))),
    ],
)
def test_deposits_are_used_first_in_first_out(amount: int, rows: tuple[tuple[int, int], ...]) -> None:
    used = use(TWO, amount)
    assert tuple((row.locked, row.paid) for row in used.depositors) == rows


def test_more_than_is_locked_is_never_used() -> None:
    with pytest.raises(ValueError, match="cannot pay 16 uassay: 1 uassay are missing"):
        use(TWO, 16)


def test_a_refund_returns_what_each_has_locked() -> None:
    escrow, moves = refund(use(TWO, 12))
    assert [(row.locked, row.paid, row.refunded) for row in escrow.depositors] == [
        (0, 10, 0),
        (0, 2, 3),
    ]
    assert moves == (Transfer(REFUND, ORDER.hex(), "b", 3),)
    assert refund(escrow)[1] == ()


@pytest.mark.parametrize(
    ("work", "limit", "price"),
    [(PFLOP, 100, 15), (PFLOP, 3, 3), (PFLOP * 16, 100, 0), (PFLOP // 2, 100, 30)],
)
def test_the_rest_bounds_the_price(work: int, limit: int, price: int) -> None:
    assert affordable_price(TWO, work, limit) == price
