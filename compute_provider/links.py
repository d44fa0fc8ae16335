"""The connection to the validator: made from what the chain says, renewed when that changes."""

from collections.abc import Callable
from threading import Lock

from compute_provider.config import ProviderError
from compute_provider.interfaces import Chain
from domain.records import Validator
from link.client import ClusterClient
from wire.keys import Key


class Link:
    """Gives a client for the endpoint and certificate that are on the chain now."""

    def __init__(self, chain: Chain, validator: str, key: Key, chain_id: str) -> None:
        """Nothing is asked before the first :meth:`client`."""
        self._chain = chain
        self._validator = validator
        self._key = key
        self._chain_id = chain_id
        self._lock = Lock()
        self._known: tuple[str, bytes] | None = None
        self._client: ClusterClient | None = None
        self._closed = False

    def client(self, renew: bool = False) -> ClusterClient:
        """Return the client; ``renew``: ask the chain whether the validator has moved."""
        with self._lock:
            if self._closed:
                raise ProviderError("the connection to the validator is closed", "")
            if self._client is not None and not renew:
                return self._client
            validator = find_validator(self._chain.validator, self._validator)
            known = (validator.endpoint, validator.certificate)
            if self._client is None or known != self._known:
                if self._client is not None:
                    self._client.close()
                self._client = ClusterClient(*known, self._key, self._chain_id)
                self._known = known
            return self._client

    def close(self) -> None:
        """Close the connection for good; calls under way end."""
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
                self._client = None


def find_validator(ask: Callable[[str], Validator | None], operator: str) -> Validator:
    """Return the validator, which must have said where it listens; ProviderError."""
    validator = ask(operator)
    if validator is None:
        raise ProviderError(f"no validator {operator} on the chain", "see assay status")
    if not validator.endpoint or not validator.certificate:
        raise ProviderError(
            f"validator {validator.moniker} has not said where it listens",
            "wait until its daemon runs, or choose another one",
        )
    return validator
