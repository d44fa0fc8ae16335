"""ABCI requests and responses (``tendermint.abci`` of CometBFT v0.38), mapped to the :class:`Application`."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, Protocol

from cosmpy.protos.tendermint.abci import types_pb2 as abci
from cosmpy.protos.tendermint.crypto.keys_pb2 import PublicKey
from cosmpy.protos.tendermint.types.params_pb2 import ConsensusParams

from chain.app.abci_server import Method
from chain.app.application import Application
from chain.app.evidence_rules import EvidenceRules
from chain.app.interfaces import APP_VERSION, SOFTWARE, SOFTWARE_VERSION
from domain import codec
from domain.beacon import Reveal
from domain.block import Misbehaviour, MisbehaviourKind, TxResult, ValidatorUpdate, Vote
from domain.errors import Refusal
from domain.genesis import GENESIS
from domain.tx import Tx
from wire.results import events_proto, tx_data

ABCI_VERSION = "2.0."
_ACCEPT, _REJECT = 1, 2
_KINDS = frozenset(MisbehaviourKind)
_SIGNED = (2, 3)  # flags of votes for the block, and for no block
_RECHECK = 1


class AnswerQuery(Protocol):
    """The function that answers an ABCI query (path, data, height, prove) with a ``ResponseQuery``."""

    def __call__(self, path: str, data: bytes, height: int, prove: bool) -> Any:
        """Return the answer to a query as a ``ResponseQuery``."""


class Methods:
    """One function per ABCI method, from the request's message to a whole ``Response``."""

    def __init__(
        self,
        app: Application,
        answer_query: AnswerQuery,
        check_block: Callable[[Any], None] = lambda request: None,
    ) -> None:
        """Build the table of methods.

        ``check_block`` is called with each FinalizeBlock request before the application gets it. It may raise an
        error to end the node.
        """
        self._app = app
        self._check_block = check_block
        self._answer_query = answer_query
        table: dict[str, Callable[[Any], Any]] = {
            "echo": lambda request: abci.Response(echo=abci.ResponseEcho(message=request.message)),
            "flush": lambda request: abci.Response(flush=abci.ResponseFlush()),
            "info": self._info,
            "query": self._query,
            "init_chain": self._init_chain,
            "prepare_proposal": self._prepare_proposal,
            "process_proposal": self._process_proposal,
            "extend_vote": lambda request: abci.Response(extend_vote=abci.ResponseExtendVote()),
            "verify_vote_extension": self._verify_vote_extension,
            "finalize_block": self._finalize_block,
            "commit": self._commit,
            # There is no state sync yet: the node offers no snapshots and accepts none.
            "list_snapshots": lambda request: abci.Response(list_snapshots=abci.ResponseListSnapshots()),
            "offer_snapshot": lambda request: abci.Response(
                offer_snapshot=abci.ResponseOfferSnapshot(result=abci.ResponseOfferSnapshot.Result.ABORT)
            ),
            "load_snapshot_chunk": lambda request: abci.Response(load_snapshot_chunk=abci.ResponseLoadSnapshotChunk()),
            "apply_snapshot_chunk": lambda request: abci.Response(
                apply_snapshot_chunk=abci.ResponseApplySnapshotChunk(
                    result=abci.ResponseApplySnapshotChunk.Result.ABORT
                )
            ),
        }
        self.table: dict[str, Method] = {
            **{name: partial(_serialized, method) for name, method in table.items()},
            "check_tx": self._check_tx,
        }

    def _info(self, request: Any) -> Any:
        # CometBFT sends its version; tools that only query (abci-cli) do not.
        if request.abci_version and not request.abci_version.startswith(ABCI_VERSION):
            raise RuntimeError(
                f"CometBFT uses ABCI {request.abci_version}, but this node needs ABCI {ABCI_VERSION}x:"
                " run the CometBFT that was installed with the node"
            )
        head = self._app.info().block
        return abci.Response(
            info=abci.ResponseInfo(
                data=SOFTWARE,
                version=SOFTWARE_VERSION,
                app_version=APP_VERSION,
                last_block_height=head.height,
                last_block_app_hash=head.app_hash if head.height else b"",
            )
        )

    def _query(self, request: Any) -> Any:
        return abci.Response(query=self._answer_query(request.path, request.data, request.height, request.prove))

    def _check_tx(self, request: Any) -> bytes:
        result = self._app.check_tx(request.tx, request.type == _RECHECK)
        return _checked(result.code, result.codespace, result.log, result.gas_wanted, result.gas_used)

    def _init_chain(self, request: Any) -> Any:
        genesis = codec.decode(GENESIS, request.app_state_bytes)
        if genesis.chain_id != request.chain_id:
            raise RuntimeError(
                f"the genesis file is for chain {request.chain_id}, but its app_state is for chain {genesis.chain_id}:"
                " use the unchanged genesis file"
            )
        if request.initial_height > 1:
            raise RuntimeError(
                f"the genesis file starts at height {request.initial_height}, but this chain starts at height 1:"
                " use the unchanged genesis file"
            )
        started = self._app.init_chain(genesis, _nanoseconds(request.time))
        return abci.Response(
            init_chain=abci.ResponseInitChain(
                validators=_validator_updates(started.validators), app_hash=started.app_hash
            )
        )

    def _prepare_proposal(self, request: Any) -> Any:
        txs = self._app.prepare_proposal(request.txs, request.max_tx_bytes, request.height, request.proposer_address)
        return abci.Response(prepare_proposal=abci.ResponsePrepareProposal(txs=txs))

    def _process_proposal(self, request: Any) -> Any:
        is_valid = self._app.process_proposal(request.txs, request.height, request.proposer_address)
        status = _ACCEPT if is_valid else _REJECT
        return abci.Response(process_proposal=abci.ResponseProcessProposal(status=status))

    def _verify_vote_extension(self, request: Any) -> Any:
        # Vote extensions are off. An empty extension is valid. An extension with content was not made by this software.
        status = _REJECT if request.vote_extension else _ACCEPT
        return abci.Response(verify_vote_extension=abci.ResponseVerifyVoteExtension(status=status))

    def _finalize_block(self, request: Any) -> Any:
        self._check_block(request)
        finalized = self._app.finalize_block(
            request.height,
            _nanoseconds(request.time),
            request.hash,
            request.proposer_address,
            request.txs,
            votes=tuple(map(_vote, request.decided_last_commit.votes)),
            misbehaviours=tuple(_misbehaviour(evidence) for evidence in request.misbehavior if evidence.type in _KINDS),
        )
        return abci.Response(
            finalize_block=abci.ResponseFinalizeBlock(
                events=events_proto(finalized.result.events),
                tx_results=list(map(_tx_result, finalized.items, finalized.result.tx_results)),
                validator_updates=_validator_updates(finalized.result.validator_updates),
                app_hash=finalized.app_hash,
                consensus_param_updates=_param_updates(finalized.evidence),
            )
        )

    def _commit(self, request: Any) -> Any:
        self._app.commit()
        return abci.Response(commit=abci.ResponseCommit())  # retain_height 0: all blocks are kept


