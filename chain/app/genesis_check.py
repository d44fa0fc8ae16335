"""What a genesis must satisfy before a chain starts from it: names that somebody owns, and all rules of the state."""

from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.transition import init_chain
from domain.bounds import check
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import Genesis
from wire.address import check_address

CHAIN_ID_MAX = 50  # CometBFT's


def check_names(genesis: Genesis) -> None:
    """Refuse what the core cannot judge: addresses that no key has, accounts that come twice, odd identifiers."""
    check(genesis)
    if len(genesis.chain_id) > CHAIN_ID_MAX:
        raise Refusal(BAD_FIELD, "chain_id", "is too long", f"at most {CHAIN_ID_MAX} characters")
    seen: set[str] = set()
    for index, account in enumerate(genesis.accounts):
        field = f"accounts[{index}].address"
        check_address(account.address, field)
        if account.address in seen:
            raise Refusal(BAD_FIELD, field, f"{account.address} comes twice", "add its coins up")
        seen.add(account.address)
    for index, validator in enumerate(genesis.validators):
        check_address(validator.operator, f"validators[{index}].operator")


def check_genesis(genesis: Genesis, time_ns: int) -> None:
    """Refuse a genesis from which no chain can start; the Refusal names the field."""
    check_names(genesis)
    init_chain(Overlay(MemoryStore()), genesis, time_ns)
