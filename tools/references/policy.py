"""The page on policy; the calculator computes its tables."""

from math import isfinite

from domain.amount import ASSAY, BPS
from domain.params import Params
from pol.policy.formulas import least_checks, least_device_cost, least_sampling, majority_capture, unanimous_capture
from pol.policy.market import PolicyInputs, ReferenceJob
from pol.policy.policy import Policy, compute_policy
from tools.references.markdown import page, table

_WIDE = ReferenceJob(slots=64, segments=100, rounds=20)
_CHEAP = ASSAY // 10

_FORMULAS = (
    (
        "deterrence",
        "p (R + S + F) > G",
        "the chance p of a check, pay R, stake S and later income F against the gain G of a lie; Assay uses F = 0",
    ),
    ("least stake", "S = G / p - R - F", "the same, solved for S"),
    ("proof of sampling", "p = C / ((1 - r)(R + S))", "arXiv 2405.00295; C is the cost, and r the colluding part"),
    ("sampling", "p = 1 - (1 - x)^c", "c checks of work of which a part x is bad; segments are drawn without repeats"),
    ("inspection game", "x = c / J", "lies that remain if a check costs c and a found lie brings J; opML"),
    (
        "planted errors",
        "J = k c / q",
        "the reward at which checks pay surely; q is the part of planted errors; Truebit",
    ),
    ("unanimity, majority", "r^a; the binomial tail", "a coalition's chance to have all seats, or most of them"),
    ("device lost for good", "K = max(W / (1 - g), value of lying)", "evML; g is the discount per task"),
)


def policy_page() -> str:
    """Return the page on policy."""
    policy = compute_policy(ReferenceJob().terms, Params(), PolicyInputs())
    cheap = compute_policy(_WIDE.terms, Params(), PolicyInputs(price=_CHEAP))
    inputs, amounts, bounds = policy.inputs, policy.amounts, policy.bounds
    return page(
        "Policy: does honest work pay?",
        "`assay policy` computes what each known strategy gains in expectation, compared with honest work, the least"
        " bonds and chances at which honest work pays, the price of bribing a panel, and the income of a watchtower. A"
        " test checks the [parameters](reference/parameters.md) of public networks against it.",
        "```bash\n"
        "assay policy                                  # defaults of a public network\n"
        "assay policy ./digits --network node          # a job, on the chain of a node\n"
        "assay policy --genesis genesis.json --price 2ASSAY --output json\n"
        "```",
        "## How it computes",
        "- A **gain** is the profit of a strategy that is not found, minus the chance to find it times the loss then."
        " Both are differences to honest work. The chances and amounts come from the functions that the chain itself"
        " uses.\n"
        "- Income of **later orders** counts as nothing, because newcomers and parties that leave have none.\n"
        "- Everyone **outside** the strategy is honest. A validator replays its duty and the segments that its daemon"
        " picks, and a consumer complains about a wrong chunk.\n"
        "- **Validators** have equal stakes. The chance that a coalition decides a place is a sum over all draws of"
        " seats, with the rules of all stages.\n"
        "- `--side` is the profit of a wrong round besides saved work, such as a hidden error in a model. A strategy of"
        " a coalition pays as soon as this profit is larger than its expected loss in the table.",
        "## Strategies",
        f"Defaults of a public network, with a job of 8 slots and 50 segments per share at {_assay(inputs.price)} per"
        f" PFLOP. Training costs {inputs.cost_bps / BPS:.0%} of its price. {inputs.validators} validators have a stake"
        f" of {_assay(inputs.stake)} each. A round costs {_assay(amounts.round_price)}, and a panel draws"
        f" {amounts.drawn_segments} of its {amounts.segments} segments.",
        table(
            ("party", "strategy", "chance to find it", "expected gain", "what it does"),
            [
                (
                    row.party,
                    row.name,
                    f"{row.found:.3g}",
                    _assay(row.gain) + (" (**pays**)" if row.pays else ""),
                    row.about,
                )
                for row in policy.strategies
            ],
        ),
        "## What pays today",
        "One strategy pays if a validator states no [cover](protocol.md#void-shares), as it does for providers that"
        " anyone could be. A consumer that owns the validator and one provider gets the training of one round, and lets"
        " it become void. It loses the bond of one share. Cautious providers train no second round then. With a cover,"
        " the strategy does not pay.",
        "One strategy pays if a validator states a high cover for low share bonds: the owner of all its providers makes"
        " one share wrong, is paid for the others by the job bond, and sells their rounds again. At a full cover, a"
        f" share bond of {bounds.share_bond_cover:.3g} times the price of the share deters this.",
        f"Another one pays if rounds are wide and the price is low. At {_assay(_CHEAP)} per PFLOP, the fee of a round"
        f" with {cheap.amounts.segments:,} segments pays for {cheap.amounts.drawn_segments} of them. One provider of 64"
        " and its validator then gain by a made-up segment, because a panel finds it too rarely. A share bond of"
        f" {cheap.bounds.share_bond_confirmed:.2g} times the price of the share would deter them.",
        "## Least values",
        table(
            ("value", "least", "on a public network"),
            [
                ("share bond of a provider with an honest validator", _multiple(bounds.share_bond), "1 × its price"),
                (
                    "share bond, so that no one is paid twice by the cover",
                    _multiple(bounds.share_bond_cover),
                    "1 × its price",
                ),
                (
                    "share bond of a provider whose validator helps",
                    _multiple(bounds.share_bond_confirmed),
                    "1 × its price",
                ),
                (
                    "job bond, so that no consumer trains for nothing",
                    f"{bounds.job_bond_bps / BPS:.1%} of the price",
                    f"{amounts.job_bond / amounts.order_price:.1%} of the price",
                ),
                (
                    f"cover of {amounts.rounds_at_risk} rounds that one ruling makes void",
                    _assay(bounds.cover),
                    f"the job bond covers {bounds.rounds_covered} rounds",
                ),
                ("chance of a panel per round", f"{bounds.honest_rate_bps / BPS:.1%}", "100%"),
                ("segments that a panel draws", str(bounds.drawn_segments), str(amounts.drawn_segments)),
                ("chance of a check, by proof of sampling", f"{bounds.sampling:.1%}", "100%"),
            ],
        ),
        "A share bond of 0 means that the lost pay alone deters. A panel makes the whole round void, so a cluster risks"
        " much more than it saves.",
        "## Bribes",
        "A seat that a later stage refutes loses three times its pay, and at least the price of the round divided by"
        " the seats. A bribe has to be larger than this loss. A briber knows the seats only after the draw.",
        _bribes(policy),
        f"A cluster whose wrong round was drawn would pay up to {_assay(policy.bribes.worth)}. This is more than the"
        " price of a first stage, so bribes are deterred only by seats that do not take them: one honest seat brings in"
        " further stages. A [challenge](protocol.md#challenges) of the round leads to the last stage.",
        table(
            ("coalition", "confirms a wrong root", "denies a right root"),
            [
                (f"{row.percent}% of the validators", f"{row.confirms:.2%}", f"{row.denies:.2%}")
                for row in policy.bribes.captures
            ],
        ),
        "## Watchtowers",
        _watching(policy),
        "Watching pays only if lies are frequent, so some lies always remain (the inspection game). Panels are paid for"
        " every answer, and so do not depend on lies.",
        "## Formulas",
        table(("name", "formula", "meaning and source"), _FORMULAS),
        "## Published values",
        "Tests compare the formulas with these values:",
        _published(),
        source="pol/policy",
    )


