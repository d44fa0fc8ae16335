"""Handlers of the registry: where validators are reached, and who is in whose cluster."""

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

# --- MsgSetEndpoint: where a validator's cluster service listens, and its certificate ------------


def check_set_endpoint_fields(message: MsgSetEndpoint) -> None:
    """An endpoint as host:port."""
    host, colon, port = message.endpoint.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Refusal(BAD_FIELD, "endpoint", "is not host:port", "for example 192.0.2.7:7430")


def check_set_endpoint(ctx: Context, message: MsgSetEndpoint) -> Validator:
    """The signer is a validator."""
    return VALIDATORS.need(ctx.store, message.operator)


def apply_set_endpoint(ctx: Context, message: MsgSetEndpoint, validator: Validator) -> None:
    """Publish both."""
    VALIDATORS.update(
        ctx.store,
        validator.operator,
        endpoint=message.endpoint,
        certificate=message.certificate,
    )
    ctx.emit(EndpointSet(message.operator, message.endpoint, message.certificate))


# --- MsgSetBeaconKey: another key for the beacon, with a proof that its owner holds it --------------


def check_set_beacon_key(ctx: Context, message: MsgSetBeaconKey) -> None:
    """The signer is a validator and holds the key, and the key is new to the chain."""
    VALIDATORS.need(ctx.store, message.operator)
    if BEACON_KEYS.has(ctx.store, message.beacon_key):
        raise Refusal(ALREADY_EXISTS, "beacon_key", "was registered before", "make a new one")
    document = possession_sign_bytes(ctx.block.chain_id, message.operator, message.beacon_key)
    if not ctx.crypto.signature(message.beacon_key, document, message.key_proof):
        reason = "is not the key's signature"
        raise Refusal(BAD_PROOF, "key_proof", reason, "sign with the beacon key")


def apply_set_beacon_key(ctx: Context, message: MsgSetBeaconKey, _: None) -> None:
    """Register the key."""
    added, dropped = set_beacon_key(ctx, message.operator, message.beacon_key)
    ctx.emit(
        BeaconKeySet(
            operator=message.operator,
            beacon_key=added.key,
            counts_from=added.counts_from,
            dropped=dropped,
        )
    )


# --- MsgRevokeBeaconKey: a key that is lost or known to others -------------------------------------


def check_revoke_beacon_key(ctx: Context, message: MsgRevokeBeaconKey) -> None:
    """The key is one of the signer's."""
    validator = VALIDATORS.need(ctx.store, message.operator)
    if message.beacon_key not in [beacon.key for beacon in validator.beacon_keys]:
        raise Refusal(NOT_FOUND, "beacon_key", "is none of yours", "`assay status --output json` lists them")


def apply_revoke_beacon_key(ctx: Context, message: MsgRevokeBeaconKey, _: None) -> None:
    """Revoke the key."""
    dropped = revoke_beacon_key(ctx, message.operator, message.beacon_key)
    ctx.emit(BeaconKeyRevoked(message.operator, message.beacon_key, dropped))


# --- MsgPromiseAudits: what a validator can do as an auditor ----------------------------------------


def check_promise_audits(ctx: Context, message: MsgPromiseAudits) -> Validator:
    """The signer is a validator, and asks for more only a while after it was silent; returns its record."""
    validator = VALIDATORS.need(ctx.store, message.validator)
    more = message.speed > validator.audit_speed or message.rate > validator.audit_rate
    free_at = validator.halved_at + ctx.block.params.of(RegistryParams).promise_wait
    if more and validator.halved_at and ctx.clock < free_at:
        field = "speed" if message.speed > validator.audit_speed else "rate"
        reason = f"you were silent on a seat at {validator.halved_at}, which halved your promise"
        raise Refusal(NOT_YET, field, reason, f"raise it at {free_at} (now {ctx.clock})")
    return validator


def apply_promise_audits(ctx: Context, message: MsgPromiseAudits, validator: Validator) -> None:
    """Replace the promise; seats that are drawn stay, and orders keep the time that was found for them."""
    promise_audits(ctx, validator.operator, message.speed, message.rate)


# --- MsgRegisterProvider: ask to be in the cluster of a validator, or leave one for another ------


