"""``assay credential``."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import WrongUsage
from assay.cli.output import table
from domain.errors import Exit

if TYPE_CHECKING:
    from validator.credentials.values import Credential

TECHNOLOGIES = ("tdx", "sgx", "sev-snp", "nvidia", "tpm")
LABELS = (
    "Assay's developers have never run this on hardware: only samples of vendors and a software TPM were verified",
    "an owner with physical access can forge evidence: WireTap and TEE.fail read the keys of SGX, TDX and SEV-SNP from "
    "the memory bus with parts for less than $1000",
)
"""Warnings that belong to every credential."""
_NOT_COMPARED = "the report data were not compared: give --binding or --report-data to check for whom the evidence is"
_SHOWN = 8


class Moment(click.ParamType[int]):
    """A click type for a time: seconds since 1970, or a date and time of ISO 8601 with its zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return seconds since 1970."""
        if isinstance(value, int):
            return value
        if value.isascii() and value.isdigit() and len(value) <= 12:
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no time; use 2026-11-27T12:00:00Z or seconds since 1970", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no zone; end it with Z for UTC", param, ctx)
        return int(moment.timestamp())


class Digits(click.ParamType[bytes]):
    """A click type for bytes in hex digits."""

    name = "hex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the bytes."""
        if isinstance(value, bytes):
            return value
        try:
            return bytes.fromhex(value)
        except ValueError:
            self.fail(f"{value!r} is not in hex digits", param, ctx)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(help="Verify the evidence of confidential machines, offline.")
def command() -> None:
    """Group of credential commands."""


@command.command(
    help="""Verify a device's evidence against a policy, and show its credential or the reason of the refusal.

    Nothing is sent or fetched. The evidence must be valid at --at, which is now if it is left out. --binding is a file
    with what the device must have signed: chain_id, address, certificate, executor, beacon and beacon_time. Without
    --binding or --report-data, the command shows what the device signed, and its exit code is 4.

    docs/credentials.md says what a credential proves, and what it does not.

    Example: assay credential verify evidence.json --policy policy.json --binding binding.json
    """
)
@click.argument("evidence_file", metavar="EVIDENCE", type=FILE)
@click.option("--policy", "policy_file", required=True, type=FILE, help="File of the policy.")
@click.option("--at", "moment", type=Moment(), help="Time at which to verify: seconds, or ISO 8601.  [now]")
@click.option("--binding", "binding_file", type=FILE, help="File with what the device must have signed.")
@click.option("--report-data", type=Digits(), help="The bytes that the device must have signed.")
@common_options
def verify(
    context: CommandContext,
    evidence_file: Path,
    policy_file: Path,
    moment: int | None,
    binding_file: Path | None,
    report_data: bytes | None,
) -> Exit:
    """Print a credential; EvidenceRefused with the reason if there is none."""
    from domain.attest.evidence import Evidence, Policy
    from validator.credentials.files import read_file
    from validator.credentials.values import Binding
    from validator.credentials.verify import judge, read_statement, verify_bound, verify_evidence

    if binding_file is not None and report_data is not None:
        raise WrongUsage("--binding and --report-data both say what was signed", "leave one of them out")
    evidence, policy = read_file(Evidence, evidence_file), read_file(Policy, policy_file)
    at = int(time.time()) if moment is None else moment
    if binding_file is not None:
        binding = read_file(Binding, binding_file)
        credential = verify_bound(evidence, policy, binding, at)
        bound = f"{binding.address} on {binding.chain_id}, executor {binding.executor.hex()[:12]}…"
    elif report_data is not None:
        credential, bound = verify_evidence(evidence, policy, report_data, at), "the report data that you gave"
    else:
        statement = read_statement(evidence, policy, at)
        credential, bound = judge(statement, policy, statement.field), ""
    _show(context, credential, at, bound)
    return Exit.DONE if bound else Exit.NEEDS_CARE


