"""``assay query attest``, ``assay provider binding``, ``attest`` and ``release``, and proposals about policies."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import ADDRESS
from assay.cli.context import CommandContext, common_options
from assay.cli.credential import FILE, LABELS, Digits
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import money, size, table
from assay.cli.transacting import TxOptions, find_sender, transact, tx_options

if TYPE_CHECKING:
    from chain.client.client import ChainClient
    from domain.attest.evidence import Evidence
    from domain.attest.records import AttestPolicy, Credential, KeptBeacon
    from domain.messages import Message
    from validator.credentials.values import Binding

POLICY = click.STRING
_HASH_BYTES = 32


class Digest(Digits):
    """A click type for a hash or a credential id: 64 hex digits."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the 32 bytes."""
        data = super().convert(value, param, ctx)
        if len(data) != _HASH_BYTES:
            self.fail(f"{value!r} has {len(data)} bytes, not {_HASH_BYTES}: use 64 hex digits", param, ctx)
        return data


# --- queries -------------------------------------------------------------------------------------


@click.group(help="Policies about evidence of devices, requests for credentials, and who has which one.")
def queries() -> None:
    """Group of the queries about credentials."""


@queries.command(help="List the policies about evidence.\n\nExample: assay query attest policies")
@common_options
def policies(context: CommandContext) -> None:
    """List all policies, also those that were withdrawn."""
    from domain.attest.queries import AttestPoliciesRequest

    with context.client() as client:
        found = client.query(AttestPoliciesRequest()).policies
    rows = [
        (
            each.name,
            each.policy.technology,
            len(each.policy.measurements),
            len(each.policy.executors),
            f"withdrawn at {each.withdrawn_at}" if each.withdrawn_at else "in force",
        )
        for each in found
    ]
    columns = ("name", "technology", "images", "executors", "state")
    context.output.result(found, table("Policies about evidence", columns, rows))


@queries.command(help="Show a policy about evidence.\n\nExample: assay query attest policy snp-milan")
@click.argument("name", type=POLICY)
@common_options
def policy(context: CommandContext, name: str) -> None:
    """Show what a policy accepts."""
    with context.client() as client:
        found = _policy(client, name)
    accepted = found.policy
    rows = [
        ("technology", accepted.technology),
        *(("root", root.hex()) for root in accepted.roots),
        *(("executor", executor.hex()) for executor in accepted.executors),
        *(
            (f"image {number}, {register.name}", register.value.hex())
            for number, image in enumerate(accepted.measurements, 1)
            for register in image.registers
        ),
        *((f"least {least.part}", least.version) for least in accepted.least_tcb),
        ("oldest beacon", f"{accepted.max_age} s"),
        ("credential valid for", f"{found.valid_for} s"),
        ("state", f"withdrawn at {found.withdrawn_at}" if found.withdrawn_at else "in force"),
    ]
    context.output.result(found, table(f"Policy {name}", ("what", "value"), rows))


@queries.command(help="Show the newest beacon for evidence.\n\nExample: assay query attest beacon")
@common_options
def beacon(context: CommandContext) -> None:
    """Show the beacon to which new evidence has to be bound."""
    with context.client() as client:
        found = _beacon(client)
    rows = [("beacon", found.beacon.hex()), ("height", found.height), ("time", found.time)]
    context.output.result(found, table("Beacon for evidence", ("what", "value"), rows))


@queries.command(
    help="Show the last request of an account, and what its panel decided."
    "\n\nExample: assay query attest attestation assay1…"
)
@click.argument("address", type=ADDRESS)
@common_options
def attestation(context: CommandContext, address: str) -> None:
    """Show an attestation with its seats."""
    from domain.attest.queries import AttestationRequest
    from domain.attest.records import AttestAnswer, AttestVerdict

    with context.client() as client:
        answer = client.query(AttestationRequest(address))
    found = answer.attestation
    if found is None:
        raise CliError(f"{address} has asked for no credential", "ask with `assay provider attest`")
    verdict = AttestVerdict(found.verdict).name.lower() if found.verdict else "not known yet"
    reason = AttestAnswer(found.reason).word if found.reason else "-"
    rows: list[tuple[str, object]] = [
        ("policy", found.policy),
        ("credential", found.credential.hex()),
        ("evidence", f"{size(found.size)}, {found.digest.hex()}"),
        ("state", found.state.name.lower()),
        ("seats", f"{found.seats}, of which {found.committed} committed and {found.revealed} revealed"),
        ("verdict", verdict),
        ("reason", reason),
        ("credential granted", "yes" if found.granted else "no"),
    ]
    seats = [
        (
            seat.validator,
            AttestAnswer(seat.answer).word if seat.answer else "-",
            money(seat.paid),
            money(seat.cut),
        )
        for seat in answer.seats
    ]
    context.output.result(
        answer,
        [
            table("Attestation", ("what", "value"), rows),
            table("Seats", ("validator", "answer", "paid", "lost"), seats),
        ],
    )


