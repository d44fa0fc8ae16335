"""Evidence that vendors' machines made is accepted at its own time, and refused once a bit of it is another one."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.attest.evidence import Evidence, Least, Policy
from tests.support.evidence import (
    BINDING,
    FOLDER,
    JUNE_2025,
    MARCH_2026,
    Authority,
    blackwell,
    debugged_milan,
    milan,
    outdated_tdx,
    sgx,
    swtpm,
    tdx,
    windows_quote,
)
from validator.credentials.certificates import split_pem
from validator.credentials.values import EvidenceRefused, Reason, credential_id
from validator.credentials.verify import read_statement, verify_bound, verify_evidence

NOVEMBER_2026 = 1_795_821_156


@cache
def authority() -> Authority:
    return Authority("test")


SAMPLES: dict[str, Callable[[], tuple[Evidence, Policy]]] = {
    "tdx": tdx,
    "sgx": sgx,
    "sev-snp": milan,
    "nvidia": blackwell,
    "swtpm-ecdsa": cache(lambda: swtpm("ecdsa", authority())),
    "swtpm-rsassa": cache(lambda: swtpm("rsassa", authority())),
}
DEVICES = {
    "tdx": "811dca2a26b952e85bb6448b097ba4fd",
    "sgx": "d04ec06d4e6d92dc90d0ad3cf5ee2ddf",
    "sev-snp": "d49554ec717f4e5b0fe6b143bcf0405bd7ae304727edf46603f2a76aef6a3abc"
    "15d7af38db757039029f0efacfd08e244324884738c72b082e2f87a44d541eb6",
    "nvidia": b"41EDB6E9E51500C3BD".hex(),
}
sample = pytest.mark.parametrize("name", SAMPLES)


def refused(evidence: Evidence, policy: Policy, expected: bytes | None = None, time: int = JUNE_2025) -> Reason:
    """Return why evidence is refused."""
    with pytest.raises(EvidenceRefused) as caught:
        verify_evidence(evidence, policy, field(evidence, policy, time) if expected is None else expected, time)
    assert str(caught.value).startswith(caught.value.why.value)
    return caught.value.why


def field(evidence: Evidence, policy: Policy, time: int = JUNE_2025) -> bytes:
    return read_statement(evidence, policy, time).field


def test_every_sample_is_the_file_that_its_page_names() -> None:
    page = (FOLDER / "README.md").read_text()
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.name != "README.md"]
    assert len(files) == 20
    for path in files:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{path.relative_to(FOLDER)}` |"))
        assert sha256(path.read_bytes()).hexdigest() in row


@sample
def test_a_sample_is_accepted_at_its_own_time(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    credential = verify_evidence(evidence, policy, field(evidence, policy), JUNE_2025)
    if name in DEVICES:
        assert credential.device.hex() == DEVICES[name]
    assert credential.id == credential_id(evidence.technology, credential.device)
    assert credential.valid_until > JUNE_2025
    for register in policy.measurements[0].registers:
        assert credential.measurement[register.name] == register.value


@pytest.mark.parametrize("name", ["swtpm-ecdsa", "swtpm-rsassa"])
def test_a_software_tpm_binds_a_party_from_end_to_end(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    credential = verify_bound(evidence, policy, BINDING, JUNE_2025 + 60)
    assert credential.report_data == BINDING.report_data()[:32]
    with pytest.raises(EvidenceRefused) as caught:
        verify_bound(evidence, policy, replace(BINDING, address="assay1another"), JUNE_2025 + 60)
    assert caught.value.why is Reason.WRONG_REPORT_DATA


@sample
def test_other_report_data_are_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    own = field(evidence, policy)
    for wrong in (bytes([own[0] ^ 1]) + own[1:], own[:-1], own + b"\x00", b""):
        assert refused(evidence, policy, wrong) is Reason.WRONG_REPORT_DATA


@pytest.mark.parametrize("name", ["tdx", "sgx", "swtpm-ecdsa"])
def test_evidence_is_refused_at_the_clock_of_today(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    assert refused(evidence, policy, bytes(64), NOVEMBER_2026) is Reason.EXPIRED


@sample
def test_evidence_is_refused_before_it_was_made(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    assert refused(evidence, policy, bytes(64), 1_000_000_000) is Reason.EXPIRED


def test_a_chip_is_refused_after_its_certificate_ended() -> None:
    evidence, policy = milan()
    assert refused(evidence, policy, bytes(64), 1_901_474_624) is Reason.EXPIRED


@sample
def test_a_root_that_the_policy_does_not_name_is_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    assert refused(evidence, replace(policy, roots=(bytes(32),)), bytes(64)) is Reason.UNKNOWN_ROOT


@sample
def test_a_certificate_that_the_policy_revokes_is_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    begin = evidence.report.find(b"-----BEGIN")
    chain = evidence.certificates or split_pem(evidence.report[begin:].rstrip(b"\x00"))
    revoked = replace(policy, revoked=(sha256(chain[0]).digest(),))
    assert refused(evidence, revoked, bytes(64)) is Reason.REVOKED


@sample
def test_another_measurement_is_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    (measurement,) = policy.measurements
    for place, register in enumerate(measurement.registers):
        other = replace(register, value=bytes([register.value[0] ^ 1]) + register.value[1:])
        registers = (*measurement.registers[:place], other, *measurement.registers[place + 1 :])
        wrong = replace(policy, measurements=(replace(measurement, registers=registers),))
        assert refused(evidence, wrong) is Reason.WRONG_MEASUREMENT


def test_a_measurement_of_tdx_names_all_registers() -> None:
    evidence, policy = tdx()
    (measurement,) = policy.measurements
    part = replace(measurement, registers=measurement.registers[:-1])
    assert refused(evidence, replace(policy, measurements=(part,))) is Reason.WRONG_MEASUREMENT


@sample
def test_evidence_of_another_technology_is_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    other = "sgx" if evidence.technology == "tdx" else "tdx"
    assert refused(replace(evidence, technology=other), policy, bytes(64)) is Reason.WRONG_TECHNOLOGY
    both = replace(evidence, technology=other), replace(policy, technology=other)
    assert refused(*both, bytes(64)) in (Reason.WRONG_TECHNOLOGY, Reason.UNSUPPORTED, Reason.MALFORMED)


@sample
def test_bytes_that_are_missing_or_left_over_are_refused(name: str) -> None:
    evidence, policy = SAMPLES[name]()
    report = evidence.report
    for wrong in (report[:-1], report[: len(report) // 2], report[:3], report + b"\x00", report * 2):
        assert refused(replace(evidence, report=wrong[:16_384]), policy, bytes(64)) is not Reason.WRONG_REPORT_DATA
    if evidence.certificates:
        chain = evidence.certificates
        for wrong_chain in (chain[:-1], chain[1:], (*chain, chain[-1]), (chain[0] + b"\x00", *chain[1:]), ()):
            assert refused(replace(evidence, certificates=wrong_chain), policy, bytes(64)) in (
                Reason.MALFORMED,
                Reason.UNKNOWN_ROOT,
            )


def flips(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of evidence: name of the field, index in a list or -1, length."""
    yield "report", -1, len(evidence.report)
    if evidence.signature:
        yield "signature", -1, len(evidence.signature)
    if evidence.collateral:
        yield "collateral", -1, len(evidence.collateral)
    for index, data in enumerate(evidence.certificates):
        yield "certificates", index, len(data)


