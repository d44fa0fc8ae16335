"""The refusal of a genesis; each component writes its own part of the first state."""

from domain.errors import BAD_FIELD, Refusal


def check_genesis(holds: bool, field: str, reason: str) -> None:
    """Refuse a genesis for which something does not hold."""
    if not holds:
        raise Refusal(BAD_FIELD, field, reason, "mend the genesis file")
