"""`assay credential` verifies evidence offline, and says what it proves, for whom, and what it does not prove."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from domain.attest.evidence import Evidence
from tests.support.evidence import BINDING, FOLDER, JUNE_2025, Authority, milan, swtpm, tdx
from tests.unit.assay.support import Ran, assay
from validator.credentials.files import read_file, write_file


def verify(home: Path, *words: object) -> Ran:
    return assay("credential", "verify", home / "evidence.json", "--policy", home / "policy.json", *words, home=home)


def test_evidence_of_a_chip_is_packed_and_verified(tmp_path: Path) -> None:
    evidence, policy = milan()
    (tmp_path / "report").write_bytes(evidence.report)
    write_file(policy, tmp_path / "policy.json")
    parts: tuple[object, ...] = ("--report", tmp_path / "report", "--certificate", FOLDER / "vcek_milan.der")
    parts += ("--certificate", FOLDER / "cert_chain_milan.pem", "--file", tmp_path / "evidence.json")
    assert assay("credential", "pack", "--technology", "sev-snp", *parts, home=tmp_path).code == 0
    assert read_file(Evidence, tmp_path / "evidence.json") == evidence
    at = ("--at", "2025-06-21T00:00:00Z")
    ran = verify(tmp_path, *at, "--report-data", evidence.report[80:144].hex())
    assert ran.code == 0
    for text in (evidence.report[416:480].hex(), evidence.report[144:192].hex(), "115", "2030-04-03"):
        assert text in ran.out
    assert "never run this on hardware" in ran.err
    assert "an owner with physical access can forge" in ran.err
    # Without what must be signed, a person sees it but is told that it was not compared.
    ran = verify(tmp_path, *at)
    assert (ran.code, "were not compared" in ran.err) == (4, True)
    value = verify(tmp_path, *at, "--output", "json").json
    assert (value["compared"], value["tcb"]["snp"], len(value["labels"])) == (False, "8", 2)


def test_a_software_tpm_is_bound_to_a_party(tmp_path: Path) -> None:
    evidence, policy = swtpm("ecdsa", Authority("test"))
    write_file(evidence, tmp_path / "evidence.json")
    write_file(policy, tmp_path / "policy.json")
    write_file(BINDING, tmp_path / "binding.json")
    words = ("--binding", tmp_path / "binding.json", "--at")
    ran = verify(tmp_path, *words, JUNE_2025)
    assert (ran.code, "assay1testaddress on assay-test-1" in ran.out) == (0, True)
    ran = verify(tmp_path, *words, JUNE_2025 + 86_401, "--output", "json")
    assert (ran.code, json.loads(ran.err)["error"]["kind"]) == (1, "too_old")
    write_file(replace(BINDING, address="assay1other"), tmp_path / "binding.json")
    assert "the device signed other report data" in verify(tmp_path, *words, JUNE_2025).err
    assert verify(tmp_path, *words, JUNE_2025, "--report-data", "00").code == 2


def test_expired_evidence_is_refused_at_the_clock_of_today(tmp_path: Path) -> None:
    evidence, policy = tdx()
    write_file(evidence, tmp_path / "evidence.json")
    write_file(policy, tmp_path / "policy.json")
    ran = verify(tmp_path)
    assert (ran.code, "not valid at this time" in ran.err) == (1, True)


@pytest.mark.parametrize("technology", ["tdx", "sgx", "sev-snp", "nvidia", "tpm"])
def test_the_policy_to_start_from_accepts_nothing(technology: str, tmp_path: Path) -> None:
    parts = ("--technology", technology, "--file", tmp_path / "policy.json")
    assert assay("credential", "policy", *parts, home=tmp_path).code == 0
    write_file(replace(milan()[0], technology=technology), tmp_path / "evidence.json")
    assert verify(tmp_path, "--at", JUNE_2025).code == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--at", "yesterday"), "is no time"),
        (("--at", "2025-06-21T00:00:00"), "has no zone"),
        (("--report-data", "xyz"), "is not in hex digits"),
    ],
)
def test_wrong_options_are_refused(words: tuple[str, str], reason: str, tmp_path: Path) -> None:
    write_file(milan()[0], tmp_path / "evidence.json")
    write_file(milan()[1], tmp_path / "policy.json")
    ran = verify(tmp_path, *words)
    assert (ran.code, reason in ran.err) == (2, True)
