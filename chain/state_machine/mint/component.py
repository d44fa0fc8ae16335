"""The component of mint: new coins by inflation."""

from chain.state_machine.component import Component
from chain.state_machine.mint.invariants import INVARIANTS
from chain.state_machine.mint.minting import check_inflation, mint_coins
from chain.state_machine.mint.tables import MINTER
from chain.state_machine.steps import END

COMPONENT = Component(
    name="mint",
    tables=(MINTER,),
    check_params=check_inflation,
    hooks=(END.to(mint_coins),),
    invariants=INVARIANTS,
)
