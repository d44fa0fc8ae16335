"""The components of the chain in one tuple; each uses only components before it."""

from chain.state_machine.attest.component import COMPONENT as ATTEST
from chain.state_machine.authz.component import COMPONENT as AUTHZ
from chain.state_machine.component import Component
from chain.state_machine.disputes.component import COMPONENT as DISPUTES
from chain.state_machine.distribution.component import COMPONENT as DISTRIBUTION
from chain.state_machine.feegrant.component import COMPONENT as FEEGRANT
from chain.state_machine.gov.component import COMPONENT as GOV
from chain.state_machine.ledger.component import COMPONENT as LEDGER
from chain.state_machine.legs.component import COMPONENT as LEGS
from chain.state_machine.market.component import COMPONENT as MARKET
from chain.state_machine.mint.component import COMPONENT as MINT
from chain.state_machine.node.component import COMPONENT as NODE
from chain.state_machine.proof.component import COMPONENT as PROOF
from chain.state_machine.registry.component import COMPONENT as REGISTRY
from chain.state_machine.slashing.component import COMPONENT as SLASHING
from chain.state_machine.staking.component import COMPONENT as STAKING

COMPONENTS: tuple[Component, ...] = (
    NODE,
    LEDGER,
    FEEGRANT,
    AUTHZ,
    STAKING,
    MINT,
    DISTRIBUTION,
    REGISTRY,
    SLASHING,
    GOV,
    MARKET,
    LEGS,
    PROOF,
    DISPUTES,
    ATTEST,
)
