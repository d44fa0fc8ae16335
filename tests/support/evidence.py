"""Vendors' sample evidence, with the policies that accept it, and evidence that tests sign with keys of their own.

tests/fixtures/evidence/README.md says where each sample comes from.
"""

import base64
import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key
from cryptography.x509.oid import NameOID

from domain.attest.evidence import Evidence, Least, Measurement, Policy, Register, Technology
from validator.credentials.values import Binding, credential_id

FOLDER = Path(__file__).parent.parent / "fixtures" / "evidence"
JUNE_2025 = 1_750_500_000
MARCH_2026 = 1_772_000_000
DAY = 86_400
BINDING = Binding("assay-test-1", "assay1testaddress", bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32, JUNE_2025)
"""The binding of the quotes that the software TPM made."""


def read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def pem(data: bytes) -> tuple[bytes, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(data))


def measured(registers: dict[str, bytes]) -> Measurement:
    return Measurement(tuple(Register(name, value) for name, value in registers.items()))


def policy(technology: str, root: bytes, measurement: dict[str, bytes], **more: Any) -> Policy:
    wanted = {"measurements": (measured(measurement),), "executors": (BINDING.executor,), "max_age": DAY, **more}
    return Policy(technology, (sha256(root).digest(),), **wanted)


@cache
def intel_root() -> bytes:
    chain = json.loads(read("tdx_quote_collateral.json"))["tcb_info_issuer_chain"]
    return pem(chain.encode())[-1]


@cache
def tdx() -> tuple[Evidence, Policy]:
    # The file has 70 zero bytes behind the quote, which evidence must not have.
    quote = read("tdx_quote")[:-70]
    evidence = Evidence(Technology.TDX, quote, collateral=read("tdx_quote_collateral.json"))
    registers = {"mr_td": quote[184:232]} | {f"rt_mr{n}": quote[376 + 48 * n : 424 + 48 * n] for n in range(4)}
    return evidence, policy(Technology.TDX, intel_root(), registers)


@cache
def outdated_tdx() -> tuple[Evidence, Policy]:
    evidence = Evidence(
        Technology.TDX, read("tdx_quote_outdated"), collateral=read("tdx_quote_outdated_collateral.json")
    )
    return evidence, tdx()[1]


@cache
def sgx() -> tuple[Evidence, Policy]:
    quote = read("sgx_quote")
    evidence = Evidence(Technology.SGX, quote, collateral=read("sgx_quote_collateral.json"))
    status = ("UpToDate", "ConfigurationAndSWHardeningNeeded")
    return evidence, policy(Technology.SGX, intel_root(), {"mr_enclave": quote[112:144]}, statuses=status)


@cache
def milan() -> tuple[Evidence, Policy]:
    report = bytes.fromhex(read("report_milan.hex").decode())
    ask, ark = pem(read("cert_chain_milan.pem"))
    evidence = Evidence(Technology.SEV_SNP, report, certificates=(read("vcek_milan.der"), ask, ark))
    # The repository has no revocation list of AMD.
    more = {"needs_revocation_lists": False, "least_tcb": (Least("microcode", "115"), Least("snp", "8"))}
    return evidence, policy(Technology.SEV_SNP, ark, {"measurement": report[144:192]}, **more)


@cache
def debugged_milan() -> tuple[Evidence, Policy]:
    report = read("attestation.bin")
    evidence = replace(milan()[0], report=report, certificates=(read("vcek.testcer"), *milan()[0].certificates[1:]))
    more: dict[str, Any] = {"measurements": (measured({"measurement": report[144:192]}),), "least_tcb": ()}
    return evidence, replace(milan()[1], **more)


@cache
def blackwell() -> tuple[Evidence, Policy]:
    sample = json.loads(read("blackwell-evidence.json"))[0]
    chain = pem(base64.b64decode(sample["certificate"]))
    report = base64.b64decode(sample["evidence"])
    evidence = Evidence(Technology.NVIDIA, report, certificates=chain)
    more = {
        "needs_revocation_lists": False,
        "least_tcb": (Least("driver", "590.48.01"), Least("vbios", "97.00.E4.00.11")),
    }
    return evidence, policy(Technology.NVIDIA, chain[-1], {"2": report[107:155]}, **more)