@queries.command(help="Show the credential of a device.\n\nExample: assay query attest credential 1f2e…")
@click.argument("credential_id", metavar="ID", type=Digest())
@common_options
def credential(context: CommandContext, credential_id: bytes) -> None:
    """Show who has the credential of a device, and whether it is in force."""
    from domain.attest.queries import CredentialRequest

    with context.client() as client:
        answer = client.query(CredentialRequest(credential_id))
    if answer.credential is None:
        raise CliError("no account ever had this credential", "ask for it with `assay provider attest`")
    found = answer.credential
    rows = [
        ("id", found.id.hex()),
        ("owner", found.owner),
        ("policy", found.policy),
        ("executor", found.executor.hex()),
        ("since", found.since),
        ("ends at", found.ends_at),
        ("state", _state(found, answer.in_force)),
    ]
    context.output.result(answer, table("Credential", ("what", "value"), rows))
    _note_labels(context)


@queries.command(help="List the credentials of an account.\n\nExample: assay query attest credentials assay1…")
@click.argument("address", type=ADDRESS)
@common_options
def credentials(context: CommandContext, address: str) -> None:
    """List the credentials of which an account is the last owner."""
    from domain.attest.queries import CredentialsRequest

    with context.client() as client:
        answer = client.query(CredentialsRequest(address))
    rows = [
        (each.id.hex(), each.policy, each.ends_at, _state(each, each.id in answer.in_force))
        for each in answer.credentials
    ]
    context.output.result(answer, table("Credentials", ("id", "policy", "ends at", "state"), rows))
    _note_labels(context)


def _state(credential: "Credential", in_force: bool) -> str:
    if credential.banned_at:
        return f"lost for good at {credential.banned_at}"
    return "in force" if in_force else "not in force"


def _note_labels(context: CommandContext) -> None:
    for label in LABELS:
        context.output.note(f"note: {label}")


def _policy(client: "ChainClient", name: str) -> "AttestPolicy":
    from domain.attest.queries import AttestPolicyRequest

    found = client.query(AttestPolicyRequest(name)).policy
    if found is None:
        raise CliError(f"the chain has no policy {name}", "list them with `assay query attest policies`")
    return found


def _beacon(client: "ChainClient") -> "KeptBeacon":
    from domain.attest.queries import AttestBeaconRequest

    found = client.query(AttestBeaconRequest()).beacon
    if found is None:
        raise CliError(
            "the chain keeps no beacon for evidence, because no policy is in force",
            "wait for a vote that adds a policy (`assay query attest policies`)",
        )
    return found


# --- provider ------------------------------------------------------------------------------------


