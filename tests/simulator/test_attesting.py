"""Markets in which providers attest their machines: daemons judge the evidence while they train, audit and crash."""

from dataclasses import replace

from domain.attest.messages import MsgAddAttestPolicy, MsgAttest
from domain.attest.queries import AttestationRequest, AttestBeaconRequest, AttestPolicyRequest, CredentialsRequest
from domain.attest.records import AttestState, AttestVerdict
from domain.gov.messages import MsgSubmitProposal, MsgVote
from domain.gov.moves import GOV_POT
from domain.gov.records import VoteOption
from domain.ledger.records import Coin
from domain.messages import Message
from localnet.simulator.memory_chain import CHAIN_ID
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import World
from tests.support.evidence import Authority, SoftTpm
from tests.support.proposals import MIN_DEPOSIT
from validator.credentials.values import Binding

EXECUTOR = bytes([2]) * 32
EVERY_MS = 2_000
REQUESTS = 4


class Attesting:
    """A vote on a policy, and a provider that then attests the software TPM of this test, again and again.

    Every second request has evidence that is bound to another account.
    """

    def __init__(self, world: World, owner: str) -> None:
        self.world, self.owner = world, owner
        self.tpm = SoftTpm(Authority("vendor", days=(-2_000, 2_000)))
        self.policy = replace(self.tpm.policy(), executors=(EXECUTOR,))
        self.verdicts: dict[int, tuple[int, bool]] = {}
        self.asked = 0
        world.clock.at(1_000, self._propose)
        world.clock.at(5_000, self._vote)
        world.clock.at(20_000, self._turn)

    def _send(self, message: Message) -> None:
        self.world.submit((message,), lambda _: None, surely=True)

    def _propose(self) -> None:
        add = MsgAddAttestPolicy(authority=GOV_POT.address, name="tpm", policy=self.policy, valid_for=600)
        proposal = MsgSubmitProposal(
            messages=(add,),
            initial_deposit=(Coin("uassay", MIN_DEPOSIT),),
            proposer=self.owner,
            metadata="",
            title="Credentials",
            summary="Credentials",
            expedited=False,
        )
        self._send(proposal)

    def _vote(self) -> None:
        for name in self.world.validators:
            self._send(MsgVote(1, name, VoteOption.YES, ""))

    def _turn(self) -> None:
        world = self.world
        world.clock.at(world.clock.now + EVERY_MS, self._turn)
        kept = world.ask(AttestBeaconRequest()).beacon
        attestation = world.ask(AttestationRequest(self.owner)).attestation
        if attestation is not None and attestation.state is AttestState.ENDED:
            self.verdicts[attestation.number] = attestation.verdict, attestation.granted
        is_open = attestation is not None and attestation.state is not AttestState.ENDED
        if kept is None or is_open or self.asked == REQUESTS:
            return
        self.asked += 1
        address = self.owner if self.asked % 2 else "another"
        bound = Binding(CHAIN_ID, address, bytes(32), EXECUTOR, kept.beacon, kept.time)
        evidence = self.tpm.evidence(report_data=bound.report_data())
        message = MsgAttest(
            owner=self.owner,
            policy="tpm",
            credential=self.tpm.credential,
            executor=EXECUTOR,
            beacon=kept.beacon,
            evidence=evidence,
        )
        self._send(message)


def test_daemons_judge_evidence_beside_their_other_duties() -> None:
    setup = make_setup(3, Kind.HONEST, Shape(orders=4, spread=60))
    setup = replace(setup, params=setup.params.replace(voting_period=10, attest_seats=3, attest_seats_min=2))
    world = World(setup)
    attesting = Attesting(world, setup.providers[0].address)
    world.run()
    assert world.ask(AttestPolicyRequest("tpm")).policy is not None
    accepted = [number for number, found in attesting.verdicts.items() if found == (AttestVerdict.ACCEPTED, True)]
    refused = [number for number, found in attesting.verdicts.items() if found == (AttestVerdict.REFUSED, False)]
    # A seat may be late in a network that loses messages, but honest seats never disagree.
    assert accepted
    assert refused
    assert len(attesting.verdicts) == REQUESTS
    assert world.ask(CredentialsRequest(attesting.owner)).credentials
    cut = [int(event.get("cut")) for event in world.chain.seen("attest.seat")]
    assert sum(1 for each in cut if each > 100) == 0
