"""What a validator sees to whatever its orders are: its endpoint on chain, its providers' speeds, its disk."""

from dataclasses import replace

from domain.limits import CAPABILITY_SECONDS_MAX
from domain.messages import MsgAdmitProvider, MsgCertifyProvider, MsgSetEndpoint
from validator.decide.actions import Action, CheckProbe, Clean, SendTx
from validator.decide.records import LocalUpkeep
from validator.decide.view import Look

CERTIFY_SECONDS = CAPABILITY_SECONDS_MAX
"""How long a certified speed holds (chain clock); it is measured again when a tenth of that is left."""
CERTIFY = "certify/"
CLEAN_SECONDS = 60


def decide_upkeep(standing: LocalUpkeep, look: Look) -> tuple[LocalUpkeep, tuple[Action, ...]]:
    """Return what was seen to, and every action whose outcome is missing; all that is sent rests on whole looks."""
    actions: list[Action] = [
        CheckProbe(f"probe/{found.provider}", found) for found in look.measured if not found.sure
    ]
    if not look.chain.whole:
        return standing, tuple(actions)
    if not standing.published:
        standing = replace(standing, published=_is_published(look))
        if not standing.published:
            message = MsgSetEndpoint(look.me, look.endpoint, look.certificate)
            actions.append(SendTx("endpoint", (message,)))
    certified, found = _certificate(standing, look)
    standing = replace(standing, certified=certified)
    actions += found
    if look.chain.clock >= standing.clean_at:
        standing = replace(standing, clean_at=look.chain.clock + CLEAN_SECONDS)
        actions.append(
            Clean("clean", tuple(sorted(look.chain.providers.keys() | look.chain.applicants)))
        )
    return standing, tuple(actions)


def _is_published(look: Look) -> bool:
    own = look.chain.validators.get(look.me)
    return own is not None and (own.endpoint, own.certificate) == (look.endpoint, look.certificate)


def _certificate(standing: LocalUpkeep, look: Look) -> tuple[str, tuple[Action, ...]]:
    """Put on chain what was measured of a provider, and admit it where it is not in the cluster yet.

    One after the other, each in its turn: duties do not wait behind a crowd, and nobody behind one whose certificate
    is refused.
    """
    last = standing.certified
    sure = {found.provider: found for found in look.measured if found.sure}
    known = look.chain.providers
    due = {address for address, member in known.items() if member.due} | look.chain.applicants
    wanted = sorted(sure.keys() & look.machines.keys() & due)
    if not wanted or any(key.startswith(CERTIFY) for key in look.busy):
        return last, ()
    address = next((found for found in wanted if found > last), wanted[0])
    machine, found = look.machines[address], sure[address]
    certify = MsgCertifyProvider(
        look.me,
        address,
        machine.device_class,
        found.speed,
        machine.memory,
        found.bandwidth,
        CERTIFY_SECONDS,
    )
    admit = () if address in known else (MsgAdmitProvider(look.me, address),)
    return address, (SendTx(CERTIFY + address, (*admit, certify)),)
