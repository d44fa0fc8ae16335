"""Pots and moves are folded from the words of all components, and what does not fit together is refused."""

import pytest

from domain.ledger.moves import BURNT_POT, ESCROWS_POT, SEND
from domain.ledger.words import WORDS as LEDGER
from domain.moves import Move, Pot
from domain.vocabulary import MOVES, fold_moves, fold_pots
from domain.words import Words


def test_nothing_leaves_what_is_burnt() -> None:
    assert all(move.source is not BURNT_POT for move in MOVES.values())


def test_all_that_leaves_an_escrow_says_what_of_it_is_used_up() -> None:
    for move in MOVES.values():
        assert (move.source is ESCROWS_POT) == (move.uses is not None), move.name


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (Words("other", pots=(Pot("fees", "a"),)), "the pot fees"),
        (Words("other", pots=(Pot("tips", BURNT_POT.address),)), "tips has the address"),
        (Words("other", moves=(SEND,)), "the move send"),
        (Words("other", moves=(Move("tip", Pot("tips"), BURNT_POT),)), "tip names the pot tips"),
        (Words("other", moves=(Move("tip", Pot("burnt"), BURNT_POT),)), "tip names the pot burnt"),
    ],
)
def test_components_whose_moves_do_not_fit_together_are_refused(words: Words, wrong: str) -> None:
    components = (LEDGER, words)
    with pytest.raises(ValueError, match=wrong):
        fold_moves(components, fold_pots(components))
