"""The metrics of a watchtower."""

from host.metrics import Metric, MetricKind

CLOCK = Metric("assay_watchtower_chain_clock", MetricKind.GAUGE, "Chain clock at the last look, in seconds.")
LOOK_AGE = Metric(
    "assay_watchtower_look_age_seconds", MetricKind.GAUGE, "Seconds since the last successful look at the chain."
)
NODE_UP = Metric("assay_watchtower_node_up", MetricKind.GAUGE, "1 if the node answers, otherwise 0.")
ROUNDS = Metric(
    "assay_watchtower_rounds", MetricKind.GAUGE, "Closed rounds that the watchtower may recompute places of now."
)
PLACES = Metric(
    name="assay_watchtower_places_total",
    kind=MetricKind.COUNTER,
    help="Places that the watchtower looked at, by outcome: right, wrong, unserved (the validator did not serve it),"
    " refused (the validator refused to serve it), failed (it could not be recomputed here).",
    labels=("outcome",),
)
PLACE_SECONDS = Metric(
    "assay_watchtower_place_seconds", MetricKind.HISTOGRAM, "Seconds to fetch and recompute a place."
)
WORK = Metric("assay_watchtower_work_flops_total", MetricKind.COUNTER, "FLOPs of all recomputed places.")
CHALLENGES = Metric(
    name="assay_watchtower_challenges",
    kind=MetricKind.GAUGE,
    help="Challenges of this home, by state: pending (not on the chain yet), or the state on the chain.",
    labels=("state",),
)
BOND_LOCKED = Metric(
    "assay_watchtower_bond_locked_uassay", MetricKind.GAUGE, "Bonds of challenges that are locked now (uassay)."
)
EARNED = Metric("assay_watchtower_earned_uassay", MetricKind.GAUGE, "Rewards of all challenges of this home (uassay).")
LOST = Metric("assay_watchtower_lost_uassay", MetricKind.GAUGE, "Bonds that challenges of this home lost (uassay).")
METRICS = (
    CLOCK,
    LOOK_AGE,
    NODE_UP,
    ROUNDS,
    PLACES,
    PLACE_SECONDS,
    WORK,
    CHALLENGES,
    BOND_LOCKED,
    EARNED,
    LOST,
)