def _bribes(policy: Policy) -> str:
    bribes = policy.bribes
    rows = (
        ("one seat", bribes.seat),
        ("a first stage, to confirm a wrong round", bribes.confirm),
        ("two stages, to make a right round void", bribes.deny),
        ("more than half of the last stage", bribes.last_stage),
    )
    return table(("bribe", "least price"), [(name, _assay(price)) for name, price in rows])


def _watching(policy: Policy) -> str:
    watching = policy.watching
    bond = _assay(watching.bond)
    return (
        f"Recomputing a segment costs {_assay(watching.check)}. A wrong share brings {_assay(watching.reward_share)},"
        f" and a validator's fault {_assay(watching.reward_validator)}. The bond of {bond} returns after"
        f" a right challenge. So recomputing random segments pays if more than {watching.least_wrong:.1%} of them are"
        f" wrong. With planted errors of 1%, a reward of {_assay(watching.jackpot)} would always pay."
    )


def _published() -> str:
    sampling = ", ".join(f"{least_sampling(0.9, 1.0, stake, 0.1):.2g}" for stake in (0, 1, 10, 100))
    checks = ", ".join(str(least_checks(0.1, chance)) for chance in (0.95, 0.99, 0.999))
    devices = ", ".join(
        f"{least_device_cost(0.5, 0.45, 0.45, g, 0.05, snooped=1.0, side=1.0):,.0f}"
        for g in (0.96, 0.99, 0.999, 0.9999)
    )
    majority = ", ".join(f"{majority_capture(part, 3):.1%}" for part in (0.1, 0.2, 0.33))
    unanimous = ", ".join(f"{unanimous_capture(part, 3):.1%}" for part in (0.1, 0.2, 0.33))
    return table(
        ("formula", "inputs", "values"),
        (
            ("proof of sampling", "C / R = 0.9, r = 0.1, S = 0, R, 10 R and 100 R", sampling),
            ("sampling", "x = 0.1, p = 95%, 99% and 99.9%", checks),
            ("majority of 3", "r = 10%, 20% and 33%", majority),
            ("unanimity of 3", "r = 10%, 20% and 33%", unanimous),
            ("device lost for good", "evML's example, g = 0.96, 0.99, 0.999 and 0.9999", devices),
        ),
    )


def _assay(value: float) -> str:
    """Return an amount of uassay in ASSAY, with four significant digits."""
    rounded = float(f"{value / ASSAY:.4g}")
    text = f"{rounded:,.7f}".rstrip("0").rstrip(".")
    return f"{'0' if text in ('-0', '') else text} ASSAY"


def _multiple(value: float) -> str:
    return f"{value:.2g} × its price" if isfinite(value) else "none suffices"