def swtpm(scheme: str, authority: "Authority") -> tuple[Evidence, Policy]:
    """Return a quote that the software TPM swtpm made; a test's own authority certifies its key."""
    key = load_pem_public_key(read(f"swtpm/{scheme}.pem"))
    identity = sha256(read("swtpm/ek.pem")).hexdigest()
    evidence = Evidence(
        Technology.TPM,
        read(f"swtpm/{scheme}.quote"),
        signature=read(f"swtpm/{scheme}.sig"),
        certificates=(authority.issue("AK", key, ak_extensions(identity)), authority.der),
    )
    return evidence, policy(Technology.TPM, authority.der, {"sha256:0,1,2,3,7": read(f"swtpm/{scheme}.quote")[-32:]})


def windows_quote(authority: "Authority") -> tuple[Evidence, Policy]:
    """Return the quote of a Windows machine in Google's cloud, whose key a test's own authority certifies."""
    sample = json.loads(read("windows_gcp_shielded_vm.json"))
    public = base64.b64decode(sample["AK"]["Public"])
    # TPMT_PUBLIC ends with the modulus; the exponent is the default.
    key = rsa.RSAPublicNumbers(65537, int.from_bytes(public[-256:], "big")).public_key()
    quote = base64.b64decode(sample["Quote"]["Quote"])
    evidence = Evidence(
        Technology.TPM,
        quote,
        signature=base64.b64decode(sample["Quote"]["Signature"]),
        certificates=(authority.issue("AK", key, ak_extensions("00" * 32)), authority.der),
    )
    registers = {"sha1:" + ",".join(map(str, range(24))): quote[-20:]}
    return evidence, policy(Technology.TPM, authority.der, registers)


# --- keys of tests -------------------------------------------------------------------------------

Extensions = tuple[tuple[x509.ExtensionType, bool], ...]
_AK_USAGE = x509.ObjectIdentifier("2.23.133.8.3")
_LIST_PLACE = x509.DistributionPoint([x509.UniformResourceIdentifier("http://example.org/list")], None, None, None)


def ak_extensions(identity: str) -> Extensions:
    """Return what a certificate of an attestation key says: its use, and the TPM that has it."""
    text = identity.encode()
    tail = bytes.fromhex("06056781050c01")
    value = b"\x30" + bytes([len(text) + 2 + len(tail), 0x0C, len(text)]) + text + tail
    name = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.5.5.7.8.3"), value)
    return (x509.ExtendedKeyUsage([_AK_USAGE]), False), (x509.SubjectAlternativeName([name]), False)


class Authority:
    """A certificate authority of a test: a root, or one below another."""

    def __init__(
        self,
        name: str,
        above: "Authority | None" = None,
        *extensions: tuple[x509.ExtensionType, bool],
        days: tuple[int, int] = (0, 365),
    ):
        self.days = days
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP384R1())
        self.above = above or self
        usual = ((x509.BasicConstraints(True, None), True),)
        self.der = self.above.issue(name, self.key.public_key(), extensions or usual)

    def issue(
        self,
        name: str,
        key: Any,
        extensions: Extensions = (),
        *,
        days: tuple[int, int] | None = None,
        serial: int | None = None,
        number: str = "",
    ) -> bytes:
        """Return a certificate (DER) for ``key``, valid for ``days`` around JUNE_2025, or as long as the authority."""
        first, last = days or self.days
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        subject += [x509.NameAttribute(NameOID.SERIAL_NUMBER, number)] if number else []
        begin = datetime.fromtimestamp(JUNE_2025, UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self.subject)
            .public_key(key)
            .serial_number(serial or x509.random_serial_number())
            .not_valid_before(begin + timedelta(first))
            .not_valid_after(begin + timedelta(last))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, SHA384()).public_bytes(Encoding.DER)

    def revokes(self, *certificates: bytes, days: tuple[int, int] = (0, 30)) -> bytes:
        """Return a revocation list (DER) with these certificates."""
        begin = datetime.fromtimestamp(JUNE_2025, UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.subject)
            .last_update(begin + timedelta(days[0]))
            .next_update(begin + timedelta(days[1]))
        )
        for data in certificates:
            serial = x509.load_der_x509_certificate(data).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(begin).build()
            builder = builder.add_revoked_certificate(revoked)
        return builder.sign(self.key, SHA384()).public_bytes(Encoding.DER)


