"""The page of credentials: policies about evidence, credentials of devices, bans, and what panels judge now."""

from typing import Any, Final

from console.index.reading import Readings
from domain.attest.records import AttestAnswer, AttestVerdict

VERDICTS_SHOWN: Final = 20


def show_credentials(index: Readings, clock: int, limit: int) -> dict[str, Any]:
    """Return the data of the page at ``clock`` (the chain's), with at most ``limit`` rows per table."""
    policies = index.policies()
    withdrawn = {policy.name for policy in policies if policy.withdrawn_at}
    return {
        "policies": [
            {
                "name": policy.name,
                "technology": policy.technology,
                "valid_for": policy.valid_for,
                "added_at": policy.added_at,
                "withdrawn_at": policy.withdrawn_at,
                "credentials": 0 if policy.withdrawn_at else index.count_credentials(policy.name, clock),
            }
            for policy in policies
        ],
        "credentials": [
            {
                "credential": row.credential,
                "owner": row.owner,
                "policy": row.policy,
                "since": row.since,
                "ends_at": row.ends_at,
                "in_force": row.ends_at > clock and row.policy not in withdrawn,
            }
            for row in index.credentials(limit)
        ],
        "bans": [
            {"credential": row.credential, "owner": row.owner, "policy": row.policy, "banned_at": row.banned_at}
            for row in index.credentials(limit, banned=True)
        ],
        "judgements": [
            {
                "owner": row.owner,
                "policy": row.policy,
                "credential": row.credential,
                "asked_at": row.asked_at,
                "seats": row.seats or row.wanted,
                "is_drawn": row.seats > 0,
                "committed": row.committed,
                "revealed": row.revealed,
                "until": row.until,
            }
            for row in index.judgements(limit, is_open=True)
        ],
        "verdicts": [
            {
                "owner": row.owner,
                "policy": row.policy,
                "credential": row.credential,
                "verdict": AttestVerdict(row.verdict).name.lower(),
                "reason": AttestAnswer(row.reason).name.lower() if row.reason else "",
                "answers": row.revealed,
                "seats": row.seats,
            }
            for row in index.judgements(VERDICTS_SHOWN, is_open=False)
        ],
    }
