"""The chains whose blocks are measured: their rounds close, and their panels wait for seats."""

from benchmarks import blocks


def test_the_seats_of_all_panels_have_to_commit() -> None:
    net, orders = blocks._panels()
    assert len(orders) == 20
    assert all(net.order(order_id).panels[0].is_open for order_id in orders)
    commits, reveals = blocks._seat_duties(net, orders)
    assert len(commits) == len(reveals) > 20


def test_a_panel_voids_the_rounds_behind_it() -> None:
    before, after = (row for row in blocks.cascade() if row.unit == "s" and "gas" not in row.case)
    assert before.case.startswith("a round voided with 99 behind it")
    assert after.case.startswith("rounds that become void")
