"""What a validator sees to whatever its orders are: its endpoint on chain, its providers' speeds, its disk."""

from dataclasses import replace

from domain.messages import MsgCertifyProvider, MsgSetEndpoint
from validator.decide.actions import Action, Clean, SendTx
from validator.decide.records import LocalUpkeep
from validator.decide.view import Look

CERTIFY_SECONDS = 86_400
"""How long a certified speed holds (chain clock); it is certified again when a tenth of that is left."""
CERTIFY = "certify/"
CLEAN_SECONDS = 60


def decide_upkeep(standing: LocalUpkeep, look: Look) -> tuple[LocalUpkeep, tuple[Action, ...]]:
    """Return what was seen to, and every action whose outcome is missing; all of it rests on whole looks."""
    if not look.chain.whole:
        return standing, ()
    actions: list[Action] = []
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
        actions.append(Clean("clean", tuple(sorted(look.chain.providers))))
    return standing, tuple(actions)


def _is_published(look: Look) -> bool:
    own = look.chain.validators.get(look.me)
    return own is not None and (own.endpoint, own.certificate) == (look.endpoint, look.certificate)


def _certificate(standing: LocalUpkeep, look: Look) -> tuple[str, tuple[Action, ...]]:
    """Put on chain what a provider measured, checked later against the time that its shares take.

    One after the other, each in its turn: anybody may register here, duties do not wait behind a crowd, and nobody
    behind one whose certificate is refused.
    """
    last = standing.certified
    wanted = sorted(
        address
        for address, speed in look.chain.providers.items()
        if not speed and address in look.benchmarks and look.benchmarks[address].speed
    )
    if not wanted or any(key.startswith(CERTIFY) for key in look.busy):
        return last, ()
    address = next((found for found in wanted if found > last), wanted[0])
    benchmark = look.benchmarks[address]
    message = MsgCertifyProvider(
        look.me,
        address,
        benchmark.device_class,
        benchmark.speed,
        benchmark.memory,
        benchmark.bandwidth,
        CERTIFY_SECONDS,
    )
    return address, (SendTx(CERTIFY + address, (message,)),)
