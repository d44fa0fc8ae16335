"""``python -m tests.support.noisy_validator ARGUMENTS``: ``assay ARGUMENTS`` with a validator that hands over noise."""

from dataclasses import replace
from hashlib import sha256
from unittest.mock import patch

from assay.cli.main import main
from link.handover import Sealed, seal_chunk
from pol.rules.handover import HandoverId

NOISY = 1
"""The number of the only chunk that is noise."""


def spoil(handover: HandoverId, index: int, chunk: bytes, order_key: bytes, secret: bytes) -> Sealed:
    """Return the encrypted chunk, or noise of the same length."""
    sealed = seal_chunk(handover, index, chunk, order_key, secret)
    size = len(sealed.ciphertext)
    noise = (sha256(secret).digest() * (size // 32 + 1))[:size]
    return replace(sealed, ciphertext=noise) if index == NOISY else sealed


if __name__ == "__main__":
    with patch("validator.work.sealing.seal_chunk", spoil):
        main()
