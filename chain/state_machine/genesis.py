"""The first state: parameters, accounts with their coins, validators with their stakes."""

from chain.state_machine.context import HEAD, NEXT_EVENT, PARAMS, Head
from chain.state_machine.ledger.genesis import write_ledger
from chain.state_machine.registry.genesis import write_registry
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.bounds import check
from domain.genesis import Genesis
from domain.hashing import hash_fields


def write_genesis(overlay: Overlay, genesis: Genesis, time_ns: int) -> tuple[ValidatorUpdate, ...]:
    """Write the first state and return the validators of the first block; Refusal for a genesis that does not hold."""
    check(genesis)
    PARAMS.put(overlay, genesis.params)
    # Nobody can have chosen this, and the first auction needs a seed.
    first = hash_fields("assay/genesis", genesis.chain_id)
    HEAD.put(overlay, Head(genesis.chain_id, genesis.denom, 0, time_ns, 0, first))
    NEXT_EVENT.set(overlay, 1)
    write_ledger(overlay, genesis)
    return write_registry(overlay, genesis)
