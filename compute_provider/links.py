"""The connection to the validator. The endpoint is read from the chain, and is read again if it may have changed."""

from compute_provider.interfaces import ChainReader, ProviderError
from domain.registry.records import Validator
from link.client import ClusterClient, Connections
from wire.keys import Key


class Link:
    """A connection to one validator. Thread-safe."""

    def __init__(self, chain: ChainReader, operator: str, key: Key, chain_id: str) -> None:
        """Set the connection up; the first :meth:`client` reads the endpoint from the chain."""
        self._chain = chain
        self._operator = operator
        self._chain_id = chain_id
        self._connections = Connections(key)
        self._known: Validator | None = None

    def client(self) -> ClusterClient:
        """Return a client of the validator.

        ProviderError if there is no such validator, ClusterError if it has no endpoint.
        """
        return self._connections.client(self._known or self.renew(), self._chain_id)

    def renew(self) -> Validator:
        """Read the validator's record, with its endpoint, from the chain again and return it."""
        self._known = find_validator(self._chain, self._operator)
        return self._known

    def close(self) -> None:
        """Close the connection for good, which ends the calls that are under way."""
        self._connections.close()


def find_validator(chain: ChainReader, operator: str) -> Validator:
    """Return the validator with this operator address; ProviderError if the chain has none."""
    validator = chain.validator(operator)
    if validator is None:
        raise ProviderError(f"no validator {operator} on the chain", "assay status lists all validators")
    return validator
