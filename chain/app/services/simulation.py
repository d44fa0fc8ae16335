"""The simulation of a transaction, in the forms of gRPC and of ABCI queries."""

from typing import Any

from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import GasInfo, Result

from chain.app.interfaces import QueryPort
from domain.errors import Code, Refusal
from wire.results import events_proto, tx_data
from wire.tx import decode_simulated_tx


def simulate(app: QueryPort, raw: bytes) -> dict[str, Any]:
    """Return the fields ``gas_info`` and ``result`` of a transaction's result if it were in a block now.

    Raise a Refusal if it would be refused.
    """
    tx = decode_simulated_tx(raw)
    result = app.simulate(tx)
    if result.code:
        raise Refusal(Code(result.codespace, result.code, ""), "tx", result.log)
    return {
        "gas_info": GasInfo(gas_wanted=result.gas_wanted, gas_used=result.gas_used),
        "result": Result(data=tx_data(tx.messages, result), log=result.log, events=events_proto(result.events)),
    }
