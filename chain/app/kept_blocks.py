"""The blocks of a node without CometBFT: what the application itself keeps of them."""

from collections.abc import Sequence

from cosmpy.protos.tendermint.p2p.types_pb2 import DefaultNodeInfo
from cosmpy.protos.tendermint.types.block_pb2 import Block
from cosmpy.protos.tendermint.types.types_pb2 import BlockID, Data, Header
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.comet_version import VERSION as COMETBFT_VERSION
from chain.app.interfaces import NodeAbout, QueryPort, VotingValidator, WholeBlock
from chain.state_machine.queries import answer
from chain.state_machine.staking.tables import compute_power
from domain.errors import INVALID_REQUEST, UNSUPPORTED, Refusal
from domain.registry.queries import ValidatorsRequest


class KeptBlocks:
    """The ``BlockReader`` of a solo node. Its blocks have no votes, and no hashes of validator sets."""

    def __init__(self, app: QueryPort) -> None:
        """Read from ``app``."""
        self._app = app

    def block(self, height: int) -> WholeBlock | None:
        """Return a committed block, or None if the node does not have its transactions."""
        info, hashes = self._app.block(height), self._app.block_txs(height)
        if info is None or hashes is None:
            return None
        txs = [tx.raw for tx in map(self._app.tx_by_hash, hashes) if tx is not None]
        before = self._app.block(height - 1)
        seconds, nanos = divmod(info.time_ns, 10**9)
        header = Header(
            chain_id=self._app.chain_id,
            height=info.height,
            time=Timestamp(seconds=seconds, nanos=nanos),
            last_block_id=BlockID(hash=b"" if before is None else before.hash),
            app_hash=b"" if before is None else before.app_hash,
            proposer_address=info.proposer,
        )
        return WholeBlock(BlockID(hash=info.hash), Block(header=header, data=Data(txs=txs)))

    def validators(self, height: int) -> Sequence[VotingValidator]:
        """Return the validators of the newest state with the power of their stake; a Refusal for other heights."""
        state = self._app.view()
        if height not in (0, state.head.height):
            remedy = f"ask for the newest height, {state.head.height}"
            raise Refusal(INVALID_REQUEST, "height", "has no validator set on a solo node", remedy)
        listed = answer(state.reader, ValidatorsRequest(), self._app.rulebook).validators
        voting = [VotingValidator(each.cons_address, each.cons_key, compute_power(each.stake)) for each in listed]
        return [each for each in voting if each.power]

    def search_txs(self, query: str, page: int, limit: int, newest_first: bool) -> tuple[list[bytes], int]:
        """Raise a Refusal: this node has no index of transactions by event."""
        remedy = "ask with tx.height=7 or tx.hash='AB…', or use a node with CometBFT"
        raise Refusal(UNSUPPORTED, "query", "is not possible on a solo node", remedy)

    def about(self) -> NodeAbout:
        """Return the node's identity; it has no peers, so it has no address for them."""
        return NodeAbout(DefaultNodeInfo(network=self._app.chain_id, version=COMETBFT_VERSION), False)
