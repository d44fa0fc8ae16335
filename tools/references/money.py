"""The page on money; the chain's own functions compute its examples."""

from domain.params import Params
from escrow.settle import job_bond_cut, settle_round, share_bond
from tools.references.markdown import page, table

_ROUNDS = 10
_WORK = 200 * 10**12
_SHARES = (("Ada", 49 * 10**12), ("Ada", 49 * 10**12), ("Ben", 49 * 10**12), ("Cleo", 49 * 10**12))
_PRICE, _LIMIT, _PROVIDERS_BPS = 900_000, 1_000_000, 7_000


def money_page() -> str:
    """Return the page on payments."""
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
        ("the round's panel, for the places that it recomputed", _assay(fee)),
        ("the protocol (community pool)", _assay(earned.protocol)),
        ("**total**", f"**{_assay(paid)}**"),
    ]
    bond = share_bond(_WORK * _ROUNDS, max(_PRICE, _LIMIT // 2)) * params.job_bond_bps // 10_000
    cut = job_bond_cut(bond, _ROUNDS, 4)
    share_price = share_bond(_SHARES[0][1], _PRICE)
    return page(
        "Who pays, with examples",
        "Only verified rounds of an order are paid ([rules](protocol.md#money-of-a-verified-round)). `assay order show"
        " ID` lists all payments, which equal the deposit together with the refund. 1 ASSAY is 1,000,000 **uassay**, of"
        " which amounts are integers. Prices are per PFLOP (10^15 FLOPs) of work.",
        "## Before anything runs",
        f"Your job has {_ROUNDS} rounds of {_WORK // 10**12} TFLOP each: {_ROUNDS * _WORK // 10**15} PFLOP. You order"
        f" it with a limit of {_LIMIT:,} uassay per PFLOP.",
        f"- You lock {_assay(_ROUNDS * _WORK * _LIMIT // 10**15)}, the price of all work at your limit, and"
        " in addition the lowest audit fee of every round.\n"
        f"- The cheapest bid that fits asks {_PRICE:,}. You pay this price. At the end, you get back the"
        " difference between your limit and this price.\n"
        f"- The validator of the bid locks a job bond of {_assay(bond)}.\n"
        f"- Each provider locks the price of its share, {_assay(share_price)}, until the round of the share is"
        " verified.",
        "## A verified round",
        "The round has four slots, and Ada serves two of them. The round is paid when its window is over and a panel of"
        " other validators has confirmed every place that it recomputed:",
        table(("party", "receives"), rows),
        "Each share is 49 TFLOP of work, and the validator's aggregation 4. Amounts are rounded down, and the validator"
        " gets the remainder.",
        "## When something goes wrong",
        table(
            ("event", "who pays"),
            (
                (
                    "A provider sends a wrong share.",
                    "The provider is not paid, and another provider trains the slot. You pay nothing for the wrong"
                    " share.",
                ),
                (
                    f"The validator stops after 4 of {_ROUNDS} rounds.",
                    f"The validator loses {_assay(cut)} of its job bond. From this amount you get back what the leg"
                    " cost you, and the rest is burnt. Verified rounds stay paid. The validator's own part of them is"
                    " paid later. But this part is burnt if you deny that the validator served you the states of the"
                    " last verified round.",
                ),
                (
                    "A panel finds a closed round wrong.",
                    "The validator loses its job bond. If only the provider was wrong, the provider loses its bond"
                    " instead, and half of that bond is burnt. From the lost bond the panel is paid first, then"
                    " providers whose right shares became void by another provider's fault, then you get back what"
                    " the leg cost you, and the rest is burnt. The round is not paid. If a vote of all validators that"
                    " could audit the round confirms it, the validator also loses a part of its stake, which you do"
                    " not get.",
                ),
                (
                    "You take a round before it is verified, and a panel then finds the round wrong.",
                    "The price of the round and its largest audit fee are burnt from your deposit. The same happens for"
                    " each earlier unverified round that becomes void.",
                ),
                (
                    "The validator hands over a wrong chunk, and you complain.",
                    "The validator loses the job bond. From the bond you get what the leg cost you, and the rest is"
                    " burnt."
                    " Verified rounds stay paid, except for the validator's own part, which you get back.",
                ),
                (
                    "An auditor gives no answer, or an answer that differs from the ruling.",
                    "The auditor loses what it would have earned, or three times as much if the ruling refutes it. It"
                    " never loses more than a thousandth of its stake in one panel.",
                ),
                (
                    "No bid takes your order in time.",
                    "Your whole deposit returns to you. You pay only the fee of the transaction.",
                ),
            ),
        ),
        source="escrow/settle.py",
    )


def _assay(amount: int) -> str:
    return f"{amount / 1_000_000:,.6f}".rstrip("0").rstrip(".") + " ASSAY"
