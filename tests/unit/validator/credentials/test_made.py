"""Cases that no sample shows: no vendor's machine signs such evidence, so tests sign it under roots of their own."""

from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from domain.attest.evidence import Evidence, Policy
from tests.support.evidence import (
    BINDING,
    JUNE_2025,
    Authority,
    MadeGpu,
    MadeSnp,
    SoftTpm,
    ak_extensions,
    milan,
)
from validator.credentials.values import Binding, Credential, EvidenceRefused, Reason
from validator.credentials.verify import verify_bound


@cache
def chip() -> MadeSnp:
    return MadeSnp()


@cache
def gpu() -> MadeGpu:
    return MadeGpu()


@cache
def tpm() -> SoftTpm:
    return SoftTpm(Authority("test"))


def verified(evidence: Evidence, policy: Policy, binding: Binding = BINDING, after: int = 60) -> Credential | Reason:
    """Return the credential, or the reason of the refusal."""
    try:
        return verify_bound(evidence, policy, binding, JUNE_2025 + after)
    except EvidenceRefused as refusal:
        return refusal.why


def test_made_evidence_gives_a_credential() -> None:
    for evidence, policy in (
        (chip().evidence(), chip().policy()),
        (gpu().evidence(), gpu().policy()),
        (tpm().evidence(), tpm().policy()),
    ):
        credential = verified(evidence, policy)
        assert isinstance(credential, Credential)
        assert credential.report_data == BINDING.report_data()[: len(credential.report_data)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({0: b"\x04"}, Reason.UNSUPPORTED),  # a version that is not known
        ({10: b"\x0b"}, Reason.OPEN_TO_HOST),  # debugging
        ({10: b"\x07"}, Reason.OPEN_TO_HOST),  # a migration agent
        ({48: b"\x01"}, Reason.UNSUPPORTED),  # a lower privilege level of the guest
        ({52: b"\x02"}, Reason.UNSUPPORTED),  # another algorithm
        ({72: b"\x02"}, Reason.NO_DEVICE_IDENTITY),  # a masked key
        ({72: b"\x04"}, Reason.NO_DEVICE_IDENTITY),  # a VLEK
        ({416: bytes(64)}, Reason.NO_DEVICE_IDENTITY),  # a masked chip
        ({80: bytes(64)}, Reason.WRONG_REPORT_DATA),
        ({144: bytes([8])}, Reason.WRONG_MEASUREMENT),
        ({416: b"\x02"}, Reason.BAD_SIGNATURE),  # another chip than the certificate's
        ({391: b"\x72"}, Reason.BAD_SIGNATURE),  # firmware of which the certificate does not know
    ],
)
def test_a_report_that_a_chip_would_sign_is_refused(changes: dict[int, bytes], reason: Reason) -> None:
    assert verified(chip().evidence(changes), chip().policy()) is reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"4": None, "5": b"\x0c\x03aws"}, Reason.NO_DEVICE_IDENTITY),  # a VLEK's certificate
        ({"2": b"\x16\x04Rome"}, Reason.UNSUPPORTED),
        ({"2": b"\x16\x09Milan-B0"}, Reason.MALFORMED),
        ({"3.3": None}, Reason.BAD_SIGNATURE),
    ],
)
def test_a_certificate_of_no_chip_is_refused(fields: dict[str, bytes | None], reason: Reason) -> None:
    made = chip()
    assert verified(made.evidence(vcek=made.vcek(fields)), made.policy()) is reason


def test_firmware_below_the_least_is_refused() -> None:
    old = chip().vcek({"3.8": b"\x02\x01\x72"})
    assert verified(chip().evidence({391: b"\x72"}, old), chip().policy()) is Reason.OUTDATED_TCB


def test_unsigned_bytes_of_a_report_are_zero() -> None:
    made = chip().evidence()
    for at in (672 + 48, 672 + 71, 672 + 72 + 48, 672 + 144, 1183):
        report = made.report[:at] + b"\x01" + made.report[at + 1 :]
        assert verified(replace(made, report=report), chip().policy()) is Reason.MALFORMED


def test_another_key_than_the_certificates_signs_nothing() -> None:
    other = MadeSnp()
    other.ark, other.ask = chip().ark, chip().ask
    evidence = replace(other.evidence(), certificates=chip().evidence().certificates)
    assert verified(evidence, chip().policy()) is Reason.BAD_SIGNATURE
    tpms = replace(SoftTpm(tpm().authority).evidence(), certificates=tpm().evidence().certificates)
    assert verified(tpms, tpm().policy()) is Reason.BAD_SIGNATURE
    gpus = replace(gpu().evidence(), report=MadeGpu().report())
    assert verified(gpus, gpu().policy()) is Reason.BAD_SIGNATURE


