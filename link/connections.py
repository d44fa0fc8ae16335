"""Connections to validators, to where the chain says they are now: made when needed, and kept."""

from threading import Lock

from domain.records import Validator
from link.client import ClusterClient
from link.envelope import Signer
from link.errors import ClusterError, ClusterErrorKind


def connect(validator: Validator, key: Signer, chain_id: str) -> ClusterClient:
    """Return a client that trusts exactly the certificate on chain; ClusterError where nothing is published there."""
    if not validator.endpoint or not validator.certificate:
        raise ClusterError(
            ClusterErrorKind.UNREACHABLE,
            f"validator {validator.moniker or validator.operator} has published no endpoint",
            "try again when its daemon runs",
        )
    return ClusterClient(validator.endpoint, validator.certificate, key, chain_id)


class Connections:
    """One connection to each validator; one that has moved gets a new one. Thread-safe."""

    def __init__(self, key: Signer) -> None:
        """Call others as ``key``."""
        self._key = key
        self._lock = Lock()
        self._clients: dict[str, tuple[str, bytes, ClusterClient]] = {}
        self._closed = False

    def client(self, validator: Validator, chain_id: str) -> ClusterClient:
        """Return the kept client, or a new one; ClusterError where no endpoint is published or all is closed."""
        where = (validator.endpoint, validator.certificate)
        with self._lock:
            if self._closed:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "the connections are closed")
            known = self._clients.get(validator.operator)
            if known is not None and known[:2] == where:
                return known[2]
            client = connect(validator, self._key, chain_id)
            if known is not None:
                known[2].close()
            self._clients[validator.operator] = (*where, client)
            return client

    def close(self) -> None:
        """Close all connections for good; calls under way end."""
        with self._lock:
            self._closed = True
            for _, _, client in self._clients.values():
                client.close()
            self._clients.clear()
