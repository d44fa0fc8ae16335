"""Messages that the market component handles."""

from dataclasses import dataclass
from typing import ClassVar

from domain.bounds import (
    Address,
    Duration,
    Hash,
    PositiveMoney,
    PositiveWork,
    PublicKey,
    Signature,
    Work,
)
from domain.market.records import NO_CHALLENGERS, ChallengeTerms, Conditions, JobTerms, Offer, Replicas
from domain.messages import Message


@dataclass(frozen=True, slots=True)
class MsgPlaceBid(Message):
    """Place a standing bid. The bid's id is the hash of chain id, sender, sequence and message index."""

    URL: ClassVar[str] = "/assay.market.v1.MsgPlaceBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    offer: Offer
    capacity: PositiveWork
    duration: Duration


@dataclass(frozen=True, slots=True)
class MsgChangeBid(Message):
    """Change the price, capacity and expiry of a bid. The auction treats the bid as a new one."""

    URL: ClassVar[str] = "/assay.market.v1.MsgChangeBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    bid_id: Hash
    price: PositiveMoney
    capacity: Work
    duration: Duration


@dataclass(frozen=True, slots=True)
class MsgWithdrawBid(Message):
    """Take a bid out of the book. The legs that the bid has won continue."""

    URL: ClassVar[str] = "/assay.market.v1.MsgWithdrawBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    bid_id: Hash


@dataclass(frozen=True, slots=True)
class MsgSubmitOrder(Message):
    """Submit an order and lock its deposit. ``key_proof`` is a signature by the per-order key (proof of possession).

    In a tier that replicates, ``replicas`` orders are opened. Each of them locks the deposit, and is served by a
    validator of its own. They have the same key; the proof names the first of them.
    """

    URL: ClassVar[str] = "/assay.market.v1.MsgSubmitOrder"
    SIGNER: ClassVar[str] = "consumer"
    GAS_EXTRA: ClassVar[int] = 14  # for the check of each validator's ability to audit the order
    consumer: Address
    order_key: PublicKey
    key_proof: Signature
    terms: JobTerms
    conditions: Conditions
    price_limit: PositiveMoney
    deposit: PositiveMoney
    time_to_live: Duration
    deadline: Duration  # seconds from inclusion
    rematch: bool
    challenges: ChallengeTerms = NO_CHALLENGERS
    replicas: Replicas = 0


@dataclass(frozen=True, slots=True)
class MsgCancelOrder(Message):
    """Cancel an order that is not matched."""

    URL: ClassVar[str] = "/assay.market.v1.MsgCancelOrder"
    SIGNER: ClassVar[str] = "consumer"
    consumer: Address
    order_id: Hash
