"""Intel TDX and SGX: quotes (DCAP), verified by ``dcap-qvl`` with the vendor's collateral at a given time.

The library skips bytes behind a quote's end. So this file reads the frame of a quote itself: every byte is signed, is a
size that must fit, or has one possible value. This is the only file that imports the library.
"""

import json
import re
from typing import Any, Final

from domain.attest.evidence import Evidence, Policy, Technology
from host.foreign_json import read_json
from validator.credentials.certificates import check_root, check_voted, split_pem
from validator.credentials.reading import ByteReader, malformed
from validator.credentials.values import EvidenceRefused, Reason, Statement

_TEE: Final = {Technology.SGX: 0x00, Technology.TDX: 0x81}
_BODIES: Final = {Technology.SGX: {1: 384}, Technology.TDX: {2: 584, 3: 648}}
_ECDSA_P256: Final = 2
_QE_REPORT, _PCK_CHAIN = 6, 5
_TEXTS: Final = (
    "pck_crl_issuer_chain",
    "tcb_info_issuer_chain",
    "tcb_info",
    "qe_identity_issuer_chain",
    "qe_identity",
)
_DIGITS: Final = ("root_ca_crl", "pck_crl", "tcb_info_signature", "qe_identity_signature")
_HEX: Final = re.compile("(?:[0-9a-f]{2})+")
# Words in the library's messages, in the order in which they are looked for.
_WORDS: Final = (
    ("xpired", Reason.EXPIRED),
    ("NotValidYet", Reason.EXPIRED),
    ("in the future", Reason.EXPIRED),
    ("Revoked", Reason.REVOKED),
    ("TCB level", Reason.OUTDATED_TCB),
)


def read_intel(evidence: Evidence, policy: Policy, time: int) -> Statement:
    """Verify a quote of TDX or SGX with its collateral at a time, and return what it says."""
    technology = evidence.technology
    body, chain = _read_quote(evidence.report, technology)
    certificates = split_pem(chain)
    if len(certificates) != 3:
        raise malformed(f"the chain has {len(certificates)} certificates, not 3")
    check_root(certificates[-1], policy)
    check_voted(certificates, policy)
    # Only Intel can sign a quote, so tests could not reach this line if it came after the signatures.
    opening = _opening(body, technology)
    if opening:
        raise EvidenceRefused(Reason.OPEN_TO_HOST, opening)
    claims = _verified(evidence, certificates, time)
    status = claims["tcb"]["status"]
    advisories = claims["tcb"]["advisory_ids"]
    if status not in policy.statuses:
        known = f" ({', '.join(advisories)})" if advisories else ""
        raise EvidenceRefused(Reason.OUTDATED_TCB, f"the status that Intel gives is {status}{known}")
    tcb = {"evaluation": str(claims["tcb"]["eval_data_number"])}
    if technology == Technology.SGX:
        registers = {"mr_enclave": body[64:96], "mr_signer": body[128:160]}
        tcb |= {"isv_svn": str(int.from_bytes(body[258:260], "little"))}
        field = body[320:384]
    else:
        registers = {"mr_td": body[136:184], "mr_config_id": body[184:232]}
        registers |= {f"rt_mr{number}": body[328 + 48 * number :][:48] for number in range(4)}
        field = body[520:584]
    ends = (claims["earliest_expiration_date"], claims["qe_iden_earliest_expiration_date"])
    return Statement(
        device=bytes(claims["platform"]["pck"]["ppid"]),
        registers=registers,
        tcb=tcb,
        field=field,
        valid_until=min(ends),
        notes=(f"Intel's status: {status}", *advisories),
    )


