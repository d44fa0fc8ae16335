"""Clients of other validators' cluster services, one for each operator."""

from threading import Lock

from domain.records import Validator
from link.client import ClusterClient
from link.errors import ClusterError, Kind
from wire.keys import Key


class Links:
    """Opens connections when they are first needed; a validator that moved gets a new one. Thread-safe."""

    def __init__(self, key: Key) -> None:
        """Call others as ``key``."""
        self._key = key
        self._lock = Lock()
        self._clients: dict[str, tuple[str, bytes, ClusterClient]] = {}

    def client(self, validator: Validator, chain_id: str) -> ClusterClient:
        """Return a client that trusts exactly the certificate on chain; ClusterError where there is no endpoint."""
        operator, where = validator.operator, (validator.endpoint, validator.certificate)
        if not validator.endpoint or not validator.certificate:
            raise ClusterError(Kind.UNREACHABLE, f"{operator} has published no endpoint")
        with self._lock:
            known = self._clients.get(operator)
            if known is not None and known[:2] == where:
                return known[2]
            if known is not None:
                known[2].close()
            client = ClusterClient(*where, self._key, chain_id)
            self._clients[operator] = (*where, client)
            return client

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for _, _, client in self._clients.values():
                client.close()
            self._clients.clear()
