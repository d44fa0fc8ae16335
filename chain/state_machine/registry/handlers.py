"""Handlers of the registry: validators' endpoints, beacon keys and audit promises, and the members of clusters."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.registry.beacon import revoke_beacon_key, set_beacon_key
from chain.state_machine.registry.members import admit, check_free, promise_audits, remove
from chain.state_machine.registry.tables import BEACON_KEYS, PROVIDERS, VALIDATORS
from domain.beacon import possession_sign_bytes
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    INVALID_PUBKEY,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.registry.events import (
    BeaconKeyRevoked,
    BeaconKeySet,
    EndpointSet,
    ProviderCertified,
    ProviderDismissed,
    ProviderLeft,
    ProviderRegistered,
)
from domain.registry.messages import (
    MsgAdmitProvider,
    MsgCertifyProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgPromiseAudits,
    MsgRegisterProvider,
    MsgRevokeBeaconKey,
    MsgSetBeaconKey,
    MsgSetEndpoint,
)
from domain.registry.params import RegistryParams
from domain.registry.records import Capability, Provider, Validator

# --- MsgSetEndpoint: the address of a validator's cluster service, and its certificate -----------


def check_set_endpoint_fields(message: MsgSetEndpoint) -> None:
    """Check that the endpoint has the form host:port."""
    host, colon, port = message.endpoint.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Refusal(BAD_FIELD, "endpoint", "is not host:port", "use a form like 192.0.2.7:7430")


def check_set_endpoint(ctx: Context, message: MsgSetEndpoint) -> Validator:
    """Return the signer's validator; refuse the message if the signer is not a validator."""
    validator = VALIDATORS.need(ctx.store, message.operator)
    _need_single_key(ctx, message.operator, "operator")
    return validator


def _need_single_key(ctx: Context, address: str, field: str) -> bytes:
    """Return an account's key; refuse a multisig account, because tasks, shares and receipts need one person's key."""
    account = ACCOUNTS.must(ctx.store, address)  # the account has a key, because it signed this transaction
    if account.is_multisig:
        reason = "is a multisig account, which cannot sign tasks, shares and receipts"
        raise Refusal(INVALID_PUBKEY, field, reason, "use an account with a key of its own")
    return account.pub_key


def apply_set_endpoint(ctx: Context, message: MsgSetEndpoint, validator: Validator) -> None:
    """Publish the endpoint and the certificate."""
    VALIDATORS.update(
        ctx.store,
        validator.operator,
        endpoint=message.endpoint,
        certificate=message.certificate,
    )
    ctx.emit(EndpointSet(message.operator, message.endpoint, message.certificate))


# --- MsgSetBeaconKey: another key for the beacon, with a proof that the validator has it ------------


def check_set_beacon_key(ctx: Context, message: MsgSetBeaconKey) -> None:
    """Check that the signer is a validator and has the key, and that the key was never registered before."""
    VALIDATORS.need(ctx.store, message.operator)
    if BEACON_KEYS.has(ctx.store, message.beacon_key):
        raise Refusal(ALREADY_EXISTS, "beacon_key", "was registered before", "generate a new key")
    document = possession_sign_bytes(ctx.block.chain_id, message.operator, message.beacon_key)
    if not ctx.crypto.signature(message.beacon_key, document, message.key_proof):
        reason = "is not a signature by the beacon key"
        raise Refusal(BAD_PROOF, "key_proof", reason, "sign the proof with the beacon key")


def apply_set_beacon_key(ctx: Context, message: MsgSetBeaconKey, _: None) -> None:
    """Register the key."""
    added, dropped = set_beacon_key(ctx, message.operator, message.beacon_key)
    ctx.emit(
        BeaconKeySet(
            operator=message.operator,
            beacon_key=added.key,
            valid_from=added.valid_from,
            dropped=dropped,
        )
    )


# --- MsgRevokeBeaconKey: revoke a key that is lost or known to others ------------------------------


