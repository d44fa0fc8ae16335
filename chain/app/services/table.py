"""All services of a node as one table from gRPC path to method, and the calls of these methods.

gRPC and ABCI queries are generic over this table. To add a service, add a row to :data:`SERVICES`: its protobuf
descriptor, and a function for each method.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from chain.app.interfaces import UNREACHABLE, BlockReader, Broadcaster, QueryPort
from chain.app.kept_blocks import KeptBlocks
from chain.app.services import (
    assay,
    auth,
    authz,
    bank,
    blocks,
    chain,
    distribution,
    evidence,
    feegrant,
    gov,
    mint,
    slashing,
    staking,
    tx,
)
from chain.app.services.method import Answered, Call, Method
from domain.errors import INVALID_REQUEST, UNKNOWN_REQUEST, Refusal

SERVICES: tuple[tuple[Method, ...], ...] = (
    auth.METHODS,
    authz.METHODS,
    bank.METHODS,
    feegrant.METHODS,
    staking.METHODS,
    mint.METHODS,
    distribution.METHODS,
    slashing.METHODS,
    evidence.METHODS,
    gov.METHODS,
    gov.OLD_METHODS,
    tx.METHODS,
    blocks.METHODS,
    chain.METHODS,
    assay.METHODS,
)
"""The methods of all services."""

METHODS: Mapping[str, Method] = MappingProxyType({method.path: method for rows in SERVICES for method in rows})
"""All methods by gRPC path."""


class Services:
    """The services of one node. Any thread may call. Without a broadcaster, no method sends transactions."""

    def __init__(
        self, app: QueryPort, broadcaster: Broadcaster | None = None, blocks: BlockReader | None = None
    ) -> None:
        """Answer from ``app``; whole blocks come from ``blocks``, by default those that the application keeps."""
        self._app = app
        self._broadcaster = broadcaster
        self._blocks = blocks or KeptBlocks(app)
        self.methods: Mapping[str, Method] = MappingProxyType(
            {path: method for path, method in METHODS.items() if broadcaster is not None or not method.sends}
        )

    def call(self, path: str, data: bytes, height: int = 0) -> Answered:
        """Return the response of the method ``path`` to the request bytes, from the state at ``height`` (0: newest).

        Raise a Refusal for an unknown path, unreadable bytes, or a height whose state the node no longer has.
        """
        method = self.find(path)
        if method.is_stream:
            raise Refusal(INVALID_REQUEST, "path", f"{path} is a stream", "call it over gRPC")
        call = self._open(height)
        response = method.answer(method.read(data), call)
        return Answered(response.SerializeToString(), call.state.head.height)

    def follow(self, path: str, data: bytes) -> Iterator[bytes | None]:
        """Yield the responses of a stream, as bytes; None while there is no response."""
        method = self.find(path)
        for response in method.answer(method.read(data), self._open(0)):
            yield response and response.SerializeToString()

    def find(self, path: str) -> Method:
        """Return the method with this gRPC path; raise a Refusal if there is none."""
        method = self.methods.get(path)
        if method is None:
            raise Refusal(UNKNOWN_REQUEST, "path", f"{path[:128]} is unknown", "use the path of a gRPC method")
        return method

    def _open(self, height: int) -> Call:
        if not self._app.chain_id:
            reason, remedy = "is not there yet: the node waits for CometBFT", "try again in a few seconds"
            raise Refusal(UNREACHABLE, "state", reason, remedy)
        return Call(
            app=self._app,
            state=self._app.view(height),
            blocks=self._blocks,
            broadcaster=self._broadcaster,
        )
