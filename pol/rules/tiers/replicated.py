"""The tier ``replicated``: several validators each train the whole order, and compare the roots of each round.

The roots of a round are hidden until all of them have committed to it, so no one can copy them. A round whose roots are
equal was recomputed whole, by strangers. A difference brings a panel at the place where it begins. Validators that
collude can agree on wrong roots. So a lot also draws panels, with the chance and the bonds of ``sampled``: a wrong
round then costs them more than it gains on average, even if all of them are one party
(``docs/decisions/replicas.md``).
"""

from dataclasses import replace

from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.sampled import SAMPLED
from pol.rules.tiers.tier import Description, Tier

REPLICATED: Tier = replace(
    EXACT,
    name="replicated",
    description=Description(
        arithmetic=EXACT.description.arithmetic,
        recomputed="every round, whole, by each other validator of the order; a panel for a difference, and by a lot",
        agreement=EXACT.description.agreement,
        promise="every step is recomputed by strangers before it is paid",
        against="any validator and provider, unless all validators of the order collude; those lose on average",
        cost="the price of the work, once for each validator",
    ),
    rate=SAMPLED.rate,
    least_multiple=SAMPLED.least_multiple,
    replicates=True,
)
