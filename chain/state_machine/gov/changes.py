"""The messages that only a proposal can have: changes of parameters, which apply from the next block on, and payments
from the community pool.
"""

from collections.abc import Iterable

from chain.state_machine.context import NEXT_PARAMS, Context
from chain.state_machine.distribution.community import check_community_spend, spend_community_pool
from chain.state_machine.staking.handlers import check_coin
from domain.codec import to_plain
from domain.distribution.messages import MsgCommunityPoolSpend
from domain.errors import BAD_FIELD, UNAUTHORIZED, Refusal
from domain.gov.events import ParameterChanged
from domain.gov.messages import MsgUpdateParams, ParamChange
from domain.gov.moves import GOV_POT
from domain.params import Params
from domain.plain import read


def check_update(ctx: Context, message: MsgUpdateParams) -> Params:
    """Return the parameters after the changes; refuse values that a genesis could not have."""
    check_authority(message.authority)
    params = change_params(NEXT_PARAMS.find(ctx.store) or ctx.block.params, message.changes)
    ctx.rules.check_params(params)
    return params


def change_params(params: Params, changes: Iterable[ParamChange]) -> Params:
    """Return parameters with other values; refuse a name that no component has, and a value out of its bounds."""
    plain = to_plain(params)
    seen = set()
    for at, change in enumerate(changes):
        field = f"changes[{at}]"
        values = plain.get(change.component)
        if values is None:
            remedy = f"use one of {', '.join(plain)}"
            raise Refusal(BAD_FIELD, f"{field}.component", f"{change.component!r} has no parameters", remedy)
        if change.name not in values:
            reason = f"{change.name!r} is no parameter of {change.component}"
            raise Refusal(BAD_FIELD, f"{field}.name", reason, f"use one of {', '.join(values)}")
        if (change.component, change.name) in seen:
            raise Refusal(BAD_FIELD, field, "changes a parameter that was changed before", "name each parameter once")
        seen.add((change.component, change.name))
        values[change.name] = change.value
    return read(Params, plain, "params")


def apply_update(ctx: Context, message: MsgUpdateParams, params: Params) -> None:
    """Let the parameters apply from the next block on."""
    NEXT_PARAMS.set(ctx.store, params)
    for change in message.changes:
        ctx.emit(ParameterChanged(change.component, change.name, change.value))


def check_spend(ctx: Context, message: MsgCommunityPoolSpend) -> int:
    """Return the amount; refuse more than the community pool has."""
    check_authority(message.authority)
    amount = check_coin(ctx, message.amount[0], "amount")
    check_community_spend(ctx, message.recipient, amount)
    return amount


def apply_spend(ctx: Context, message: MsgCommunityPoolSpend, amount: int) -> None:
    """Pay the coins."""
    spend_community_pool(ctx, message.recipient, amount)


def check_authority(address: str) -> None:
    """Refuse a message that is not of the account of governance, which only proposals have."""
    if address != GOV_POT.address:
        reason = f"is not the account of governance, {GOV_POT.address}"
        raise Refusal(UNAUTHORIZED, "authority", reason, "make a proposal: `assay tx gov submit-proposal`")
