"""CometBFT's rules for evidence of two signatures, which follow the parameters of the chain."""

from dataclasses import dataclass
from typing import Any

from cosmpy.protos.tendermint.types.params_pb2 import EvidenceParams
from google.protobuf.duration_pb2 import Duration

from domain.params import Params
from domain.slashing.params import SlashingParams
from domain.staking.params import StakingParams

BLOCK_MS = 1_000
"""About the time between blocks of a public network, in milliseconds."""


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """The age up to which CometBFT keeps evidence, and the bytes that a block has for it.

    CometBFT drops evidence when its age exceeds both numbers. So a halt of the chain, which ages no blocks, drops none.
    """

    max_age_blocks: int
    max_age_seconds: int
    max_bytes: int = 1024 * 1024

    def proto(self) -> Any:
        """Return the rules as CometBFT's protobuf message."""
        return EvidenceParams(
            max_age_num_blocks=self.max_age_blocks,
            max_age_duration=Duration(seconds=self.max_age_seconds),
            max_bytes=self.max_bytes,
        )


def evidence_rules(params: Params) -> EvidenceRules:
    """Return rules by which evidence does not expire while the chain can still slash for it."""
    seconds = max(params.of(StakingParams).unbonding_time, params.of(SlashingParams).evidence_max_age)
    return EvidenceRules(max_age_blocks=seconds * 1_000 // BLOCK_MS, max_age_seconds=seconds)
