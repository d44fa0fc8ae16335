"""The comparison of vectors across a change of names finds names wherever they stand, and nothing else."""

from tests.vectors.renamed import renamed


def test_names_change_wherever_they_stand() -> None:
    old = {
        "opening_root": "ab",
        "app_hash": "00",
        "events": [[7, "validator.beacon_key", "counts_from=16", 'seat={"zeta":1,"found":null}']],
        "kind": "held_burn",
    }
    assert renamed(old) == {
        "initial_root": "ab",
        "app_hash": None,
        "events": [[7, "validator.beacon_key", "valid_from=16", 'seat={"finding":null,"zeta":1}']],
        "kind": "withheld_burn",
    }


def test_other_values_stay() -> None:
    kept = {"price": 5, "text": "it was found", "data": "a=b", "list": ["x", 1, None]}
    assert renamed(kept) == kept
