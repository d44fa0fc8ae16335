"""The page on money, whose examples are computed by the functions that the chain pays with."""

from domain.params import Params
from escrow.settle import job_bond_cut, settle_round, share_bond
from tools.references.markdown import page, table

_ROUNDS = 10
_WORK = 200 * 10**12
_SHARES = (("Ada", 49 * 10**12), ("Ada", 49 * 10**12), ("Ben", 49 * 10**12), ("Cleo", 49 * 10**12))
_PRICE, _LIMIT, _PROVIDERS_BPS = 900_000, 1_000_000, 7_000


def money_page() -> str:
    """Return the page."""
    params = Params().for_order()
    earned = settle_round(
        _WORK,
        _PRICE,
        protocol_bps=params.protocol_bps,
        audit_bps=params.audit_bps,
        providers_bps=_PROVIDERS_BPS,
        shares=_SHARES,
    )
    by_provider: dict[str, int] = {}
    for name, amount in earned.providers:
        by_provider[name] = by_provider.get(name, 0) + amount
    paid = _WORK * _PRICE // 10**15
    fee = paid - earned.total
    rows = [(name, _assay(amount)) for name, amount in by_provider.items()]
    rows += [
        ("the validator, withheld until the order settles", _assay(earned.validator)),
        ("the round's panel, for what it recomputed", _assay(fee)),
        ("the protocol (community pool)", _assay(earned.protocol)),
        ("**together**", f"**{_assay(paid)}**"),
    ]
    bond = share_bond(_WORK * _ROUNDS, max(_PRICE, _LIMIT // 2)) * params.job_bond_bps // 10_000
    cut = job_bond_cut(bond, _ROUNDS, 4)
    return page(
        "Who pays, with examples",
        "Money on chain is whole **uassay**; 1 ASSAY is 1,000,000 of them. Work is counted in FLOPs, and prices are"
        " uassay per PFLOP (10^15 FLOPs), ASSAY per PFLOP where people read them."
        " What an ASSAY is worth in other money is decided by nobody here: a network"
        " has its coins in its genesis file, and on a local network they are play money.",
        "## Before anything runs",
        f"Your job has {_ROUNDS} rounds of {_WORK // 10**12} TFLOP each: {_ROUNDS * _WORK // 10**15} PFLOP. You order"
        f" it with a limit of {_LIMIT:,} uassay per PFLOP. Into escrow goes the price of all work at your limit,"
        f" {_assay(_ROUNDS * _WORK * _LIMIT // 10**15)}, and what small audits cost beside that. The cheapest bid that"
        f" fits asks {_PRICE:,}, so that is what you pay; the difference comes back at the end. The validator behind it"
        f" locks a job bond of {_assay(bond)}, and each provider the price of a share while it is at stake"
        f" ({_assay(share_bond(_SHARES[0][1], _PRICE))}).",
        "## A round that was verified",
        "Four slots, of which Ada served two. When the window is over and a panel of strangers has found every place"
        " that it recomputed to be as the chain has it, and not before:",
        table(("who", "gets"), rows),
        "The shares are 49 TFLOP each; the other 4 TFLOP are the aggregation, which the validator did. What does not"
        " divide is rounded down, and the rest is the validator's.",
        "## When something goes wrong",
        table(
            ("what", "who pays"),
            (
                (
                    "a provider sends a wrong share",
                    "its bond is burnt; the slot goes to somebody else, you pay nothing",
                ),
                (
                    f"the validator stops after 4 of {_ROUNDS} rounds",
                    f"{_assay(cut)} of its job bond: to you what the leg cost you, the rest is burnt. The rounds"
                    " that were verified stay paid, but for the validator's own part, which is yours again",
                ),
                (
                    "a panel finds a closed round wrong",
                    "the job bond (or the bond of the provider who alone was wrong): first the panel, then you, and"
                    " the rest is burnt. The round is not paid",
                ),
                (
                    "an auditor is silent or says otherwise",
                    "three times the price of the place, of its stake",
                ),
                (
                    "nobody takes your order in time",
                    "nobody: the deposit returns, less the fee of the transaction",
                ),
            ),
        ),
        "`assay order show ID` lists every payment of an order, and that they add up to the deposit. The rules are in"
        " [An order's life](protocol.md), the parameters in [Parameters](reference/parameters.md).",
        source="escrow/settle.py",
    )


def _assay(amount: int) -> str:
    return f"{amount / 1_000_000:,.6f}".rstrip("0").rstrip(".") + " ASSAY"
