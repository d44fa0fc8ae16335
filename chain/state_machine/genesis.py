"""The refusal of a genesis; the components write their own parts of the first state."""

from domain.errors import BAD_FIELD, Refusal


def check_genesis(holds: bool, field: str, reason: str) -> None:
    """Refuse a genesis with ``reason`` unless ``holds``."""
    if not holds:
        raise Refusal(BAD_FIELD, field, reason, "correct this field of the genesis file")