def check_revoke_beacon_key(ctx: Context, message: MsgRevokeBeaconKey) -> None:
    """Check that the key to revoke is one of the signer's beacon keys."""
    validator = VALIDATORS.need(ctx.store, message.operator)
    if message.beacon_key not in [beacon.key for beacon in validator.beacon_keys]:
        reason = "is not one of your beacon keys"
        raise Refusal(NOT_FOUND, "beacon_key", reason, "use a key that `assay status --output json` lists")


def apply_revoke_beacon_key(ctx: Context, message: MsgRevokeBeaconKey, _: None) -> None:
    """Revoke the key."""
    dropped = revoke_beacon_key(ctx, message.operator, message.beacon_key)
    ctx.emit(BeaconKeyRevoked(message.operator, message.beacon_key, dropped))


# --- MsgPromiseAudits: the speed and data rate that a validator promises as an auditor ---------------


def check_promise_audits(ctx: Context, message: MsgPromiseAudits) -> Validator:
    """Return the signer's validator.

    Refuse a higher promise until ``promise_wait`` has passed since the validator's promise was halved for silence.
    """
    validator = VALIDATORS.need(ctx.store, message.validator)
    more = message.speed > validator.audit_speed or message.rate > validator.audit_rate
    free_at = validator.promise_halved_at + ctx.block.params.of(RegistryParams).promise_wait
    if more and validator.promise_halved_at and ctx.clock < free_at:
        field = "speed" if message.speed > validator.audit_speed else "rate"
        reason = f"your promise was halved at {validator.promise_halved_at}, because your seats were silent"
        remedy = f"wait until the chain clock is {free_at} (now {ctx.clock}), then raise it"
        raise Refusal(NOT_YET, field, reason, remedy)
    return validator


def apply_promise_audits(ctx: Context, message: MsgPromiseAudits, validator: Validator) -> None:
    """Replace the validator's promise.

    Seats that were already drawn keep their duty, and orders keep their audit time.
    """
    promise_audits(ctx, validator.operator, message.speed, message.rate)


# --- MsgRegisterProvider: apply to the cluster of a validator, or leave one for another ----------


def check_register_provider(ctx: Context, message: MsgRegisterProvider) -> Provider:
    """Return the provider's record; make a new one if there is none.

    Refuse if the validator does not exist, the provider has already applied to it, or a share of the provider is
    committed.
    """
    VALIDATORS.need(ctx.store, message.validator)
    provider = PROVIDERS.get(ctx.store, message.provider)
    if provider is None:
        pub_key = _need_single_key(ctx, message.provider, "provider")
        return Provider(
            address=message.provider,
            validator="",
            pub_key=pub_key,
            capability=None,
            shares_accepted=0,
            shares_rejected=0,
        )
    if provider.validator == message.validator:
        if provider.admitted:
            reason = "has already admitted you to its cluster"
            remedy = "no further action is needed"
        else:
            reason = "already has your application"
            remedy = "wait until it admits you, or withdraw with `assay provider leave`"
        raise Refusal(ALREADY_EXISTS, "validator", reason, remedy)
    check_free(ctx, message.provider)
    return provider


def apply_register_provider(ctx: Context, message: MsgRegisterProvider, provider: Provider) -> None:
    """Apply to the validator.

    If the provider is in another validator's cluster, it leaves that cluster. If it has applied there, it withdraws the
    application.

    The provider is a member of the new cluster only after the validator has admitted it.
    """
    if provider.validator:
        _leave(ctx, provider)
    applicant = replace(provider, validator=message.validator, admitted=False, capability=None)
    PROVIDERS.put(ctx.store, applicant)
    ctx.emit(ProviderRegistered(message.provider, message.validator, applicant.pub_key))


# --- MsgLeaveCluster: leave the cluster, or withdraw the application -----------------------------


def check_leave_cluster(ctx: Context, message: MsgLeaveCluster) -> Provider:
    """Return the provider.

    Refuse the message if the provider has no cluster or application, or has a committed share.
    """
    provider = PROVIDERS.need(ctx.store, message.provider)
    if not provider.validator:
        reason = "is not in a cluster and has not applied to one"
        raise Refusal(WRONG_STATE, "provider", reason, "no further action is needed")
    check_free(ctx, message.provider)
    return provider


