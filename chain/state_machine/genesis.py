"""Refusal of a genesis. The components themselves write their parts of the first state."""

from domain.errors import BAD_FIELD, Refusal


def check_genesis(holds: bool, field: str, reason: str) -> None:
    """Refuse the genesis because of ``field``, with ``reason`` as the text, unless ``holds`` is true."""
    if not holds:
        raise Refusal(BAD_FIELD, field, reason, "correct this field of the genesis file")
