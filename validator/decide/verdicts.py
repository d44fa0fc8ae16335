"""What became of the shares of an attempt, as rows for people."""

from domain.queries import OrderResponse
from validator.decide.records import LocalOrder, VerdictRow
from validator.decide.rounds import is_verified


def verdict_rows(local: LocalOrder, on_chain: OrderResponse) -> tuple[VerdictRow, ...]:
    """Return a row for each share that is judged."""
    rows: list[VerdictRow] = []
    for current in local.rounds:
        shares = on_chain.shares_of(local.attempt, current.round)
        for work in current.works:
            share = shares.get((work.slot, work.issue))
            accepted = current.next_global is not None and not work.verdict
            if not (work.verdict or accepted or is_verified(current, work, share)):
                continue
            failed = [d.segment for d in work.checked if d.reason and d.reason == work.verdict]
            rows.append(
                VerdictRow(
                    local.order_id,
                    local.attempt,
                    current.round,
                    work.slot,
                    work.issue,
                    work.provider,
                    work.packet.claim.segments if work.packet else 0,
                    len(work.checked),
                    int(work.verdict),
                    failed[0] if failed else -1,
                )
            )
    return tuple(rows)