def test_a_chain_of_a_vendor_does_not_reach_a_made_root() -> None:
    """A maker of roots puts its own root above the vendor's certificates, or its own chip below the vendor's root."""
    vendor, made = milan()[0], chip().evidence()
    above = replace(vendor, certificates=(*vendor.certificates[:2], chip().ark.der), revocation_lists=())
    assert verified(above, replace(chip().policy(), needs_revocation_lists=False)) is Reason.BAD_CHAIN
    below = replace(made, certificates=(*made.certificates[:2], vendor.certificates[2]), revocation_lists=())
    assert verified(below, milan()[1]) is Reason.BAD_CHAIN


# --- chains --------------------------------------------------------------------------------------


def test_lists_of_revoked_certificates() -> None:
    made, policy = chip().evidence(), chip().policy()
    ark, ask = chip().ark, chip().ask
    stranger = Authority("ARK")

    def with_lists(*lists: bytes) -> Credential | Reason:
        return verified(replace(made, revocation_lists=lists), policy)

    assert isinstance(with_lists(ark.revokes()), Credential)
    assert with_lists() is Reason.NO_REVOCATION_LIST
    assert with_lists(ark.revokes(ask.der)) is Reason.REVOKED
    assert with_lists(ark.revokes(), ark.revokes(ask.der)) is Reason.REVOKED
    assert with_lists(ark.revokes(), ask.revokes(made.certificates[0])) is Reason.REVOKED
    # A list of the authority below does not say that its own certificate is good.
    assert with_lists(ask.revokes()) is Reason.NO_REVOCATION_LIST
    assert with_lists(ark.revokes(days=(-30, -1))) is Reason.EXPIRED
    assert with_lists(ark.revokes(days=(1, 30))) is Reason.EXPIRED
    assert with_lists(stranger.revokes()) is Reason.BAD_CHAIN
    assert with_lists(ark.revokes() + b"\x00") is Reason.MALFORMED
    assert with_lists(b"list") is Reason.MALFORMED
    credential = with_lists(ark.revokes(days=(0, 2)))
    assert isinstance(credential, Credential)
    assert credential.valid_until == JUNE_2025 + 2 * 86_400


_CRITICAL = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")


@pytest.mark.parametrize(
    ("extensions", "reason"),
    [
        ((x509.BasicConstraints(True, None), True), Reason.BAD_CHAIN),  # an authority that signs evidence itself
        ((_CRITICAL, True), Reason.UNSUPPORTED),
    ],
)
def test_a_signer_with_other_extensions_is_refused(extensions: Any, reason: Reason) -> None:
    made = chip()
    assert verified(made.evidence(vcek=made.vcek(None, extensions)), made.policy()) is reason


def test_a_chip_issues_no_certificate() -> None:
    """A party that has a chip's key issues another certificate with it, and so makes up a second device."""
    made = MadeSnp()
    chips = Authority("SEV-VCEK", made.ark, (x509.BasicConstraints(False, None), True))
    made.ask = chips
    chain = (made.vcek(), chips.der, made.ark.der)
    assert verified(replace(made.evidence(), certificates=chain), made.policy()) is Reason.BAD_CHAIN
    no_usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    made.ask = Authority("ASK", made.ark, (x509.BasicConstraints(True, 0), True), (no_usage, True))
    chain = (made.vcek(), made.ask.der, made.ark.der)
    assert verified(replace(made.evidence(), certificates=chain), made.policy()) is Reason.BAD_CHAIN


def test_a_chain_is_no_longer_than_its_authorities_allow() -> None:
    root = Authority("root", None, (x509.BasicConstraints(True, 0), True))
    below = Authority("below", root)
    made = SoftTpm(below)
    chain = (made.certificate(), below.der, root.der)
    evidence = replace(made.evidence(), certificates=chain)
    assert verified(evidence, replace(made.policy(), roots=(sha256(root.der).digest(),))) is Reason.BAD_CHAIN


def test_a_certificate_of_another_day_is_refused() -> None:
    made = tpm()
    for days in ((-10, -1), (1, 10)):
        ak = made.authority.issue("AK", made.key.public_key(), ak_extensions("ab"), days=days)
        assert verified(made.evidence(certificate=ak), made.policy()) is Reason.EXPIRED


# --- NVIDIA --------------------------------------------------------------------------------------


def test_a_gpu_report_with_fields_in_disorder_is_refused() -> None:
    made, known = gpu(), ((3, b"590.48.01\x00"), (20, MadeGpu.digest))
    twice = made.report((*known, known[0]))
    assert verified(made.evidence(twice), made.policy()) is Reason.MALFORMED
    assert verified(made.evidence(made.report(first=2)), made.policy()) is Reason.MALFORMED
    other = made.report((known[0], (20, bytes(48))))
    assert verified(made.evidence(other), made.policy()) is Reason.BAD_SIGNATURE
    assert verified(made.evidence(made.report(known[:1])), made.policy()) is Reason.BAD_SIGNATURE


def test_a_gpu_without_a_serial_number_has_no_identity() -> None:
    made = gpu()
    assert verified(made.evidence(certificates=made.certificates("")), made.policy()) is Reason.NO_DEVICE_IDENTITY