def flipped(evidence: Evidence, part: str, index: int, bit: int) -> Evidence:
    data = bytearray(getattr(evidence, part) if index < 0 else getattr(evidence, part)[index])
    data[bit // 8] ^= 1 << bit % 8
    if index < 0:
        changes: dict[str, Any] = {part: bytes(data)}
        return replace(evidence, **changes)
    every = list(getattr(evidence, part))
    every[index] = bytes(data)
    changes = {part: tuple(every)}
    return replace(evidence, **changes)


@sample
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_bit_that_is_another_one_is_refused_in_every_part(name: str, data: st.DataObject) -> None:
    evidence, policy = SAMPLES[name]()
    expected = field(evidence, policy)
    part, index, size = data.draw(st.sampled_from([*flips(evidence)]))
    bit = data.draw(st.integers(0, 8 * size - 1))
    refused(flipped(evidence, part, index, bit), policy, expected)


@pytest.mark.parametrize("name", ["sev-snp", "tdx", "swtpm-ecdsa"])
def test_a_bit_of_every_region_of_the_report_is_refused(name: str) -> None:
    """Every 24 bytes one bit, so that no field is left out, whether it is signed or not."""
    evidence, policy = SAMPLES[name]()
    expected = field(evidence, policy)
    for at in range(0, len(evidence.report), 24):
        refused(flipped(evidence, "report", -1, 8 * at + at % 8), policy, expected)


def test_the_signature_of_a_certificate_has_no_unused_bits() -> None:
    """Their number is not signed, and the library accepts others if the bits are zero, as two bits are here."""
    evidence, policy = milan()
    at = len(evidence.certificates[1]) - 513
    changed = flipped(evidence, "certificates", 1, 8 * at + 1)
    assert refused(changed, policy, bytes(64)) is Reason.MALFORMED


def test_a_report_of_a_guest_that_may_be_debugged_is_refused() -> None:
    evidence, policy = debugged_milan()
    assert read_statement(evidence, policy, JUNE_2025).opening == "debugging is allowed"
    assert refused(evidence, policy) is Reason.OPEN_TO_HOST


def test_the_debug_bits_of_intel_are_refused() -> None:
    evidence, policy = tdx()
    assert refused(flipped(evidence, "report", -1, 8 * (48 + 120)), policy, bytes(64)) is Reason.OPEN_TO_HOST
    evidence, policy = sgx()
    assert refused(flipped(evidence, "report", -1, 8 * (48 + 48) + 1), policy, bytes(64)) is Reason.OPEN_TO_HOST


def test_an_outdated_platform_is_refused() -> None:
    assert refused(*outdated_tdx(), bytes(64), MARCH_2026) is Reason.OUTDATED_TCB
    evidence, policy = sgx()
    assert refused(evidence, replace(policy, statuses=("UpToDate",)), bytes(64)) is Reason.OUTDATED_TCB


@pytest.mark.parametrize(
    ("name", "part", "version"),
    [
        ("tdx", "evaluation", "18"),
        ("sgx", "isv_svn", "1"),
        ("sev-snp", "microcode", "116"),
        ("sev-snp", "unheard", "0"),
        ("nvidia", "driver", "590.48.02"),
        ("nvidia", "driver", "1000"),
        ("nvidia", "vbios", "97.00.E4.00.12"),
    ],
)
def test_a_version_below_the_least_is_refused(name: str, part: str, version: str) -> None:
    evidence, policy = SAMPLES[name]()
    assert refused(evidence, replace(policy, least_tcb=(Least(part, version),))) is Reason.OUTDATED_TCB


def test_a_vendors_list_is_needed_unless_the_policy_says_otherwise() -> None:
    for evidence, policy in (milan(), blackwell()):
        needs = replace(policy, needs_revocation_lists=True)
        assert refused(evidence, needs, bytes(64)) is Reason.NO_REVOCATION_LIST


def test_collateral_with_a_key_twice_or_another_key_is_refused() -> None:
    evidence, policy = tdx()
    begin = evidence.collateral.rstrip()[:-1]
    for more in (b',"pck_crl":"00"}', b',"more":"x"}', b""):
        assert refused(replace(evidence, collateral=begin + more), policy, bytes(64)) is Reason.MALFORMED
    assert refused(replace(evidence, collateral=b""), policy, bytes(64)) is Reason.MALFORMED


def test_a_chain_of_the_collateral_belongs_to_the_quote() -> None:
    """The library verifies quotes whose collateral has any text there."""
    evidence, policy = tdx()
    value = json.loads(evidence.collateral)
    stranger = x509.load_der_x509_certificate(authority().der).public_bytes(Encoding.PEM).decode()
    for name in ("pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain"):
        for chain in (value[name] + stranger, stranger + value[name], stranger * 2):
            changed = json.dumps(value | {name: chain}).encode()
            assert refused(replace(evidence, collateral=changed), policy, bytes(64)) is Reason.MALFORMED


def test_a_quote_of_windows_verifies_and_is_refused_for_its_hash_and_its_missing_nonce() -> None:
    evidence, policy = windows_quote(authority())
    assert refused(evidence, policy, b"") is Reason.WEAK_HASH
    weak = replace(policy, hashes=("sha1", "sha256"))
    # Its signature by a real TPM verifies, but it is bound to nothing.
    assert read_statement(evidence, weak, JUNE_2025).field == b""
    assert refused(evidence, weak, b"") is Reason.WRONG_REPORT_DATA
    changed = flipped(evidence, "report", -1, 8 * 62)
    assert refused(changed, weak, b"") is Reason.BAD_SIGNATURE