def _nanoseconds(timestamp: Any) -> int:
    value: int = timestamp.seconds * 10**9 + timestamp.nanos
    return value


def _vote(vote: Any) -> Vote:
    return Vote(
        validator=vote.validator.address,
        power=vote.validator.power,
        signed=vote.block_id_flag in _SIGNED,
    )


def _misbehaviour(evidence: Any) -> Misbehaviour:
    return Misbehaviour(
        kind=MisbehaviourKind(evidence.type),
        validator=evidence.validator.address,
        height=evidence.height,
        time_ns=_nanoseconds(evidence.time),
        power=evidence.validator.power,
    )


def _validator_updates(updates: Iterable[ValidatorUpdate]) -> list[Any]:
    return [abci.ValidatorUpdate(pub_key=PublicKey(ed25519=update.cons_key), power=update.power) for update in updates]


def _param_updates(evidence: EvidenceRules | None) -> Any:
    """Return the consensus parameters that change. CometBFT keeps the groups that are absent as they are."""
    return None if evidence is None else ConsensusParams(evidence=evidence.proto())


def _tx_result(item: Reveal | Tx | Refusal, result: TxResult) -> Any:
    return abci.ExecTxResult(
        code=result.code,
        codespace=result.codespace,
        data=tx_data(item.messages, result) if isinstance(item, Tx) else b"",
        log=result.log,
        gas_wanted=result.gas_wanted,
        gas_used=result.gas_used,
        events=events_proto(result.events),
    )


def _serialized(method: Callable[[Any], Any], request: Any) -> bytes:
    answer: bytes = method(request).SerializeToString()
    return answer


@lru_cache(maxsize=4096)
def _checked(code: int, codespace: str, log: str, gas_wanted: int, gas_used: int) -> bytes:
    """Return a serialized response to CheckTx.

    The responses are cached, because the responses for accepted transactions differ only in the gas, and the gas is
    often the same too.
    """
    checked = abci.ResponseCheckTx(code=code, codespace=codespace, log=log, gas_wanted=gas_wanted, gas_used=gas_used)
    answer: bytes = abci.Response(check_tx=checked).SerializeToString()
    return answer
