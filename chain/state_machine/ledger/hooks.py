"""Hooks of the ledger."""

from collections.abc import Callable

from chain.state_machine.hook import Hook
from domain.tx import Tx

FEE_GRANTED: Hook[[Tx, str, int], Callable[[], None]] = Hook("fee granted")
"""Called with a transaction that names a granter of its fee, the account that would pay it, and the fee.

The subscriber refuses what the granter did not allow, writes nothing, and returns the function that writes down the
use.
"""
