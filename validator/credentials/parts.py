"""Parts of evidence and policies as people have them: certificates in DER or PEM, and the template of a policy."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from domain.attest.evidence import Least, Measurement, Policy, Register, Technology
from validator.credentials.certificates import LIBRARY_ERRORS, quietly
from validator.credentials.reading import malformed

_ZERO_HASH: Final = bytes(32)
_EXAMPLES: Final[Mapping[str, tuple[dict[str, int], tuple[Least, ...]]]] = MappingProxyType(
    {
        Technology.TDX: (
            {"mr_td": 48, "rt_mr0": 48, "rt_mr1": 48, "rt_mr2": 48, "rt_mr3": 48},
            (Least("evaluation", "17"),),
        ),
        Technology.SGX: ({"mr_enclave": 32}, (Least("evaluation", "17"), Least("isv_svn", "1"))),
        Technology.SEV_SNP: ({"measurement": 48}, (Least("snp", "8"), Least("microcode", "115"))),
        Technology.NVIDIA: ({"2": 48}, (Least("driver", "590.48.01"),)),
        Technology.TPM: ({"sha256:0,1,2,3,7": 32}, ()),
    }
)


def read_certificates(data: bytes) -> tuple[bytes, ...]:
    """Return the certificates (DER) of a file in DER or PEM; EvidenceRefused if it has none."""
    try:
        with quietly():
            if b"-----BEGIN" not in data:
                return (x509.load_der_x509_certificate(data).public_bytes(Encoding.DER),)
            return tuple(each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(data))
    except LIBRARY_ERRORS as error:
        raise malformed(f"a certificate cannot be read ({error})") from None


def read_revocation_list(data: bytes) -> bytes:
    """Return a revocation list (DER) of a file in DER or PEM; EvidenceRefused if it is none."""
    try:
        load = x509.load_pem_x509_crl if b"-----BEGIN" in data else x509.load_der_x509_crl
        return load(data).public_bytes(Encoding.DER)
    except LIBRARY_ERRORS as error:
        raise malformed(f"a revocation list cannot be read ({error})") from None


def template(technology: str) -> Policy:
    """Return a policy with the fields that a technology needs, whose hashes are zeros: it accepts no evidence."""
    registers, least = _EXAMPLES[technology]
    measurement = Measurement(tuple(Register(name, bytes(size)) for name, size in registers.items()))
    return Policy(
        technology=technology,
        roots=(_ZERO_HASH,),
        measurements=(measurement,),
        executors=(_ZERO_HASH,),
        max_age=86_400,
        least_tcb=least,
    )
