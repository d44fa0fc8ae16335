"""The second books of slashing: who is watched, jailed or tombstoned, as the genesis and the events tell them."""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatchmethod
from hashlib import sha256
from typing import Any

from domain.genesis import Genesis
from domain.slashing.events import EvidenceAccepted, JailBegun, SigningStarted, StakeSlashed
from domain.slashing.params import SlashingParams
from domain.slashing.records import Evidence, Fault, SigningInfo

SlashingChange = SigningStarted | EvidenceAccepted | JailBegun | StakeSlashed


class SlashingBooks:
    """The records of slashing by consensus address. ``take`` returns the coins that were burnt."""

    def __init__(self, genesis: Genesis, bonded: Iterable[str]) -> None:
        self.infos: dict[bytes, SigningInfo] = {}
        self.evidence: dict[bytes, Evidence] = {}
        self._addresses = {v.operator: sha256(v.cons_key).digest()[:20] for v in genesis.validators}
        self._window = genesis.params.of(SlashingParams).signed_blocks_window
        for operator in bonded:
            self.start(operator, self._addresses[operator], 1, self._window)

    def start(self, operator: str, address: bytes, height: int, window: int) -> None:
        """Watch a validator from a height on."""
        self._addresses[operator] = address
        known = self.infos.get(address) or SigningInfo(address, operator, 0)
        self.infos[address] = replace(known, start_height=height, window=window)

    def stop(self, operator: str) -> None:
        """Watch a validator no more, because it left the set."""
        if self._addresses.get(operator) in self.infos:
            self._info(operator, start_height=0, window=0)

    def name(self, operator: str, cons_key: bytes) -> None:
        """Learn the consensus key of a new validator."""
        self._addresses[operator] = sha256(cons_key).digest()[:20]

    def _info(self, operator: str, **changes: Any) -> None:
        address = self._addresses[operator]
        self.infos[address] = replace(self.infos[address], **changes)

    @singledispatchmethod
    def take(self, change: SlashingChange) -> int:
        """Change the books as an event tells."""
        raise AssertionError(f"the books have no row for {type(change).__name__}")

    @take.register
    def _(self, change: SigningStarted) -> int:
        self.start(change.operator, self._addresses[change.operator], change.start_height, change.window)
        return 0

    @take.register
    def _(self, change: EvidenceAccepted) -> int:
        self.evidence[change.evidence.cons_address] = change.evidence
        return 0

    @take.register
    def _(self, change: JailBegun) -> int:
        self._info(change.operator, start_height=0, window=0, jailed_until=change.until)
        if change.fault == Fault.DOUBLE_SIGN:
            self._info(change.operator, tombstoned=True)
        return 0

    @take.register
    def _(self, change: StakeSlashed) -> int:
        return change.amount
