"""Mutants of pol_replay."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import TRIAL, TRIAL_TOGETHER

MUTANTS = (
    Mutant(
        "check-cost-part",
        "a check of a trace seems to cover another part of the training than it does",
        "pol/replay/replay.py",
        "part=segments / sum(share.segments for share in trace.shares)",
        "part=segments / len(trace.shares)",
        ("tests/unit/assay/cli/test_trace.py::test_a_whole_trace_holds",),
    ),
    Mutant(
        "one-slot-tried",
        "a job that stops at once in nine slots of ten finds a validator that accepts it",
        "pol/replay/trial.py",
        "        if other != slot:\n",
        "        if other > 10**6:\n",
        ("tests/unit/pol/replay/test_trial.py::test_the_first_step_of_every_slot_of_the_leg_is_tried",),
    ),
    Mutant(
        "trial-none",
        "a job is accepted that nobody has run",
        "pol/replay/trial.py",
        "return Trial(terms=trial.terms, times=try_job(loaded, request.slot, request.slots, executor))",
        "return Trial(terms=trial.terms)",
        (f"{TRIAL}::test_a_job_that_goes_to_infinity_at_once_is_declined",),
    ),
    Mutant(
        "trial-no-aggregation",
        "a trial does not end a round",
        "pol/replay/trial.py",
        "aggregate(loaded, loaded.global_state, repeat(update, document.slots), backend)",
        "repeat(update, document.slots)",
        (f"{TRIAL}::test_an_aggregation_that_is_not_finite_is_declined",),
    ),
    Mutant(
        "trial-memory",
        "a job may need more memory than the bid offers",
        "pol/replay/trial.py",
        "terms == request.terms and request.memory and needed > request.memory:",
        "terms == request.terms and not request.memory and needed > request.memory:",
        (f"{TRIAL}::test_a_job_that_needs_more_memory_than_the_bid_offers_is_declined",),
    ),
    Mutant(
        "trial-other-slots",
        "a trial on several machines does not try the other slots",
        "pol/replay/trial_together.py",
        "                if other != request.slot:\n",
        "                if other < 0:\n",
        (f"{TRIAL_TOGETHER}a_trial_has_the_verdict_of_one_process[the first step of another slot]",),
    ),
    Mutant(
        "trial-memory-together",
        "a validator accepts a job that no machine of a group can hold",
        "pol/replay/trial.py",
        "max(machine.memory for machine in cost.machines)",
        "0 * max(machine.memory for machine in cost.machines)",
        (f"{TRIAL_TOGETHER}each_machine_needs_the_memory_of_a_device",),
    ),
    Mutant(
        "trial-aggregation-together",
        "a trial on several machines makes no aggregation",
        "pol/replay/trial_together.py",
        "            outer = _time(group, OUTER, (first, *[update] * group.form.slots))\n",
        "            outer = close\n",
        (f"{TRIAL_TOGETHER}a_trial_has_the_verdict_of_one_process[an aggregation]",),
    ),
    Mutant(
        "trial-states",
        "the process that checks a job has its states in memory",
        "pol/replay/trial.py",
        "loaded = verify_job(request.directory)",
        "loaded = load_job(request.directory)",
        (f"{TRIAL_TOGETHER}no_state_of_a_tried_job_is_whole_in_one_process",),
    ),
)