def signed(
    key: ec.EllipticCurvePrivateKey, data: bytes, order: Literal["little", "big"], size: int = 48
) -> list[bytes]:
    """Return r and s of a signature of P-384 with SHA-384."""
    return [part.to_bytes(size, order) for part in decode_dss_signature(key.sign(data, ec.ECDSA(SHA384())))]


class MadeSnp:
    """A chip of a test with the chain and report of AMD's format: the tests can sign reports that no chip would."""

    chip = bytes(range(1, 65))
    tcb = bytes([3, 0, 0, 0, 0, 0, 8, 115])

    def __init__(self) -> None:
        listed = (x509.CRLDistributionPoints([_LIST_PLACE]), False)
        self.ark = Authority("ARK", None, (x509.BasicConstraints(True, 1), True))
        self.ask = Authority("ASK", self.ark, (x509.BasicConstraints(True, 0), True), listed)
        self.key = ec.generate_private_key(ec.SECP384R1())

    def vcek(self, changes: dict[str, bytes | None] | None = None, *extra: tuple[x509.ExtensionType, bool]) -> bytes:
        """Return the certificate of the chip, with changed or left out fields of AMD."""
        values: dict[str, bytes | None] = {
            "2": b"\x16\x08Milan-B0",
            "3.1": b"\x02\x01\x03",
            "3.2": b"\x02\x01\x00",
            "3.3": b"\x02\x01\x08",
        }
        values |= {"3.8": b"\x02\x01\x73", "4": self.chip} | (changes or {})
        fields = [
            (x509.UnrecognizedExtension(x509.ObjectIdentifier(f"1.3.6.1.4.1.3704.1.{oid}"), value), False)
            for oid, value in values.items()
            if value is not None
        ]
        return self.ask.issue("SEV-VCEK", self.key.public_key(), (*fields, *extra))

    def report(self, changes: dict[int, bytes] | None = None) -> bytes:
        """Return a report with other bytes at some offsets, signed after the change."""
        values = {0: b"\x02", 10: b"\x03", 52: b"\x01", 80: BINDING.report_data(), 144: bytes([7]) * 48}
        values |= {384: self.tcb, 416: self.chip} | (changes or {})
        body = bytearray(672)
        for at, value in values.items():
            body[at : at + len(value)] = value
        parts = signed(self.key, bytes(body), "little", 72)
        return bytes(body) + b"".join(parts) + bytes(368)

    def evidence(self, changes: dict[int, bytes] | None = None, vcek: bytes | None = None) -> Evidence:
        """Return evidence with a changed report, or another certificate of the chip."""
        chain = (vcek or self.vcek(), self.ask.der, self.ark.der)
        lists = (self.ark.revokes(),)
        return Evidence(Technology.SEV_SNP, self.report(changes), certificates=chain, revocation_lists=lists)

    def policy(self, **more: Any) -> Policy:
        """Return a policy that trusts the test's root."""
        least = (Least("snp", "8"), Least("microcode", "115"))
        return policy(
            Technology.SEV_SNP, self.ark.der, {"measurement": bytes([7]) * 48}, **{"least_tcb": least, **more}
        )