def _show(context: CommandContext, credential: "Credential", at: int, bound: str) -> None:
    registers = [*credential.measurement.items()]
    rows = [
        ("technology", credential.technology),
        ("credential", credential.id.hex()),
        ("device", _device(credential)),
        *((f"measurement {name}", value.hex()) for name, value in registers[:_SHOWN]),
        *([("measurement", f"{len(registers) - _SHOWN} more, see --output json")] if len(registers) > _SHOWN else []),
        *((f"version of {part}", version) for part, version in credential.tcb.items()),
        ("report data", credential.report_data.hex()),
        ("bound to", bound or "not compared"),
        ("verified at", _utc(at)),
        ("valid until", _utc(credential.valid_until)),
    ]
    context.output.result(
        {
            "technology": credential.technology,
            "credential": credential.id,
            "device": credential.device,
            "measurement": dict(registers),
            "tcb": dict(credential.tcb),
            "report_data": credential.report_data,
            "compared": bool(bound),
            "at": at,
            "valid_until": credential.valid_until,
            "labels": LABELS,
        },
        table("Credential", ("what", "value"), rows),
    )
    for note in (*LABELS, *([] if bound else [_NOT_COMPARED])):
        context.output.note(f"note: {note}")


def _device(credential: "Credential") -> str:
    """Return a device's identifier as its vendor writes it: text if it is text, otherwise hex digits."""
    try:
        text = credential.device.decode("ascii")
    except UnicodeDecodeError:
        return credential.device.hex()
    return text if text.isprintable() else credential.device.hex()


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@command.command(
    help="""Write a file of evidence from the files that a device and its vendor gave.

    --report is the quote or report, as bytes. --certificate and --revocation-list are DER or PEM; give the signer's
    certificate first and the root last. --collateral is Intel's JSON, which stays as it is. A quote of a TPM needs
    --signature (TPMT_SIGNATURE).

    Example: assay credential pack --technology tdx --report quote.bin --collateral collateral.json --file evidence.json
    """
)
@click.option("--technology", required=True, type=click.Choice(TECHNOLOGIES), help="Kind of evidence.")
@click.option("--report", required=True, type=FILE, help="The quote or report.")
@click.option("--signature", type=FILE, help="The signature of a TPM.")
@click.option("--certificate", "certificates", multiple=True, type=FILE, help="A certificate or chain (repeatable).")
@click.option("--revocation-list", "lists", multiple=True, type=FILE, help="A revocation list (repeatable).")
@click.option("--collateral", type=FILE, help="Intel's collateral.")
@click.option("--file", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@common_options
def pack(
    context: CommandContext,
    technology: str,
    report: Path,
    signature: Path | None,
    certificates: tuple[Path, ...],
    lists: tuple[Path, ...],
    collateral: Path | None,
    target: Path,
) -> None:
    """Write a file of evidence; Refusal if a part is too large."""
    from domain.attest.evidence import Evidence
    from domain.bounds import check
    from validator.credentials.files import write_file
    from validator.credentials.parts import read_certificates, read_revocation_list

    evidence = Evidence(
        technology=technology,
        report=report.read_bytes(),
        signature=signature.read_bytes() if signature else b"",
        certificates=tuple(each for path in certificates for each in read_certificates(path.read_bytes())),
        revocation_lists=tuple(read_revocation_list(path.read_bytes()) for path in lists),
        collateral=collateral.read_bytes() if collateral else b"",
    )
    check(evidence)
    write_file(evidence, target)
    size = len(evidence.report)
    value = {"file": str(target), "technology": technology, "report": size, "certificates": len(evidence.certificates)}
    context.output.result(value, f"evidence of {technology} written to {target}")


@command.command(
    help="""Write a policy to start from. It accepts nothing until you replace its zeros.

    Replace the root by the SHA-256 of the vendor's root certificate, the measurements by those of an image that you
    built yourself, and the executor by the digest of the release that may run.

    Example: assay credential policy --technology sev-snp --file policy.json
    """
)
@click.option("--technology", required=True, type=click.Choice(TECHNOLOGIES), help="Kind of evidence.")
@click.option("--file", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@common_options
def policy(context: CommandContext, technology: str, target: Path) -> None:
    """Write the template of a policy."""
    from validator.credentials.files import write_file
    from validator.credentials.parts import template

    write_file(template(technology), target)
    context.output.result({"file": str(target)}, f"policy written to {target}: replace its zeros")
