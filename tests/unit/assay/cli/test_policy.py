"""The policy of a chain, from defaults, a genesis file or a node, in words and as JSON."""

from pathlib import Path
from typing import Any

import pytest

from assay.cli.founding import found_chain
from domain.genesis import GenesisValidator
from domain.params import Params, local_params
from domain.proof.params import ProofParams
from pol.policy.market import PolicyInputs, ReferenceJob
from pol.policy.policy import compute_policy
from tests.unit.assay.support import assay, modules_after
from wire.keys import Key

FIELDS = {"network", "job", "inputs", "amounts", "strategies", "bounds", "bribes", "watching"}


def policy(*words: object) -> Any:
    ran = assay("policy", *words, "--output", "json")
    assert ran.code == 0, ran
    return ran.json


def founders(count: int, stake: int) -> tuple[GenesisValidator, ...]:
    made = []
    for number in range(count):
        key, beacon = Key(bytes([1 + number]) * 32), Key(bytes([101 + number]) * 32)
        made.append(
            GenesisValidator(
                operator=key.address,
                moniker=f"v{number}",
                cons_key=bytes([number]) * 32,
                beacon_key=beacon.pub_key,
                stake=stake + number,
            )
        )
    return tuple(made)


@pytest.mark.parametrize(("network", "params", "count"), [("public", Params(), 100), ("local", local_params(), 4)])
def test_the_defaults_of_a_network(network: str, params: Params, count: int) -> None:
    value = policy("--network", network)
    assert set(value) == FIELDS
    assert value["inputs"]["validators"] == count
    inputs = PolicyInputs(**value["inputs"])
    expected = compute_policy(ReferenceJob().terms, params.for_founders(count), inputs)
    assert [row["gain"] for row in value["strategies"]] == pytest.approx([row.gain for row in expected.strategies])
    assert [row["name"] for row in value["strategies"] if row["pays"]] == [
        row.name for row in expected.strategies if row.pays
    ]


@pytest.mark.parametrize("chain_id", ["assay-local-1", "assay-1"])
def test_a_genesis_file(tmp_path: Path, chain_id: str) -> None:
    """New chains of both kinds have the parameters for which the policy is tested."""
    path = tmp_path / "genesis.json"
    path.write_bytes(found_chain(chain_id, founders(7, 5 * 10**9), {}))
    value = policy("--genesis", path)
    assert value["network"] == str(path)
    assert (value["inputs"]["validators"], value["inputs"]["stake"]) == (7, 5 * 10**9)
    network = "local" if chain_id.startswith("assay-local") else "public"
    same = policy("--network", network, "--validators", "7", "--stake", "5000ASSAY")
    assert {name: value[name] for name in FIELDS - {"network"}} == {name: same[name] for name in FIELDS - {"network"}}


def test_a_job_directory(made: Path) -> None:
    value = policy(made, "--network", "local")
    assert value["job"] == str(made)
    assert value["amounts"]["segments"] == 4  # two slots of two segments


def test_options_are_inputs() -> None:
    words = "--price 2ASSAY --validators 31 --stake 99ASSAY --cost-bps 5000 --replay-cost 3ASSAY --providers-bps 7000"
    more = "--coalition 3 --wrong-bps 50 --side 1ASSAY --share-bond 3 --cover-bps 700 --tier sampled"
    job = "--slots 4 --segments 20 --rounds 5 --step-work 2000000000"
    value = policy(*words.split(), *more.split(), *job.split())
    assert value["inputs"] == {
        "price": 2 * 10**6,
        "cost_bps": 5000,
        "replay_cost": 3 * 10**6,
        "providers_bps": 7000,
        "validators": 31,
        "stake": 99 * 10**6,
        "coalition": 3,
        "own_picks": 1,
        "wrong_bps": 50,
        "side": 10**6,
        "multiple": 3,
        "cover_bps": 700,
        "tier": "sampled",
        "attested": False,
    }
    assert value["job"] == {"slots": 4, "segments": 20, "rounds": 5, "step_work": 2 * 10**9}
    assert value["amounts"]["segments"] == 80


def test_what_no_value_suffices_for_is_null() -> None:
    value = policy("--side", "1000000ASSAY")
    assert value["bounds"]["drawn_segments"] is None
    assert "none suffices" in assay("policy", "--side", "1000000ASSAY").out


def test_words_for_people() -> None:
    told = assay("policy").out
    auditors = Params().of(ProofParams).auditors
    assert auditors == 3
    for part in (
        "1 ASSAY per PFLOP",
        "2 of 400",
        "consumer and cluster",
        "(pays)",
        "0.5%",
        "more than half of the last",
    ):
        assert part in told
    assert told.rstrip().endswith("sacrificed share")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--validators", "4", "--coalition", "4"), "give at most --coalition 3"),
        (("--genesis", "none.json"), "does not exist"),
    ],
)
def test_refusals(words: tuple[str, ...], refusal: str) -> None:
    ran = assay("policy", *words)
    assert ran.code
    assert refusal in ran.err


def test_sizes_are_those_of_the_reference_job(made: Path) -> None:
    ran = assay("policy", made, "--slots", "3")
    assert ran.code == 2
    assert "--slots is a size of the reference job" in ran.err


def test_a_policy_needs_no_numerics() -> None:
    loaded = modules_after(
        "import sys\nfrom assay.cli.main import main\n"
        "sys.argv = ['assay', 'policy', '--output', 'json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert not {"numpy", "torch"} & loaded
