"""The component of credentials: policies by vote, panels about evidence, and who has the credential of a device."""

from chain.state_machine.attest.attestations import draw_panel, on_due, weigh_draw, weigh_due
from chain.state_machine.attest.credentials import is_attested, on_refuted
from chain.state_machine.attest.handlers import HANDLERS
from chain.state_machine.attest.invariants import INVARIANTS
from chain.state_machine.attest.policies import keep_beacon
from chain.state_machine.attest.queries import ANSWERS
from chain.state_machine.attest.tables import (
    ATTEST_DUE,
    ATTEST_DUTIES,
    ATTEST_POLICIES,
    ATTEST_SEATS,
    ATTESTATIONS,
    BEACON_NUMBERS,
    BEACONS,
    CREDENTIALS,
    CURRENT,
    EVIDENCE,
    LAST_BEACON,
    LIVE_POLICIES,
    OPEN_ATTESTATIONS,
    OWNED,
    AttestSubject,
)
from chain.state_machine.component import Component
from chain.state_machine.context import Draw
from chain.state_machine.proof.hooks import ATTESTED, SHARES_REFUTED
from chain.state_machine.queue import Effect
from chain.state_machine.steps import END

COMPONENT = Component(
    name="attest",
    tables=(
        ATTEST_POLICIES,
        LIVE_POLICIES,
        BEACONS,
        BEACON_NUMBERS,
        LAST_BEACON,
        ATTESTATIONS,
        EVIDENCE,
        ATTEST_SEATS,
        ATTEST_DUTIES,
        OPEN_ATTESTATIONS,
        CREDENTIALS,
        OWNED,
        CURRENT,
    ),
    handlers=HANDLERS,
    effects=(Effect(ATTEST_DUE, on_due, weigh_due),),
    draws=(Draw(AttestSubject, draw_panel, weigh_draw),),
    hooks=(END.to(keep_beacon), ATTESTED.to(is_attested), SHARES_REFUTED.to(on_refuted)),
    answers=ANSWERS,
    invariants=INVARIANTS,
)
