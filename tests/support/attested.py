"""A market with a policy about evidence, and the software TPM of a test that makes evidence for it."""

from dataclasses import replace
from typing import Any

from chain.state_machine.attest.tables import ATTEST_SEATS, ATTESTATIONS, CREDENTIALS
from chain.state_machine.context import NS
from domain.attest.evidence import Evidence, Policy
from domain.attest.messages import (
    MsgAddAttestPolicy,
    MsgAttest,
    MsgCommitVerdict,
    MsgRevealVerdict,
    MsgWithdrawAttestPolicy,
)
from domain.attest.queries import AttestBeaconRequest
from domain.attest.records import AttestAnswer, Attestation, AttestSeat, AttestState, Credential, KeptBeacon
from domain.gov.moves import GOV_POT
from domain.hashing import hash_fields
from domain.params import Params, local_params
from domain.proof.records import ShareClaim
from pol.rules.attest import answer_commitment
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import Market
from tests.support.evidence import JUNE_2025, Authority, SoftTpm
from tests.support.proposals import propose, vote
from validator.credentials.values import Binding

SALT = bytes(32)
EXECUTOR = bytes([2]) * 32
POLICY = "tpm-1"
OK = AttestAnswer.OK
VALID_FOR = 200


def params(**changes: int) -> Params:
    """Return parameters of a local network, with panels of three seats."""
    return local_params().replace(
        **{"duty_segments": 1, "round_window": 60, "attest_transfer_wait": 100, "voting_period": 10, **changes}
    )


def add_policy(policy: Policy, name: str = POLICY, valid_for: int = VALID_FOR) -> MsgAddAttestPolicy:
    return MsgAddAttestPolicy(authority=GOV_POT.address, name=name, policy=policy, valid_for=valid_for)


def withdraw(name: str = POLICY) -> MsgWithdrawAttestPolicy:
    return MsgWithdrawAttestPolicy(authority=GOV_POT.address, name=name)


class AttestMarket(Market):
    """A market in which a vote added a policy for the software TPM of a test."""

    def __init__(self, parameters: Params | None = None, *, has_policy: bool = True, **more: Any) -> None:
        super().__init__(parameters or params(), **{"validators": 6, "bidders": (), **more})
        # Certificates of tests are valid from then on.
        self.chain.time_ns = (JUNE_2025 + 1_000) * NS
        self.tpm = SoftTpm(Authority("vendor"))
        # The bond of each share, as a multiple of its price; 0 means the least one.
        self.multiple = 0
        self.policy = replace(self.tpm.policy(), executors=(EXECUTOR,))
        if has_policy:
            self.pass_vote(add_policy(self.policy))

    def pass_vote(self, *messages: Any) -> None:
        """Let all validators vote for messages of governance."""
        result = self.chain.ok(propose(*messages, proposer=self.validators[0]))
        number = int.from_bytes(dict(result.tx_results[0].responses)["proposal_id"], "big")
        self.chain.ok(*(vote(name, proposal=number) for name in self.validators))
        self.chain.pass_time(11)
        self.chain.block()

    def claim(self, order_id: bytes, *args: Any, **changes: Any) -> ShareClaim:
        """Return a claim whose bond is ``multiple`` times its price."""
        claim = super().claim(order_id, *args, **changes)
        return replace(claim, multiple=max(claim.multiple, self.multiple))

    # --- evidence ---

    def beacon(self) -> KeptBeacon:
        """Return the newest beacon for evidence."""
        kept: KeptBeacon | None = self.chain.ask(AttestBeaconRequest()).beacon
        assert kept is not None
        return kept

    def binding(self, owner: str, **changes: Any) -> Binding:
        """Return what a device must sign for an account that serves nothing."""
        kept = self.beacon()
        known = Binding(CHAIN_ID, owner, bytes(32), EXECUTOR, kept.beacon, kept.time)
        return replace(known, **changes)

    def evidence(self, owner: str, **changes: Any) -> Evidence:
        """Return a quote of the software TPM for an account."""
        return self.tpm.evidence(report_data=self.binding(owner, **changes).report_data())

    @property
    def device(self) -> bytes:
        """The credential id of the software TPM."""
        return self.tpm.credential

    def attest(self, owner: str, **changes: Any) -> MsgAttest:
        """Return a request for the credential of the software TPM; ``changes`` are of its fields."""
        fields: dict[str, Any] = {
            "owner": owner,
            "policy": POLICY,
            "credential": self.device,
            "executor": EXECUTOR,
            "beacon": self.beacon().beacon,
            "evidence": Evidence("tpm", b"a quote"),
        }
        return MsgAttest(**fields | changes)

    # --- panels ---

    def attestation(self, owner: str) -> Attestation:
        return ATTESTATIONS.must(self.chain.overlay(), owner)

    def attest_seats(self, owner: str) -> list[AttestSeat]:
        return ATTEST_SEATS.scan(self.chain.overlay(), owner)

    def credential(self, credential: bytes = b"") -> Credential | None:
        return CREDENTIALS.get(self.chain.overlay(), credential or self.device)

    def draw(self, owner: str) -> list[AttestSeat]:
        """Make blocks until the panel is drawn, and return its seats."""
        for _ in range(30):
            if self.attestation(owner).state is not AttestState.WAITING:
                return self.attest_seats(owner)
            self.chain.block()
        raise AssertionError("no panel was drawn")

    def commits(self, owner: str, answers: list[AttestAnswer | None]) -> list[MsgCommitVerdict]:
        """Return the commitments of the seats; a seat whose answer is None is silent."""
        return [
            MsgCommitVerdict(seat.validator, owner, seat.number, self.seal(seat, answer))
            for seat, answer in zip(self.attest_seats(owner), answers, strict=True)
            if answer is not None
        ]

    def seal(self, seat: AttestSeat, answer: AttestAnswer) -> bytes:
        return answer_commitment(CHAIN_ID, seat.owner, seat.number, seat.validator, SALT, answer)

    def reveals(self, owner: str, answers: list[AttestAnswer | None]) -> list[MsgRevealVerdict]:
        return [
            MsgRevealVerdict(seat.validator, owner, seat.number, answer, SALT)
            for seat, answer in zip(self.attest_seats(owner), answers, strict=True)
            if answer is not None
        ]

    def judge(self, owner: str, *answers: AttestAnswer | None) -> Attestation:
        """Draw the panel, let its seats answer, and return the attestation when it has ended."""
        self.draw(owner)
        given = list(answers) or [OK] * len(self.attest_seats(owner))
        self.chain.ok(*self.commits(owner, given))
        self.chain.pass_until(self.attestation(owner).commits_end)
        self.chain.ok(*self.reveals(owner, given))
        self.chain.pass_until(self.attestation(owner).reveals_end)
        return self.attestation(owner)

    def get_credential(self, owner: str, credential: bytes = b"") -> Credential:
        """Let an account get the credential of a device."""
        self.chain.ok(self.attest(owner, credential=credential or self.device))
        assert self.judge(owner).granted
        found = self.credential(credential)
        assert found is not None
        return found


def other_device(number: int) -> bytes:
    """Return the credential id of another device."""
    return hash_fields("another device", str(number))
