"""The decision about the upkeep: the validator's endpoint on the chain, its providers' speeds, and its disk."""

from dataclasses import replace

from domain.limits import CAPABILITY_SECONDS_MAX
from domain.registry.messages import MsgAdmitProvider, MsgCertifyProvider, MsgSetEndpoint
from validator.decide.actions import Action, CheckProbe, Clean, SendNotice
from validator.decide.records import LocalUpkeep
from validator.decide.view import Look

CERTIFY_SECONDS = CAPABILITY_SECONDS_MAX
"""Chain seconds for which a certified speed is valid. The speed is measured again when a tenth of this time is left."""
CLEAN_SECONDS = 60


def decide_upkeep(standing: LocalUpkeep, look: Look) -> tuple[LocalUpkeep, tuple[Action, ...]]:
    """Return the updated record of the upkeep, and every action whose outcome is missing.

    Messages are sent only in a whole look.
    """
    actions: list[Action] = [CheckProbe(f"probe/{each.provider}", each) for each in look.measured if not each.sure]
    if not look.chain.whole:
        return standing, tuple(actions)
    if not standing.published:
        standing = replace(standing, published=_is_published(look))
        if not standing.published:
            message = MsgSetEndpoint(look.me, look.endpoint, look.certificate)
            actions.append(SendNotice("endpoint", (message,)))
    actions += _certificates(look)
    if look.chain.clock >= standing.clean_at:
        standing = replace(standing, clean_at=look.chain.clock + CLEAN_SECONDS)
        actions.append(Clean("clean", tuple(sorted(look.chain.providers.keys() | look.chain.applicants))))
    return standing, tuple(actions)


def _is_published(look: Look) -> bool:
    own = look.chain.validators.get(look.me)
    return own is not None and (own.endpoint, own.certificate) == (look.endpoint, look.certificate)


def _certificates(look: Look) -> list[Action]:
    """Return the actions that certify measured providers, and that admit the providers that are not in the cluster yet.

    Each provider has a transaction of its own, because it may leave the cluster at any moment and make the transaction
    fail. Even many such transactions delay no other action, because they have no deadline.
    """
    known = look.chain.providers
    sure = {each.provider: each for each in look.measured if each.sure}
    due = {address for address, member in known.items() if member.due}
    due |= look.chain.applicants | (look.doubted & known.keys())
    actions: list[Action] = []
    for address in sorted(sure.keys() & look.machines.keys() & due):
        machine = look.machines[address]
        measured = sure[address]
        certify = MsgCertifyProvider(
            validator=look.me,
            provider=address,
            device_class=machine.device_class,
            speed=measured.speed,
            memory=machine.memory,
            bandwidth=measured.bandwidth,
            valid_for=CERTIFY_SECONDS,
        )
        admit = () if address in known else (MsgAdmitProvider(look.me, address),)
        actions.append(SendNotice(f"certify/{address}", (*admit, certify)))
    return actions
