"""The question of a stranger to a cluster, which shows whether the cluster asks for a token."""

from collections.abc import Callable
from typing import Final

import grpc

SECONDS: Final = 5.0
OPEN: Final = "OK"
CLOSED: Final = "UNAUTHENTICATED"
_ASK: Final = "/ray.rpc.NodeInfoGcsService/GetClusterId"


def ask_as_stranger(address: str) -> str:
    """Ask the head of a cluster without a token; return the name of the answer's status.

    It is OPEN if the cluster lets everyone in, and CLOSED if it asks for a token. Other names mean that the head was
    not reached, or uses TLS.
    """
    with grpc.insecure_channel(address) as channel:
        ask: Callable[..., bytes] = channel.unary_unary(_ASK)
        try:
            ask(b"", timeout=SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)
    return OPEN
