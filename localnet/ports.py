"""A free block of ports on 127.0.0.1, chosen when a network is made and written down with it."""

import random
import socket

FIRST, LAST = 20_000, 32_000  # below the range that systems take for outgoing connections


def free_block(count: int) -> int:
    """Return the first of ``count`` neighbouring ports that nobody listens on; OSError if there are none."""
    starts = list(range(FIRST, LAST - count, count))
    random.shuffle(starts)  # two networks that are made at once do not choose the same block
    for start in starts:
        if all(_is_free(port) for port in range(start, start + count)):
            return start
    raise OSError(f"no {count} free ports between {FIRST} and {LAST}; stop another network")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