def check_register_provider(ctx: Context, message: MsgRegisterProvider) -> Provider:
    """The validator exists, and the provider has no share committed elsewhere; returns its record."""
    VALIDATORS.need(ctx.store, message.validator)
    provider = PROVIDERS.get(ctx.store, message.provider)
    if provider is None:
        # The key is in the account, because the account has signed this very transaction.
        pub_key = ACCOUNTS.must(ctx.store, message.provider).pub_key
        return Provider(
            address=message.provider,
            validator="",
            pub_key=pub_key,
            capability=None,
            shares_accepted=0,
            shares_rejected=0,
        )
    if provider.validator == message.validator:
        reason = "is yours already" if provider.admitted else "was asked already"
        remedy = "nothing to do" if provider.admitted else "wait until it admits you, or leave"
        raise Refusal(ALREADY_EXISTS, "validator", reason, remedy)
    check_free(ctx, message.provider)
    return provider


def apply_register_provider(ctx: Context, message: MsgRegisterProvider, provider: Provider) -> None:
    """Leave where it was, and ask: one validator at a time, which it concerns only when that admits it."""
    if provider.validator:
        _leave(ctx, provider)
    asking = replace(provider, validator=message.validator, admitted=False, capability=None)
    PROVIDERS.put(ctx.store, asking)
    ctx.emit(ProviderRegistered(message.provider, message.validator, asking.pub_key))


# --- MsgLeaveCluster: leave the cluster, or ask for it no more -----------------------------------


def check_leave_cluster(ctx: Context, message: MsgLeaveCluster) -> Provider:
    """The provider is in a cluster or asked for one, and has no share committed; returns its record."""
    provider = PROVIDERS.need(ctx.store, message.provider)
    if not provider.validator:
        raise Refusal(WRONG_STATE, "provider", "is in no cluster", "nothing to do")
    check_free(ctx, message.provider)
    return provider


def apply_leave_cluster(ctx: Context, message: MsgLeaveCluster, provider: Provider) -> None:
    """Leave."""
    _leave(ctx, provider)


def _leave(ctx: Context, provider: Provider) -> None:
    remove(ctx, provider)
    ctx.emit(ProviderLeft(provider.address, provider.validator))


# --- MsgAdmitProvider: take a provider that asked into the cluster -------------------------------


def check_admit_provider(ctx: Context, message: MsgAdmitProvider) -> Provider:
    """The provider asked the signer, and is not in its cluster yet; returns its record."""
    provider = _of_validator(ctx, message.provider, message.validator)
    if provider.admitted:
        raise Refusal(ALREADY_EXISTS, "provider", "is in your cluster already", "nothing to do")
    return provider


def apply_admit_provider(ctx: Context, message: MsgAdmitProvider, provider: Provider) -> None:
    """Admit."""
    admit(ctx, provider)


# --- MsgDismissProvider: have a provider in the cluster no more, or refuse one that asked --------


def check_dismiss_provider(ctx: Context, message: MsgDismissProvider) -> Provider:
    """The provider is the signer's, or asked it, and has no share committed; returns its record.

    An operator that is let go in between would be drawn for the audits of its own shares.
    """
    provider = _of_validator(ctx, message.provider, message.validator)
    check_free(ctx, message.provider)
    return provider


def apply_dismiss_provider(ctx: Context, message: MsgDismissProvider, provider: Provider) -> None:
    """Dismiss."""
    remove(ctx, provider)
    ctx.emit(ProviderDismissed(provider.address, provider.validator))


def _of_validator(ctx: Context, address: str, validator: str) -> Provider:
    """Return a provider that is in the validator's cluster, or asked to be."""
    provider = PROVIDERS.need(ctx.store, address)
    if provider.validator != validator:
        raise Refusal(NOT_YOURS, "provider", "did not ask you", "it names you with `assay provider join`")
    return provider


# --- MsgCertifyProvider: what the validator measured of a provider in its cluster ----------------


def check_certify_provider(ctx: Context, message: MsgCertifyProvider) -> Provider:
    """The provider is in the signer's cluster; returns its record."""
    provider = PROVIDERS.need(ctx.store, message.provider)
    if not provider.is_in(message.validator):
        raise Refusal(NOT_YOURS, "provider", "is not in your cluster", "only its validator measures it")
    return provider


def apply_certify_provider(ctx: Context, message: MsgCertifyProvider, provider: Provider) -> None:
    """Replace the capability."""
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
