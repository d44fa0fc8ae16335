"""Mutants of assay."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "multisign-unverified",
        "signatures of members are joined without a check",
        "assay/cli/signatures.py",
        "        if sequence != account.sequence or not verify(part.key, signed, part.signature):\n",
        "        if not signed:\n",
        ("tests/unit/assay/cli/test_transactions.py::test_a_multisig_account",),
    ),
    Mutant(
        "recover-without-words",
        "a key is made up if no words were entered",
        "assay/cli/keys.py",
        "    if words is not None:\n",
        "    if words:\n",
        ("tests/unit/assay/cli/test_transactions.py::test_a_key_from_the_words_of_another_wallet",),
    ),
    Mutant(
        "last-event-lost",
        "a program that follows an order is not told how it ended",
        "assay/session.py",
        "                if page is not None and last:\n",
        "                if page is not None and since > 1:\n",
        ("tests/unit/assay/test_session.py::test_what_happened_before_the_last_look_is_told",),
    ),
    Mutant(
        "status-of-the-dead",
        "a network whose supervisor was killed is shown as running",
        "assay/cli/localnet.py",
        "for state in states if running and state",
        "for state in states if state",
        ("tests/unit/assay/cli/test_localnet.py::test_status_after_a_crash",),
    ),
    Mutant(
        "options-as-receivers",
        "an option that there is not is taken for who gets the coins",
        "assay/cli/arguments.py",
        'if re.match("-[0-9]", word)]',
        'if re.match("-", word)]',
        ("tests/unit/assay/cli/test_tree.py::test_an_unknown_option_is_no_receiver",),
    ),
    Mutant(
        "story-twice",
        "the demo tells what it told before",
        "assay/cli/story.py",
        "        is_new = what not in self._reported\n",
        "        is_new = True\n",
        ("tests/unit/assay/cli/test_story.py",),
    ),
)