def apply_leave_cluster(ctx: Context, message: MsgLeaveCluster, provider: Provider) -> None:
    """Leave the cluster, or withdraw the application."""
    _leave(ctx, provider)


def _leave(ctx: Context, provider: Provider) -> None:
    remove(ctx, provider)
    ctx.emit(ProviderLeft(provider.address, provider.validator))


# --- MsgAdmitProvider: admit a provider that applied to the cluster ------------------------------


def check_admit_provider(ctx: Context, message: MsgAdmitProvider) -> Provider:
    """Return the provider to admit; refuse one that has not applied to the signer, or is already in its cluster."""
    provider = _of_validator(ctx, message.provider, message.validator)
    if provider.admitted:
        raise Refusal(ALREADY_EXISTS, "provider", "is already in your cluster", "no further action is needed")
    return provider


def apply_admit_provider(ctx: Context, message: MsgAdmitProvider, provider: Provider) -> None:
    """Admit the provider to the cluster."""
    admit(ctx, provider)


# --- MsgDismissProvider: remove a provider from the cluster, or reject its application -----------


def check_dismiss_provider(ctx: Context, message: MsgDismissProvider) -> Provider:
    """Return the provider; refuse it if it is not the signer's member or applicant, or has a committed share.

    A provider may also be a validator's operator. If it were dismissed while its share is committed, it could be drawn
    to audit that share.
    """
    provider = _of_validator(ctx, message.provider, message.validator)
    check_free(ctx, message.provider)
    return provider


def apply_dismiss_provider(ctx: Context, message: MsgDismissProvider, provider: Provider) -> None:
    """Remove the provider from the cluster, or reject its application."""
    remove(ctx, provider)
    ctx.emit(ProviderDismissed(provider.address, provider.validator))


def _of_validator(ctx: Context, address: str, validator: str) -> Provider:
    """Return a provider that is in the validator's cluster or has applied to it; refuse any other."""
    provider = PROVIDERS.need(ctx.store, address)
    if provider.validator != validator:
        reason = "has not applied to this validator"
        raise Refusal(NOT_YOURS, "provider", reason, "it applies with `assay provider join`")
    return provider


# --- MsgCertifyProvider: record the speed and memory that the validator measured -----------------


def check_certify_provider(ctx: Context, message: MsgCertifyProvider) -> Provider:
    """Return the provider; refuse one that is not in the signer's cluster."""
    provider = PROVIDERS.need(ctx.store, message.provider)
    if not provider.is_in(message.validator):
        raise Refusal(NOT_YOURS, "provider", "is not in your cluster", "certify only providers of your cluster")
    return provider


def apply_certify_provider(ctx: Context, message: MsgCertifyProvider, provider: Provider) -> None:
    """Replace the capability of the provider."""
    capability = Capability(
        device_class=message.device_class,
        speed=message.speed,
        memory=message.memory,
        bandwidth=message.bandwidth,
        expires_at=ctx.clock + message.valid_for,
    )
    PROVIDERS.update(ctx.store, provider.address, capability=capability)
    ctx.emit(
        ProviderCertified(
            provider=message.provider,
            validator=message.validator,
            speed=message.speed,
            capability=capability,
        )
    )


HANDLERS = (
    Handler(
        message=MsgSetEndpoint,
        check_state=check_set_endpoint,
        apply=apply_set_endpoint,
        check_fields=check_set_endpoint_fields,
    ),
    Handler(MsgSetBeaconKey, check_set_beacon_key, apply_set_beacon_key),
    Handler(MsgRevokeBeaconKey, check_revoke_beacon_key, apply_revoke_beacon_key),
    Handler(MsgPromiseAudits, check_promise_audits, apply_promise_audits),
    Handler(MsgRegisterProvider, check_register_provider, apply_register_provider),
    Handler(MsgLeaveCluster, check_leave_cluster, apply_leave_cluster),
    Handler(MsgAdmitProvider, check_admit_provider, apply_admit_provider),
    Handler(MsgDismissProvider, check_dismiss_provider, apply_dismiss_provider),
    Handler(MsgCertifyProvider, check_certify_provider, apply_certify_provider),
)
