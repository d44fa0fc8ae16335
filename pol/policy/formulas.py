"""Published formulas of the economics of checks, with their sources (``docs/policy.md``).

Symbols: ``reward`` is the pay for a task and ``cost`` its honest cost; ``gain`` is the profit of a lie that is not
found; ``stake`` is the money at risk; ``chance`` is the probability that a task is checked and judged rightly. All
amounts of a formula have the same unit.
"""

from math import ceil, comb, inf, log, log1p

_EXACT = 1e-9
"""Tolerance of a quotient of logarithms that should be a whole number."""


def future_income(reward: float, cost: float, discount: float) -> float:
    """Return the value of all later tasks, F = g (R - C) / (1 - g), for the discount factor g per task."""
    return discount * (reward - cost) / (1 - discount)


def is_deterred(chance: float, gain: float, reward: float, stake: float, future: float = 0.0) -> bool:
    """Return whether a lie loses in expectation: p (R + S + F) > G."""
    return chance * (reward + stake + future) > gain


def least_stake(chance: float, gain: float, reward: float, future: float = 0.0) -> float:
    """Return the stake above which a lie loses: S = G / p - R - F, and at least 0.

    The future F counts as nothing by default, because newcomers and parties that leave have none.
    """
    if gain <= 0:
        return 0.0
    return max(0.0, gain / chance - reward - future) if chance else inf


def least_sampling(cost: float, reward: float, stake: float, colluding: float = 0.0) -> float:
    """Return the chance of a check above which honesty is the only equilibrium: p = C / ((1 - r)(R + S)).

    ``colluding`` is the chance r that the checker is an accomplice. A value above 1 means that no chance suffices.
    Source: proof of sampling (arXiv 2405.00295).
    """
    return cost / ((1 - colluding) * (reward + stake))


def sampling_overhead(chance: float, check_cost: float, reward: float) -> float:
    """Return the cost of checks as a part of the price of all tasks."""
    return chance * check_cost / reward


def detection(part: float, checks: int) -> float:
    """Return the chance that at least one of ``checks`` uniform checks meets the bad ``part``: p = 1 - (1 - x)^c."""
    return 1 - float((1 - part) ** checks)


def detection_of(total: int, bad: int, checks: int) -> float:
    """Return the same chance if ``checks`` of ``total`` segments are checked, and ``bad`` of them are bad."""
    return 1 - comb(total - bad, checks) / comb(total, checks)


def least_checks(part: float, chance: float) -> int:
    """Return the least number of checks that meet the bad ``part`` with a chance: c = ln(1 - p) / ln(1 - x)."""
    return ceil(log(1 - chance) / log1p(-part) - _EXACT)


def equilibrium_fraud(check_cost: float, prize: float) -> float:
    """Return the part of lies of an inspection game without planted errors: x = c_v / J.

    The checker gets the ``prize`` J for a lie that it finds. With fewer lies, checks do not pay, so some lies always
    remain.
    """
    return check_cost / prize if prize > 0 else inf


def equilibrium_checks(gain: float, reward: float, stake: float) -> float:
    """Return the part of tasks that are checked in the same game: y = G / (R + S)."""
    return gain / (reward + stake)


def least_jackpot(check_cost: float, error_rate: float, claimants: int = 1) -> float:
    """Return the jackpot at which checks pay surely if a part of the answers has a planted error: J = k c_v / q."""
    return claimants * check_cost / error_rate


def unanimous_capture(part: float, seats: int) -> float:
    """Return the chance that all ``seats`` of a stage, drawn from a large pool, belong to a coalition: r^a."""
    return float(part**seats)


def majority_capture(part: float, seats: int) -> float:
    """Return the chance that a coalition has the majority of an odd number of seats, drawn from a large pool."""
    least = seats // 2 + 1
    return sum(comb(seats, k) * part**k * (1 - part) ** (seats - k) for k in range(least, seats + 1))


# --- devices whose credential is lost for good (evML) --------------------------------------------


def honest_device(reward: float, cost: float, discount: float) -> float:
    """Return the value of a device that works honestly for ever: (R - C) / (1 - g)."""
    return (reward - cost) / (1 - discount)


def snooping_device(reward: float, cost: float, discount: float, snooped: float) -> float:
    """Return the value of a broken device that works rightly and sells what it sees: (R - C + W) / (1 - g)."""
    return (reward - cost + snooped) / (1 - discount)


def lying_device(
    reward: float, lazy_cost: float, discount: float, chance: float, snooped: float = 0.0, side: float = 0.0
) -> float:
    """Return the value of a broken device that lies until it is found.

    A task brings (1 - p)(R + U) + W - C1. C1 is the cost of the lie, W the price of the data seen, and U the ``side``
    profit of a lie. A device that is found earns nothing from then on.
    """
    return ((1 - chance) * (reward + side) + snooped - lazy_cost) / (1 - (1 - chance) * discount)


def lying_once(
    reward: float,
    cost: float,
    lazy_cost: float,
    discount: float,
    chance: float,
    snooped: float = 0.0,
    side: float = 0.0,
) -> float:
    """Return the value of a broken device that lies now and then does what is best."""
    best = max(
        snooping_device(reward, cost, discount, snooped),
        lying_device(reward, lazy_cost, discount, chance, snooped, side),
    )
    return (1 - chance) * (reward + side) + snooped - lazy_cost + (1 - chance) * discount * best


def least_device_cost(
    reward: float,
    cost: float,
    lazy_cost: float,
    discount: float,
    chance: float,
    snooped: float = 0.0,
    side: float = 0.0,
) -> float:
    """Return the cost of breaking one device above which it does not pay: K = max(W / (1 - g), value of lying).

    ``discount`` is the factor g per task. The threshold is the gain of the better of both over honest work.
    """
    honest = honest_device(reward, cost, discount)
    broken = max(
        snooping_device(reward, cost, discount, snooped),
        lying_device(reward, lazy_cost, discount, chance, snooped, side),
    )
    return max(0.0, broken - honest)
