"""Refusals read as one line, and no code means two things."""

from domain import errors
from domain.errors import BAD_FIELD, NOT_FOUND, UNAUTHORIZED, Code, Refusal

CODES = [item for item in vars(errors).values() if isinstance(item, Code)]

# Numbers of the Cosmos SDK (types/errors/errors.go): clients look at them, so they never move.
SDK = {
    "tx_decode": 2,
    "invalid_sequence": 3,
    "unauthorized": 4,
    "insufficient_funds": 5,
    "unknown_request": 6,
    "invalid_address": 7,
    "invalid_pubkey": 8,
    "unknown_address": 9,
    "invalid_coins": 10,
    "out_of_gas": 11,
    "memo_too_large": 12,
    "insufficient_fee": 13,
    "invalid_request": 18,
    "tx_in_cache": 19,
    "mempool_full": 20,
    "tx_too_large": 21,
    "tx_timeout_height": 30,
    "wrong_sequence": 32,
}
# Ours: a number that was given is never given again.
ASSAY = {
    "bad_field": 1,
    "not_found": 2,
    "wrong_state": 3,
    "deadline_passed": 4,
    "not_yet": 5,
    "not_yours": 6,
    "already_exists": 7,
    "insufficient_bond": 8,
    "insufficient_deposit": 9,
    "bad_proof": 10,
    "slot_missing": 11,
    "too_slow_to_audit": 12,
    "unsupported": 13,
    "limit_reached": 14,
}


def test_the_text_is_field_reason_remedy() -> None:
    refusal = Refusal(BAD_FIELD, "terms.batch", "must be in 1..9", "use fewer")
    assert str(refusal) == "terms.batch: must be in 1..9; use fewer"
    assert (refusal.code, refusal.field) == (BAD_FIELD, "terms.batch")
    assert (refusal.reason, refusal.remedy) == ("must be in 1..9", "use fewer")


def test_without_a_remedy_the_text_ends_with_the_reason() -> None:
    assert str(Refusal(NOT_FOUND, "order_id", "no such order")) == "order_id: no such order"
    assert Refusal(NOT_FOUND, "order_id", "no such order").remedy == ""


def test_codes_are_unique_and_never_success() -> None:
    assert len({(code.space, code.number) for code in CODES}) == len(CODES)
    assert len({(code.space, code.name) for code in CODES}) == len(CODES)
    assert all(code.number > 0 for code in CODES)
    assert {code.space for code in CODES} == {"sdk", "feegrant", "authz", "slashing", "assay"}


def test_numbers_never_move() -> None:
    numbers = {(code.space, code.name): code.number for code in CODES}
    for name, number in SDK.items():
        assert numbers["sdk", name] == number
    for name, number in ASSAY.items():
        assert numbers["assay", name] == number
    assert UNAUTHORIZED.number == 4