@click.command(
    help="""Write what your device must sign, with the newest beacon of the chain.

    The file is for --binding of `assay credential verify` and `assay provider attest`. The command also prints the
    report data in hex digits: 64 bytes for TDX, SGX and SEV-SNP, and their first 32 for NVIDIA and TPM.

    Example: assay provider binding --policy snp-milan --file binding.json --from worker
    """
)
@click.option("--policy", "policy_name", required=True, type=POLICY, help="Name of the policy on chain.")
@click.option("--executor", type=Digest(), help="Digest of your executor.  [the only one of the policy]")
@click.option("--file", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@common_options
def binding(context: CommandContext, policy_name: str, executor: bytes | None, target: Path) -> None:
    """Write the binding of the home's key."""
    from domain.registry.queries import ValidatorsRequest
    from validator.credentials.files import write_file
    from validator.credentials.values import Binding, certificate_digest, signed_field

    address, _ = find_sender(context, "")
    with context.client() as client:
        found = _policy(client, policy_name)
        kept = _beacon(client)
        chain_id = client.status().chain_id
        validators = client.query(ValidatorsRequest()).validators
    executors = found.policy.executors
    if executor is None and len(executors) > 1:
        raise WrongUsage(
            f"the policy accepts {len(executors)} executors", f"name one with --executor, such as {executors[0].hex()}"
        )
    certificate = next((each.certificate for each in validators if each.operator == address), b"")
    made = Binding(
        chain_id=chain_id,
        address=address,
        certificate=certificate_digest(certificate),
        executor=executor or executors[0],
        beacon=kept.beacon,
        beacon_time=kept.time,
    )
    write_file(made, target)
    field = signed_field(found.policy.technology, made.report_data())
    context.output.result(
        {"file": str(target), "report_data": field},
        [f"binding written to {target}", f"the device must sign: {field.hex()}"],
    )


@click.command(
    help="""Ask for the credential of your device. A panel of validators judges the evidence.

    The command first verifies the evidence here, so that you do not pay for evidence that would be refused. The chain
    locks a fee for the panel, and returns what no seat earns. docs/credentials.md says what a credential proves, and
    what it does not.

    Example: assay provider attest --evidence evidence.json --policy snp-milan --binding binding.json --from worker
    """
)
@click.option("--evidence", "evidence_file", required=True, type=FILE, help="File of the evidence.")
@click.option("--policy", "policy_name", required=True, type=POLICY, help="Name of the policy on chain.")
@click.option("--binding", "binding_file", required=True, type=FILE, help="File of `assay provider binding`.")
@click.option("--credential", "claimed", type=Digest(), help="Credential id.  [as the evidence says]")
@tx_options
@common_options
def attest(
    context: CommandContext,
    evidence_file: Path,
    policy_name: str,
    binding_file: Path,
    claimed: bytes | None,
    options: TxOptions,
) -> None:
    """Send evidence for a credential; EvidenceRefused with the reason if it would give none."""
    from domain.attest.evidence import Evidence
    from domain.attest.messages import MsgAttest
    from validator.credentials.files import read_file
    from validator.credentials.values import Binding

    evidence, bound = read_file(Evidence, evidence_file), read_file(Binding, binding_file)
    address, _ = find_sender(context, "")
    if bound.address != address:
        raise WrongUsage(
            f"the binding is for {bound.address}, not for {address}", "write one with `assay provider binding`"
        )
    with context.client() as client:
        found = _policy(client, policy_name)
    credential_id = _verify(evidence, found, bound, claimed)
    _note_labels(context)
    transact(
        context,
        options,
        lambda owner: (
            MsgAttest(
                owner=owner,
                policy=policy_name,
                credential=credential_id,
                executor=bound.executor,
                beacon=bound.beacon,
                evidence=evidence,
            ),
        ),
    )
    context.output.note(f"a panel judges the evidence: assay query attest attestation {address}")


def _verify(evidence: "Evidence", found: "AttestPolicy", bound: "Binding", claimed: bytes | None) -> bytes:
    """Return the credential id of evidence. Without the library for it, return the id that the user claims."""
    from validator.credentials.values import EvidenceRefused, Reason
    from validator.credentials.verify import verify_bound

    try:
        verified = verify_bound(evidence, found.policy, bound, int(time.time()))
    except EvidenceRefused as refused:
        if refused.why is Reason.NO_LIBRARY and claimed is not None:
            return claimed
        raise
    if claimed not in (None, verified.id):
        raise WrongUsage(f"the evidence is of the credential {verified.id.hex()}", "leave out --credential")
    return verified.id


@click.command(
    help="""Release a credential, so that another account can get it some time later.

    Without an id it releases the one that is in force.

    Example: assay provider release --from worker
    """
)
@click.argument("credential_id", metavar="[ID]", type=Digest(), required=False)
@tx_options
@common_options
def release(context: CommandContext, credential_id: bytes | None, options: TxOptions) -> None:
    """End a credential of the home's key."""
    from domain.attest.messages import MsgReleaseCredential
    from domain.attest.queries import CredentialsRequest

    address, _ = find_sender(context, "")
    if credential_id is None:
        with context.client() as client:
            in_force = client.query(CredentialsRequest(address)).in_force
        if not in_force:
            raise CliError(f"{address} has no credential in force", "list them with `assay query attest credentials`")
        credential_id = in_force[0]
    chosen = credential_id
    transact(context, options, lambda owner: (MsgReleaseCredential(owner=owner, credential=chosen),))


# --- proposals -----------------------------------------------------------------------------------


def policy_messages(added: tuple[str, Path] | None, valid_for: int, withdrawn: tuple[str, ...]) -> list["Message"]:
    """Return the messages of a proposal that adds a policy (name and file) and withdraws others."""
    from domain.attest.evidence import Policy
    from domain.attest.messages import MsgAddAttestPolicy, MsgWithdrawAttestPolicy
    from domain.gov.moves import GOV_POT
    from validator.credentials.files import read_file

    messages: list[Message] = []
    if added is not None:
        name, file = added
        policy = read_file(Policy, file)
        messages.append(MsgAddAttestPolicy(authority=GOV_POT.address, name=name, policy=policy, valid_for=valid_for))
    messages += [MsgWithdrawAttestPolicy(authority=GOV_POT.address, name=name) for name in withdrawn]
    return messages
