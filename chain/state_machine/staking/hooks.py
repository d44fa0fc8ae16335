"""Hooks of staking: later components take part in changes of stake and of the validator set."""

from chain.state_machine.hook import Hook
from domain.staking.records import ValidatorStake

VALIDATOR_CREATED: Hook[[ValidatorStake], None] = Hook("validator created")
"""Called after an account became a validator, before its first delegation."""

VALIDATOR_EDITED: Hook[[ValidatorStake, ValidatorStake], None] = Hook("validator edited")
"""Called with the record before and after an edit."""

BACKING_CHANGED: Hook[[str, int, int], None] = Hook("backing changed")
"""Called with a validator, and the stake that backs its orders before and after a change (uassay)."""

DELEGATION_CHANGING: Hook[[str, str], None] = Hook("delegation changing")
"""Called with delegator and validator before the shares of a delegation change."""

DELEGATION_CHANGED: Hook[[str, str], None] = Hook("delegation changed")
"""Called with delegator and validator after the shares of a delegation changed."""

DELEGATION_GAS: Hook[[str], int] = Hook("delegation gas")
"""Called with a delegator; the answers are the gas of what follows a change of one of its delegations."""

VALIDATOR_CUT: Hook[[str, int, int], None] = Hook("validator cut")
"""Called with a validator, its tokens, and the part of them that it will lose, before it loses them (uassay)."""

POWER_CHANGED: Hook[[str, int], None] = Hook("power changed")
"""Called with a validator and its new consensus power, which is 0 if it leaves the set."""

VALIDATOR_BONDED: Hook[[str], None] = Hook("validator bonded")
"""Called with a validator that entered the set."""

VALIDATOR_UNBONDING: Hook[[str], None] = Hook("validator unbonding")
"""Called with a validator that left the set."""

RESERVED: Hook[[str], int] = Hook("reserved")
"""Called with a validator; the answers are amounts of stake (uassay) that must not leave yet."""
