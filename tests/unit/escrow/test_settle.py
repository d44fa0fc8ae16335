from hypothesis import given
from hypothesis import strategies as st

from domain.amount import BPS, bps_floor, price_ceil, price_floor
from escrow.settle import (
    audit_fee,
    compute_redress,
    cover_part,
    decline_fee,
    fund_part,
    job_bond_cut,
    settle_round,
    share_bond,
    split_share_bond,
    take_from,
    unpaid_part,
)

WORK = st.integers(1, 2**60)
PRICE = st.integers(1, 2**50)
RATE = st.integers(0, BPS)


def test_bonds_round_up_and_fees_round_down() -> None:
    assert share_bond(1, 1) == 1
    assert decline_fee(16_009, 1_000) == 1_600


def test_a_failed_leg_pays_for_what_was_not_done() -> None:
    assert [job_bond_cut(100, 3, closed) for closed in range(3)] == [100, 67, 34]


def test_a_right_share_that_was_rejected_is_owed_its_value() -> None:
    assert compute_redress(40_999_999, 10**9) == (40, 40)


def test_the_provider_is_paid_before_anything_is_burnt() -> None:
    assert take_from(100, (40, 40)) == ((40, 40), (0, 0))
    assert take_from(50, (40, 40)) == ((40, 10), (0, 30))
    assert take_from(10, (40, 40)) == ((10, 0), (30, 40))


@given(
    claims=st.lists(st.tuples(st.integers(0, 10**9), RATE), min_size=1, max_size=9),
    fund=st.integers(0, 10**10),
    job_bond=st.integers(0, 10**10),
    left=st.integers(0, 10**10),
)
def test_void_shares_never_get_more_than_their_value_or_than_there_is(
    claims: list[tuple[int, int]], fund: int, job_bond: int, left: int
) -> None:
    right, covered = sum(value for value, _ in claims), sum(value for value, cover in claims if cover)
    top = bps_floor(job_bond, max(cover for _, cover in claims))
    of_all = unpaid_part(covered, right, fund) + 1
    from_fund = [fund_part(value, right, fund) for value, _ in claims]
    limits = [bps_floor(job_bond, cover) for _, cover in claims]
    unpaid = [unpaid_part(value, right, fund) for value, _ in claims]
    from_job = [cover_part(rest, of_all, limit, top, left) for rest, limit in zip(unpaid, limits, strict=True)]
    assert sum(from_fund) <= min(fund, right)
    assert sum(from_job) <= min(left, top)
    for (value, cover), first, second, limit in zip(claims, from_fund, from_job, limits, strict=True):
        assert first + second <= value
        assert second <= limit
        assert second == 0 or cover


def test_a_task_with_half_the_cover_gets_half_where_the_job_bond_is_short() -> None:
    assert [cover_part(100, 400, limit, 200, 200) for limit in (200, 100)] == [50, 25]
    # If the bond has less than the highest cover, all lose in proportion.
    assert [cover_part(100, 400, limit, 200, 100) for limit in (200, 100)] == [25, 12]
    assert [fund_part(100, 400, 100), unpaid_part(100, 400, 100)] == [25, 75]


def test_half_of_a_bond_is_burnt_and_the_odd_coin_too() -> None:
    assert split_share_bond(share_bond(10**15, 7, 3)) == (11, 10)


def test_a_rounds_earnings_with_every_remainder() -> None:
    # P = 1,003; protocol 10; the panel's 30; rest 963; providers 70 % = 674 as 449 + 224; validator 290.
    earned = settle_round(
        1_003_999,
        10**12,
        protocol_bps=100,
        audit_bps=300,
        providers_bps=7_000,
        shares=(("a", 669_333), ("b", 334_666)),
    )
    assert earned.total == 1_003 - 30
    assert earned.protocol == 10
    assert earned.providers == (("a", 449), ("b", 224))
    assert earned.validator == 290


def test_the_providers_part_of_the_aggregation_is_the_validators() -> None:
    """Two shares of 400 and an aggregation of 200 FLOPs: 70 % of four fifths, and of the last fifth nothing."""
    earned = settle_round(
        1_000,
        10**15,
        protocol_bps=0,
        audit_bps=0,
        providers_bps=7_000,
        shares=(("a", 400), ("b", 400)),
    )
    assert earned.providers == (("a", 280), ("b", 280))
    assert earned.validator == 300 + 140


@given(
    st.lists(WORK, min_size=1, max_size=6),
    PRICE,
    st.integers(0, BPS // 2),
    st.integers(0, BPS // 2),
    RATE,
)
def test_earnings_add_up_to_the_price_of_the_work(
    parts: list[int], price: int, protocol: int, audit: int, providers: int
) -> None:
    earned = settle_round(
        sum(parts),
        price,
        protocol_bps=protocol,
        audit_bps=audit,
        providers_bps=providers,
        shares=[("p", part) for part in parts],
    )
    amounts = [earned.protocol, earned.validator]
    amounts += [amount for _, amount in earned.providers]
    assert min(amounts) >= 0
    assert sum(amounts) == earned.total
    whole = earned.total + audit_fee(sum(parts), price, audit)
    assert whole == price_floor(sum(parts), price) <= price_ceil(sum(parts), price)


@given(st.integers(0, 10**12), st.integers(1, 50), st.data())
def test_a_job_bond_is_never_cut_by_more_than_it_has(bond: int, rounds: int, data: st.DataObject) -> None:
    closed = data.draw(st.integers(0, rounds))
    assert 0 <= job_bond_cut(bond, rounds, closed) <= bond
