"""The connection to the validator: to where the chain says it is, asked again when that may have changed."""

from compute_provider.interfaces import ChainReader, ProviderError
from domain.registry.records import Validator
from link.client import ClusterClient, Connections
from wire.keys import Key


class Link:
    """Gives the client for one validator. Thread-safe."""

    def __init__(self, chain: ChainReader, operator: str, key: Key, chain_id: str) -> None:
        """Nothing is asked before the first :meth:`client`."""
        self._chain, self._operator, self._chain_id = chain, operator, chain_id
        self._connections = Connections(key)
        self._known: Validator | None = None

    def client(self) -> ClusterClient:
        """Return the client; ProviderError and ClusterError where there is no such validator, or no endpoint."""
        return self._connections.client(self._known or self.renew(), self._chain_id)

    def renew(self) -> Validator:
        """Ask the chain where the validator is now."""
        self._known = find_validator(self._chain, self._operator)
        return self._known

    def close(self) -> None:
        """Close the connection for good; calls under way end."""
        self._connections.close()


def find_validator(chain: ChainReader, operator: str) -> Validator:
    """Return a validator that is on the chain; ProviderError."""
    validator = chain.validator(operator)
    if validator is None:
        raise ProviderError(f"no validator {operator} on the chain", "see assay status")
    return validator
