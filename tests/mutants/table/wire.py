"""Mutants of wire."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import HANDOVER, SHARED, SIGNED, TRANSACTIONS, VECTORS

VRF = f"{VECTORS}[vrf]"
_VRF = "tests/unit/wire/test_vrf.py"
_CANONICAL = "tests/unit/wire/test_canonical.py"
_TX = "tests/unit/wire/test_tx.py"
_MULTISIG = "tests/unit/wire/test_multisig.py"
_DLEQ = "tests/unit/wire/test_dleq.py"

MUTANTS = (
    Mutant(
        "vrf-any-value",
        "the proof holds for any value, because nothing is compared on its side",
        "wire/vrf.py",
        "second = _difference(hashed.multiply(s), PublicKey(gamma).multiply(c))",
        "second = hashed.multiply(s)",
        (_VRF,),
    ),
    Mutant(
        "vrf-random-nonce",
        "one nonce for all messages, which gives the key away",
        "wire/vrf.py",
        'hash_fields("assay/vrf/nonce", secret, message)',
        'hash_fields("assay/vrf/nonce", secret)',
        (VRF,),
    ),
    Mutant(
        "not-utf8",
        "text that is no UTF-8 stops a node whose protobuf is not upb",
        "wire/canonical.py",
        "UNREADABLE = (DecodeError, ValueError)",
        "UNREADABLE = (DecodeError,)",
        (f"{_CANONICAL}::test_text_that_is_no_utf8_is_refused_by_every_implementation",),
    ),
    Mutant(
        "fee-as-bytes",
        "a fee that is left as bytes may be encoded in another way than the one",
        "wire/tx.py",
        'fee = parse(Fee, encoded, "auth_info.fee")',
        "fee = Fee.FromString(encoded)",
        (f"{_TX}::test_parts_that_are_left_as_bytes_have_one_encoding_too",),
    ),
    Mutant(
        "envelope-unknown",
        "what this chain gives no meaning to is read as if it were not there",
        "wire/envelope.py",
        "        if how is None:\n            continue\n",
        '        if how is None and field.name != "unordered":\n            continue\n        how = how or _AS_IT_IS\n',
        (f"{_TX}::test_refused_with_code_field_and_remedy[unordered]",),
    ),
    Mutant(
        "list-cap",
        "the items of a list are read before its cap is looked at",
        "wire/convert.py",
        """        fits(values)
        # Copying the whole""",
        """        if read is None:
            fits(values)
        # Copying the whole""",
        (f"{_CANONICAL}::test_a_list_over_its_cap_is_refused_before_its_items_are_read",),
    ),
    Mutant(
        "amino-payer",
        "a text of amino JSON leaves out who pays the fee",
        "wire/amino.py",
        "    if shown.payer:\n",
        "    if not shown:\n",
        (f"{SIGNED}::test_what_was_signed_cannot_be_changed",),
    ),
    Mutant(
        "amino-without-key",
        "a transaction that was signed as text can be encoded with and without its key",
        "wire/tx.py",
        "    if mode is not SignMode.DIRECT and not has_key and not simulated:\n",
        "    if not mode:\n",
        (f"{_TX}::test_refused_with_code_field_and_remedy[amino without a key]",),
    ),
    Mutant(
        "amino-depth",
        "messages inside messages are written at any depth",
        "wire/amino.py",
        "    if depth > _PACKED_DEPTH_MAX:\n",
        "    if depth < 0:\n",
        ("tests/unit/wire/test_amino.py::test_messages_inside_messages_are_bounded",),
    ),
    Mutant(
        "amino-integers",
        "integers of eight bytes are numbers in amino JSON",
        "wire/amino.py",
        "        return lambda value, depth: str(value)\n",
        "        return lambda value, depth: value\n",
        (TRANSACTIONS, "tests/unit/wire/test_amino.py"),
    ),
    Mutant(
        "multisig-threshold",
        "fewer members than needed sign for a multisig account",
        "wire/multisig.py",
        "    if len(signers) < threshold:\n",
        "    if not signers:\n",
        (f"{SHARED}::test_too_few_members",),
    ),
    Mutant(
        "multisig-left-over",
        "signatures without a bit may be added to those of a multisig account",
        "wire/multisig.py",
        "    if not len(signers) == len(signatures) == len(infos):\n",
        "    if not len(signers) <= len(signatures) == len(infos):\n",
        (f"{_MULTISIG}::test_wrong_lists_are_refused[a signature and a mode without a bit]",),
    ),
    Mutant(
        "multisig-bits",
        "bits behind the last member may have any value",
        "wire/multisig.py",
        '    if places << -count % 8 != int.from_bytes(elems, "big"):\n',
        "    if count < 0:\n",
        (f"{_MULTISIG}::test_wrong_lists_are_refused[a bit behind the last]",),
    ),
    Mutant(
        "multisig-bit-size",
        "the number of bits need not be that of the members",
        "wire/multisig.py",
        "    if bits.extra_bits_stored != count % 8 or len(elems) != (count + 7) // 8:\n",
        "    if len(elems) != (count + 7) // 8:\n",
        (f"{_MULTISIG}::test_wrong_lists_are_refused[two bits]",),
    ),
    Mutant(
        "multisig-nested",
        "a member of a multisig key may be of any type",
        "wire/multisig.py",
        "        if each.type_url != PUB_KEY_URL:\n",
        "        if not each.type_url:\n",
        (f"{_MULTISIG}::test_wrong_keys_are_refused[a multisig key inside]",),
    ),
    Mutant(
        "more-than-exists",
        "an amount that cannot exist is refused in words that no wallet knows",
        "wire/convert.py",
        "            if above is not None and len(text) <= _DIGITS_SHOWN:\n",
        "            if above is None:\n",
        (f"{_TX}::test_more_than_can_exist_is_refused_in_the_words_of_wallets",),
    ),
    Mutant(
        "words-checksum",
        "words with a typing error give a key",
        "wire/mnemonic.py",
        "    if words_of(entropy).split() != words:\n",
        "    if not words:\n",
        ("tests/unit/wire/test_mnemonic.py::test_wrong_words_are_refused_without_repeating_them",),
    ),
    Mutant(
        "timeout-height",
        "a transaction is sent without its last height",
        "wire/tx.py",
        "memo=memo, timeout_height=timeout_height)",
        "memo=memo)",
        (TRANSACTIONS,),
    ),
    Mutant(
        "chunk-nonce",
        "results are encrypted with another nonce",
        "wire/cipher.py",
        "_NONCE = bytes(12)",
        "_NONCE = bytes(11) + bytes([1])",
        (HANDOVER,),
    ),
    Mutant(
        "dleq-weak",
        "the challenge leaves out the shared point, so that anyone can make a proof for another one",
        "wire/dleq.py",
        "public + point + shared + generator + first + second + message)",
        "public + point + generator + first + second + message)",
        (_DLEQ,),
    ),
    Mutant(
        "dleq-no-message",
        "a proof is for every message",
        "wire/dleq.py",
        "generator + first + second + message)",
        "generator + first + second)",
        (_DLEQ,),
    ),
)
