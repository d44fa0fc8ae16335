"""From evidence to a credential: the signatures of each technology, then the rules of a policy.

Time is an argument, in seconds since 1970: a panel verifies evidence at the time of a block.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from domain.attest.evidence import Evidence, Measurement, Policy, Technology
from domain.bounds import check
from domain.errors import Refusal
from validator.credentials.intel import read_intel
from validator.credentials.nvidia import read_nvidia
from validator.credentials.reading import malformed
from validator.credentials.snp import read_snp
from validator.credentials.tpm import read_tpm
from validator.credentials.values import (
    FIELD_SIZES,
    Binding,
    Credential,
    EvidenceRefused,
    Reason,
    Statement,
    credential_id,
    signed_field,
)

READERS: Final[Mapping[str, Callable[[Evidence, Policy, int], Statement]]] = MappingProxyType(
    {
        Technology.TDX: read_intel,
        Technology.SGX: read_intel,
        Technology.SEV_SNP: read_snp,
        Technology.NVIDIA: read_nvidia,
        Technology.TPM: read_tpm,
    }
)
"""The function that verifies the signatures of each technology."""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        Technology.TDX: ("mr_td", "rt_mr0", "rt_mr1", "rt_mr2", "rt_mr3"),
        Technology.SGX: ("mr_enclave",),
        Technology.SEV_SNP: ("measurement",),
        # A policy names the measurements that NVIDIA's reference values fix, and the PCRs that it chose.
        Technology.NVIDIA: (),
        Technology.TPM: (),
    }
)
"""Registers that a measurement of a policy must have. Without one of them, its owner could run other code."""

_DECIMAL, _HEX = re.compile("[0-9]{1,16}"), re.compile("[0-9A-Fa-f]{1,16}")


def verify_bound(evidence: Evidence, policy: Policy, binding: Binding, time: int) -> Credential:
    """Return the credential of evidence that is bound to a party, or raise EvidenceRefused."""
    if binding.executor not in policy.executors:
        raise EvidenceRefused(Reason.WRONG_EXECUTOR, binding.executor.hex())
    if not 0 <= time - binding.beacon_time <= policy.max_age:
        age = time - binding.beacon_time
        raise EvidenceRefused(Reason.TOO_OLD, f"its age is {age} s, and the policy allows 0 to {policy.max_age} s")
    return verify_evidence(evidence, policy, signed_field(policy.technology, binding.report_data()), time)


def verify_evidence(evidence: Evidence, policy: Policy, expected: bytes, time: int) -> Credential:
    """Return the credential of evidence whose device signed the bytes ``expected``, or raise EvidenceRefused.

    ``expected`` has as many bytes as the technology signs (``FIELD_SIZES``).
    """
    return judge(read_statement(evidence, policy, time), policy, expected)


def read_statement(evidence: Evidence, policy: Policy, time: int) -> Statement:
    """Return what evidence says, after its signatures and its chain to a root of the policy were verified."""
    try:
        check(evidence)
        check(policy)
    except Refusal as refusal:
        raise malformed(str(refusal)) from None
    if evidence.technology != policy.technology:
        raise EvidenceRefused(Reason.WRONG_TECHNOLOGY, f"it accepts {policy.technology}, not {evidence.technology}")
    return READERS[evidence.technology](evidence, policy, time)


def judge(statement: Statement, policy: Policy, expected: bytes) -> Credential:
    """Return the credential that a policy gives for a statement, or raise EvidenceRefused."""
    if len(expected) != FIELD_SIZES[policy.technology] or statement.field != expected:
        raise EvidenceRefused(Reason.WRONG_REPORT_DATA, statement.field.hex())
    if statement.opening:
        raise EvidenceRefused(Reason.OPEN_TO_HOST, statement.opening)
    if not any(statement.device):
        raise EvidenceRefused(Reason.NO_DEVICE_IDENTITY)
    if not any(_has(statement.registers, wanted, policy.technology) for wanted in policy.measurements):
        shown = ", ".join(f"{name} {value.hex()}" for name, value in [*statement.registers.items()][:8])
        raise EvidenceRefused(Reason.WRONG_MEASUREMENT, shown)
    for least in policy.least_tcb:
        if not _reaches(least.part, statement.tcb.get(least.part, ""), least.version):
            found = statement.tcb.get(least.part, "not in the evidence")
            raise EvidenceRefused(Reason.OUTDATED_TCB, f"{least.part} is {found}, and the least is {least.version}")
    return Credential(
        id=credential_id(policy.technology, statement.device),
        technology=policy.technology,
        device=statement.device,
        measurement=statement.registers,
        tcb=statement.tcb,
        report_data=statement.field,
        valid_until=statement.valid_until,
    )


def _has(registers: Mapping[str, bytes], wanted: Measurement, technology: str) -> bool:
    """Return whether the registers have all values of a measurement, which must name those that are required."""
    names = {register.name for register in wanted.registers}
    is_whole = names.issuperset(REQUIRED[technology])
    return is_whole and all(registers.get(register.name) == register.value for register in wanted.registers)


def _reaches(part: str, found: str, least: str) -> bool:
    """Return whether a version is at least another one; a version that is none reaches nothing."""
    have, want = _parts(part, found), _parts(part, least)
    return bool(have) and bool(want) and have >= want


def _parts(part: str, version: str) -> tuple[int, ...]:
    """Return the numbers of a version; NVIDIA writes those of a VBIOS in hex digits."""
    pattern, base = (_HEX, 16) if part == "vbios" else (_DECIMAL, 10)
    words = version.split(".")
    return tuple(int(word, base) for word in words) if all(map(pattern.fullmatch, words)) else ()