def _read_quote(quote: bytes, technology: str) -> tuple[bytes, bytes]:
    """Return the body of a quote and its PEM chain; every byte must have its place."""
    reader = ByteReader(quote, "quote")
    version = reader.number(2)
    if version not in (3, 4, 5):
        raise EvidenceRefused(Reason.UNSUPPORTED, f"version {version} of the quote")
    if reader.number(2) != _ECDSA_P256:
        raise EvidenceRefused(Reason.UNSUPPORTED, "the algorithm of the signature")
    if reader.number(4) != _TEE[technology]:
        raise EvidenceRefused(Reason.WRONG_TECHNOLOGY, f"the quote is not one of {technology}")
    reader.take(40)
    kind = {Technology.SGX: 1, Technology.TDX: 2}[technology]
    size = _BODIES[technology][kind]
    if version == 5:
        kind, size = reader.number(2), reader.number(4)
        if _BODIES[technology].get(kind) != size:
            raise EvidenceRefused(Reason.UNSUPPORTED, f"a body of kind {kind} and {size} bytes")
    body = reader.take(size)
    signed = ByteReader(reader.sized(4), "signature of the quote")
    reader.end()
    signed.take(128)
    if version > 3:
        signed = _inner(signed, _QE_REPORT)
    signed.take(384 + 64)
    signed.sized(2)
    chain = _inner(signed, _PCK_CHAIN).rest()
    # Intel's quoting enclave ends the text as C does.
    return body, chain.removesuffix(b"\x00")


def _inner(reader: ByteReader, kind: int) -> ByteReader:
    """Return a reader of the certification data, which must be of a kind and the last part."""
    if (found := reader.number(2)) != kind:
        raise EvidenceRefused(Reason.UNSUPPORTED, f"certification data of kind {found}, not {kind}")
    inner = ByteReader(reader.sized(4), "certification data")
    reader.end()
    return inner


def _opening(body: bytes, technology: str) -> str:
    if technology == Technology.SGX:
        return "the enclave is in debug mode" if body[48] & 2 else ""
    return "the trust domain is in debug mode" if body[120] else ""


def _verified(evidence: Evidence, certificates: tuple[bytes, ...], time: int) -> Any:
    """Return the library's claims about evidence, whose quote has these certificates (DER)."""
    try:
        import dcap_qvl
    except ImportError:
        raise EvidenceRefused(Reason.NO_LIBRARY, "dcap-qvl", "install assay[attest]") from None
    parts = _read_collateral(evidence.collateral, certificates)
    try:
        collateral = dcap_qvl.QuoteCollateralV3(**parts)
        verifier = dcap_qvl.QuoteVerifier(certificates[-1])
        claimed = dcap_qvl.QuotePolicy.claims_only(time)
        return json.loads(verifier.verify_with_policy(evidence.report, collateral, time, claimed).to_json())
    except ValueError as error:
        text = str(error).removeprefix("Verification failed: ")
        reason = next((reason for word, reason in _WORDS if word in text), Reason.BAD_SIGNATURE)
        raise EvidenceRefused(reason, text[:200]) from None
    except BaseException as error:
        # A panic of the library is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise malformed("the library cannot read it") from None


def _read_collateral(data: bytes, certificates: tuple[bytes, ...]) -> dict[str, Any]:
    """Return the parts of Intel's collateral; the texts stay as they were signed, byte for byte.

    The library does not look at all certificates of the chains, so they are compared with those of the quote here.
    """
    if not data:
        raise malformed("Intel's collateral is missing: TCB info, identity of the quoting enclave, revocation lists")
    try:
        value = read_json(data, 4096, unique=True)
    except ValueError as error:
        raise malformed(f"the collateral {error}") from None
    if not isinstance(value, dict) or set(value) != {*_TEXTS, *_DIGITS}:
        raise malformed(f"the collateral does not have exactly the fields {', '.join(sorted((*_TEXTS, *_DIGITS)))}")
    parts: dict[str, Any] = {}
    for name, part in value.items():
        if not isinstance(part, str) or not part.isascii():
            raise malformed(f"{name} of the collateral is not text")
        if name in _DIGITS and not _HEX.fullmatch(part):
            raise malformed(f"{name} of the collateral is not in lower-case hex digits")
        if name.endswith("chain"):
            issuers = split_pem(part.encode())
            own = certificates[1:] if name == "pck_crl_issuer_chain" else (*issuers[:1], certificates[-1])
            if issuers != own:
                raise malformed(f"{name} of the collateral does not belong to the quote")
        parts[name] = bytes.fromhex(part) if name in _DIGITS else part
    return parts
