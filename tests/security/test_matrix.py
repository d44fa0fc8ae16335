"""Every adversary once, against the product's own checks and against the baselines of the table in docs/matrix.md."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.checkers.alarms import is_outside_pev
from benchmarks.checkers.exact import Everything, Panels, Replicas, has_panel
from benchmarks.checkers.products import LARGEST, holds
from benchmarks.checkers.proof_of_learning import ProofOfLearning, p_value
from benchmarks.checkers.rounding_log import Auditor, Trainer, is_same, packed, trained, unpacked
from benchmarks.checkers.tolerant import Tolerant, Twin, make_twin
from pol.rules.tiers.replicated import REPLICATED
from pol.rules.tiers.sampled import SAMPLED
from pol.rules.tiers.table import DEFAULT_TIERS, tier_named
from pol.rules.tiers.tier import AnswerVerdict
from tests.security import attacks
from tests.security.attacks import ATTACKS, Attack, lots
from tests.security.lazy_seat import is_copy_refused, verdict_on
from tests.security.setting import Setting, make_setting

ROUNDS = 3
LOT = bytes(32)
EXACT = tier_named(DEFAULT_TIERS[0])
FRAMED = 27
PASS_ALL = {5, 6, 8, 9, 10, 11, 12, 15, 16, 17, 18, 20, 21, 22, 25, 28, 29, 33}
"""Adversaries whom Proof-of-Learning accepts, even if it trains every interval again."""
PASS_TOP = PASS_ALL | {3, 7, 23}
"""Adversaries whom it accepts if it checks the intervals that moved most."""


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return make_setting(tmp_path_factory.mktemp("matrix"), ROUNDS)


def test_the_list_of_adversaries_is_whole() -> None:
    assert sorted([*(attack.number for attack in ATTACKS), 26]) == list(range(1, 34))


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_every_attack_is_found_here_and_passes_where_the_papers_say(setting: Setting, attack: Attack) -> None:
    claim = attack.claim(setting)
    found = Everything(EXACT).examine(setting, claim)(LOT).fault
    assert bool(found) is (attack.number != FRAMED)
    top = ProofOfLearning("top-Q").examine(setting, claim)(LOT).fault
    assert (not top) is (attack.number in PASS_TOP | {FRAMED}), top
    whole = ProofOfLearning("all").examine(setting, claim)(LOT).fault
    assert (not whole) is (attack.number in PASS_ALL | {FRAMED}), whole


def test_no_checker_rejects_honest_work(setting: Setting) -> None:
    for checker in (Everything(EXACT), Panels(EXACT), ProofOfLearning("top-Q"), ProofOfLearning("all")):
        assert checker.examine(setting, setting.honest)(LOT).fault == ""


def test_a_panel_finds_what_its_lot_draws(setting: Setting) -> None:
    """One wrong segment is found by as many lots as draw it: chance, and not knowledge of the provider, decides."""
    judge = Panels(EXACT).examine(setting, attacks.smuggled_momentum(setting))
    verdicts = [judge(lot).fault for lot in attacks.lots(100, "one")]
    assert set(verdicts) == {"", "round 2, segment 38: segment_mismatch"}
    assert 2 <= sum(map(bool, verdicts)) <= 25


def test_a_replica_finds_every_false_result(setting: Setting) -> None:
    """One wrong segment is enough. What has the right roots is not wrong, and hashes and duties show the rest."""
    for attack in ATTACKS:
        fault = Replicas(REPLICATED).examine(setting, attack.claim(setting))(LOT).fault
        assert bool(fault) is (attack.number != FRAMED), attack
    assert Replicas(REPLICATED).examine(setting, setting.honest)(LOT).fault == ""


def test_a_lot_decides_about_panels(setting: Setting) -> None:
    rounds = [has_panel(setting, SAMPLED, 0, lot) for lot in attacks.lots(200, "rate")]
    assert 20 < sum(rounds) < 200
    assert all(has_panel(setting, EXACT, 0, lot) for lot in attacks.lots(20, "rate"))


def test_the_same_momentum_jump_without_made_velocities_is_rejected_by_both(setting: Setting) -> None:
    claim = attacks.smuggled_momentum(setting)
    chain = claim.rounds[-1].checkpoints
    honest = replace(chain[-2], velocity=setting.honest.rounds[-1].checkpoints[-2].velocity)
    last = replace(claim.rounds[-1], checkpoints=(*chain[:-2], honest, chain[-1]))
    tame = replace(claim, rounds=(*claim.rounds[:-1], last))
    assert ProofOfLearning("all").examine(setting, tame)(LOT).fault
    assert Everything(EXACT).examine(setting, tame)(LOT).fault


def test_code_in_a_checkpoint_runs_in_the_baseline_only(setting: Setting) -> None:
    claim = attacks.checkpoint_as_code(setting)
    attacks.RAN.clear()
    Everything(EXACT).examine(setting, claim)(LOT)
    assert attacks.RAN == []
    ProofOfLearning("top-Q").examine(setting, claim)(LOT)
    assert attacks.RAN
    assert pickle.loads(claim.rounds[0].checkpoints[0].file or b"").weights is not None


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_a_lazy_seat_is_refuted(seats: int) -> None:
    for lot in attacks.lots(10, "lazy"):
        assert verdict_on(lot, seats) is AnswerVerdict.REFUTED
        assert is_copy_refused(lot)


def test_an_auditor_with_a_rounding_log_follows_a_false_log() -> None:
    honest, false = Trainer(), Trainer(steers=True)
    model, steered = trained(honest, 3), trained(false, 3)
    assert not is_same(model, steered)
    assert is_same(trained(Auditor(iter(honest.log)), 3), model)
    assert is_same(trained(Auditor(iter(false.log)), 3), steered)


def test_symbols_of_a_rounding_log_fit_five_to_a_byte() -> None:
    symbols = np.random.default_rng(0).integers(0, 3, 1003).astype(np.uint8)
    assert len(packed(symbols)) == 201
    assert np.array_equal(unpacked(packed(symbols), 1003), symbols)


def test_the_tests_of_the_baselines_are_those_of_their_papers() -> None:
    uniforms = (np.arange(1000) + 0.5) / 1000
    assert p_value(uniforms) > 0.99
    assert p_value(uniforms**2) < 1e-6
    # With a sample of 10 %, PEV accepts a loss that is nine standard deviations away.
    losses = [1.0, 2.0, 3.0]
    assert not is_outside_pev(2.0 + 9 * float(np.std(losses)), losses)
    assert is_outside_pev(2.0 + 11 * float(np.std(losses)), losses)
    assert is_outside_pev(float("nan"), losses)


def test_a_two_sided_check_finds_one_wrong_number_of_a_product() -> None:
    random = np.random.default_rng(0)
    left, right = (random.integers(-LARGEST, LARGEST + 1, (64, 64)).astype(np.float64) for _ in range(2))
    vectors = random.integers(0, 2**26, (64, 3)).astype(np.float64)
    product = left @ right
    assert holds(left, right, product, vectors)
    for change in (1.0, -1.0, 2.0**14):
        wrong = product.copy()
        wrong[5, 7] += change
        assert not holds(left, right, wrong, vectors)
        # A change that cancels in the sum of a row.
        wrong[5, 8] -= change
        assert not holds(left, right, wrong, vectors)


# --- the column of hardware arithmetic -----------------------------------------------------------


@pytest.fixture(scope="module")
def twin(setting: Setting) -> Twin:
    return make_twin(setting, segments=4)


def test_honest_work_of_another_machine_is_within_the_thresholds(twin: Twin) -> None:
    honest, framed = twin.setting.honest, attacks.framed(twin.setting)
    for lot in lots(5, "honest"):
        assert Tolerant().examine(twin.setting, honest)(lot).fault == ""
        assert Tolerant().examine(twin.setting, framed)(lot).fault == ""


@pytest.mark.parametrize("number", [1, 2, 15, 16, 17, 19, 28])
def test_a_false_segment_is_outside_the_thresholds(twin: Twin, number: int) -> None:
    (attack,) = (each for each in ATTACKS if each.number == number)
    judge = Tolerant().examine(twin.setting, attack.claim(twin.setting))
    assert all(judge(lot).fault for lot in lots(5, str(attack)))
