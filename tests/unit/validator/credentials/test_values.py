"""Report data and ids of credentials are fixed bytes, which other programs compute, too."""

from dataclasses import fields
from hashlib import sha512

from tests.lint.references import ROOT
from tests.support.evidence import BINDING
from validator.credentials.values import Reason, credential_id, signed_field


def test_report_data_are_a_tagged_hash_of_what_is_bound() -> None:
    def part(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    tagged = part(b"assay/credential/report-data") + part(b"assay-test-1") + part(b"assay1testaddress")
    tagged += b"".join(part(bytes([byte]) * 32) for byte in (1, 2, 3))
    assert BINDING.report_data() == sha512(tagged).digest()
    assert [each.name for each in fields(BINDING)][-1] == "beacon_time"


def test_a_device_signs_as_much_as_its_technology_takes() -> None:
    data = BINDING.report_data()
    assert [len(signed_field(name, data)) for name in ("tdx", "sgx", "sev-snp", "nvidia", "tpm")] == [
        64,
        64,
        64,
        32,
        32,
    ]
    assert data.startswith(signed_field("tpm", data))


def test_a_processor_has_one_credential_for_all_technologies_of_its_vendor() -> None:
    assert credential_id("tdx", b"one") == credential_id("sgx", b"one")
    assert len({credential_id(name, b"one") for name in ("tdx", "sev-snp", "nvidia", "tpm")}) == 4
    assert credential_id("tdx", b"one") != credential_id("tdx", b"two")
    assert credential_id("tdx", b"one").hex() == "5918d696466e96ee2d8832f8e20d7acda53c78cb09f21a96097fd201d4d16a95"


def test_every_reason_has_words_of_its_own_and_a_row_on_its_page() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason)
    page = (ROOT / "docs" / "credentials.md").read_text()
    assert [reason.word for reason in Reason if f"| `{reason.word}` | {reason.value} |" not in page] == []