# --- TPM -----------------------------------------------------------------------------------------


def test_a_tpm_needs_a_certificate_that_names_it() -> None:
    made = tpm()
    usage, name = ak_extensions("ab" * 32)
    named_otherwise = (x509.SubjectAlternativeName([x509.DNSName("tpm")]), False)
    for extensions, reason in (
        ((usage,), Reason.NO_DEVICE_IDENTITY),
        ((usage, named_otherwise), Reason.NO_DEVICE_IDENTITY),
        ((name,), Reason.BAD_CHAIN),
        ((name, (x509.ExtendedKeyUsage([x509.OID_SERVER_AUTH]), False)), Reason.BAD_CHAIN),
    ):
        assert verified(made.evidence(certificate=made.certificate(extensions)), made.policy()) is reason


@pytest.mark.parametrize("text", ["", "x" * 105])
def test_an_identifier_of_another_length_is_none(text: str) -> None:
    made = tpm()
    certificate = made.certificate(ak_extensions(text))
    assert verified(made.evidence(certificate=certificate), made.policy()) is Reason.NO_DEVICE_IDENTITY


@pytest.mark.parametrize(
    ("selections", "reason"),
    [
        (((0x04, b"\x03"),), Reason.WEAK_HASH),
        (((0x0B, b"\x03"), (0x0B, b"\x04")), Reason.MALFORMED),
        (((0x0B, b"\x00"),), Reason.MALFORMED),
        ((), Reason.MALFORMED),
        (((0x12, b"\x03"),), Reason.UNSUPPORTED),
        (((0x0B, b"\x01"),), Reason.WRONG_MEASUREMENT),  # fewer PCRs than the policy's
        (((0x0B, b"\x03"), (0x0C, b"\x03")), Reason.WRONG_MEASUREMENT),
    ],
)
def test_a_quote_over_other_pcrs_is_refused(selections: tuple[tuple[int, bytes], ...], reason: Reason) -> None:
    assert verified(tpm().evidence(selections), tpm().policy()) is reason


def test_a_tpm_signature_has_one_form() -> None:
    made = tpm()
    assert verified(made.evidence(tail=b"\x00"), made.policy()) is Reason.MALFORMED
    assert verified(made.evidence(pad=1), made.policy()) is Reason.MALFORMED
    evidence = made.evidence()
    longer = replace(evidence, signature=evidence.signature + b"\x00")
    assert verified(longer, made.policy()) is Reason.MALFORMED
    rsa_scheme = replace(evidence, signature=b"\x00\x14" + evidence.signature[2:])
    assert verified(rsa_scheme, made.policy()) is Reason.UNSUPPORTED


# --- what evidence is bound to -------------------------------------------------------------------


def test_a_policy_names_the_executors() -> None:
    made = tpm()
    other = replace(made.policy(), executors=(bytes(32),))
    assert verified(made.evidence(), other) is Reason.WRONG_EXECUTOR


def test_evidence_is_as_recent_as_its_beacon() -> None:
    made = tpm()
    policy = made.policy(max_age=100)
    assert isinstance(verified(made.evidence(), policy, after=100), Credential)
    assert verified(made.evidence(), policy, after=101) is Reason.TOO_OLD
    assert verified(made.evidence(), policy, after=-1) is Reason.TOO_OLD


@pytest.mark.parametrize("name", ["chain_id", "address", "certificate", "executor", "beacon"])
def test_evidence_of_one_party_is_none_of_another(name: str) -> None:
    """A party shows evidence that another one made, or that it made itself for another purpose."""
    made = chip()
    value = getattr(BINDING, name)
    change: dict[str, Any] = {name: value + "x" if isinstance(value, str) else bytes([9]) * 32}
    other = replace(BINDING, **change)
    policy = made.policy(executors=(BINDING.executor, other.executor) if name == "executor" else (BINDING.executor,))
    assert verified(made.evidence(), policy, other) is Reason.WRONG_REPORT_DATA


def test_evidence_out_of_its_bounds_is_refused() -> None:
    made = chip()
    evidence, policy = made.evidence(), made.policy()
    assert verified(replace(evidence, report=b""), policy) is Reason.MALFORMED
    assert verified(replace(evidence, certificates=evidence.certificates * 3), policy) is Reason.MALFORMED
    assert verified(replace(evidence, technology="abacus"), policy) is Reason.MALFORMED
    assert verified(evidence, replace(policy, statuses=("Revoked",))) is Reason.MALFORMED
    empty = replace(policy.measurements[0], registers=())
    assert verified(evidence, replace(policy, measurements=(empty,))) is Reason.MALFORMED


def test_a_key_on_another_curve_is_refused() -> None:
    made = MadeSnp()
    made.key = ec.generate_private_key(ec.SECP256R1())
    assert verified(made.evidence(vcek=made.vcek()), made.policy()) is Reason.UNSUPPORTED