class MadeGpu:
    """A GPU of a test with the chain and report of NVIDIA's format."""

    digest = bytes([5]) * 48

    def __init__(self) -> None:
        root = Authority("root")
        ica = Authority("ICA", Authority("model", root))
        self.chain = (ica.der, ica.above.der, root.der)
        self.device = Authority("device", ica)
        self.key, self.ica = ec.generate_private_key(ec.SECP384R1()), ica

    def certificates(self, number: str = "41ED", firmware: bytes = digest) -> tuple[bytes, ...]:
        """Return the chain; the device has a serial number, and its key certifies the firmware's."""
        authority = ((x509.BasicConstraints(True, None), True),)
        device = self.ica.issue("device", self.device.key.public_key(), authority, number=number)
        named = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.23.133.5.4.1.1"), firmware)
        self.device.subject = x509.load_der_x509_certificate(device).subject
        leaf = self.device.issue("firmware", self.key.public_key(), ((named, False),))
        return (leaf, device, *self.chain)

    def report(self, fields: tuple[tuple[int, bytes], ...] | None = None, first: int = 1) -> bytes:
        """Return a signed report with two measurements and these opaque fields."""
        known = ((3, b"590.48.01\x00"), (20, self.digest))
        opaque = b"".join(number(kind, 2) + number(len(value), 2) + value for kind, value in fields or known)
        record = b"".join(
            bytes([first + index, 1]) + number(51, 2) + b"\x01" + number(48, 2) + bytes([index]) * 48
            for index in range(2)
        )
        response = b"\x11\x60\x00\x00\x02" + number(len(record), 3) + record + bytes(32) + number(len(opaque), 2)
        body = b"\x11\xe0\x01\xff" + BINDING.report_data()[:32] + b"\x00" + response + opaque
        return body + b"".join(signed(self.key, body, "big"))

    def evidence(self, report: bytes | None = None, certificates: tuple[bytes, ...] | None = None) -> Evidence:
        """Return evidence with another report or chain."""
        chain = certificates or self.certificates()
        return Evidence(Technology.NVIDIA, report or self.report(), certificates=chain)

    def policy(self) -> Policy:
        """Return a policy that trusts the test's root."""
        return policy(Technology.NVIDIA, self.chain[-1], {"2": bytes([1]) * 48})


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


class SoftTpm:
    """An attestation key in this process that signs quotes in a TPM's format: software, and a test's own key."""

    def __init__(self, authority: Authority) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.authority = authority
        self.identity = "ab" * 32

    @property
    def credential(self) -> bytes:
        """The credential id of the device."""
        return credential_id(Technology.TPM, self.identity.encode())

    def certificate(self, extensions: Extensions | None = None) -> bytes:
        """Return the certificate of the key."""
        usual = ak_extensions(self.identity)
        return self.authority.issue("AK", self.key.public_key(), usual if extensions is None else extensions)

    def evidence(
        self,
        selections: tuple[tuple[int, bytes], ...] = ((0x0B, b"\x03"),),
        *,
        tail: bytes = b"",
        pad: int = 0,
        certificate: bytes | None = None,
        report_data: bytes = b"",
    ) -> Evidence:
        """Return a quote over banks of PCRs (hash and bits), with bytes behind it or inside the signature's parts."""
        banks = b"".join(kind.to_bytes(2, "big") + bytes([len(bits)]) + bits for kind, bits in selections)
        quote = (
            bytes.fromhex("ff5443478018")
            + b"\x00\x02\x12\x34\x00\x20"
            + (report_data or BINDING.report_data())[:32]
            + bytes(16)
            + b"\x01"
            + bytes.fromhex("0001000200030004")
            + len(selections).to_bytes(4, "big")
            + banks
            + b"\x00\x20"
            + bytes([9]) * 32
            + tail
        )
        parts = decode_dss_signature(self.key.sign(quote, ec.ECDSA(SHA256())))
        signature = b"\x00\x18\x00\x0b"
        for part in parts:
            signature += (32 + pad).to_bytes(2, "big") + part.to_bytes(32 + pad, "big")
        chain = (certificate or self.certificate(), self.authority.der)
        return Evidence(Technology.TPM, quote, signature=signature, certificates=chain)

    def policy(self, **more: Any) -> Policy:
        """Return a policy that trusts the test's authority."""
        return policy(Technology.TPM, self.authority.der, {"sha256:0,1": bytes([9]) * 32}, **more)
