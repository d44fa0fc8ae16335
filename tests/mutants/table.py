"""The mutants, by what they break; each change of the rules adds those that its tests are meant to notice."""

from dataclasses import dataclass

_VECTORS = "tests/vectors/test_vectors.py::test_the_code_makes_what_the_file_has"
MARKET = f"{_VECTORS}[market]"
TRANSACTIONS = f"{_VECTORS}[transactions]"
COMMITMENTS = f"{_VECTORS}[commitments]"
LOT = f"{_VECTORS}[lot]"
LINK = f"{_VECTORS}[link]"
HANDOVER = f"{_VECTORS}[handover]"
STATE = f"{_VECTORS}[state]"
JOB = f"{_VECTORS}[job]"
_MATCH = "tests/unit/matching_engine/test_match.py"
ADDRESS_FIELDS = "tests/unit/wire/test_address_fields.py::test_what_is_no_address_is_refused"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: ``old`` occurs once in ``file`` and becomes ``new``; one of ``tests`` must then fail."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    # --- the state, and what it costs to change it ---
    Mutant(
        "share-key",
        "shares lie under another key of the state",
        "chain/state_machine/proof/tables.py",
        'SHARES = Table(0x32, "share"',
        'SHARES = Table(0x4B, "share"',
        (MARKET,),
    ),
    Mutant(
        "tree-leaf",
        "the leaf of the state's tree hashes the key itself",
        "chain/app/smt.py",
        "return sha256(LEAF_PREFIX + sha256(key).digest() + value_hash).digest()",
        "return sha256(LEAF_PREFIX + key + value_hash).digest()",
        (MARKET,),
    ),
    Mutant(
        "submit-gas",
        "an order costs the gas of any message",
        "domain/messages.py",
        "GAS_EXTRA: ClassVar[int] = 4",
        "GAS_EXTRA: ClassVar[int] = 0",
        (TRANSACTIONS, MARKET),
    ),
    Mutant(
        "share-gas",
        "the second signature of a share costs nothing",
        "domain/messages.py",
        '{"shares": 2, "rejections": 1}',
        '{"shares": 1, "rejections": 1}',
        (TRANSACTIONS, MARKET),
    ),
    # --- the market ---
    Mutant(
        "equal-prices",
        "among equal prices the bid is not drawn for each order anew",
        "matching_engine/match.py",
        'hash_fields("assay/match/bid", seed, order.order_id, bid.id)',
        'hash_fields("assay/match/bid", order.order_id, bid.id)',
        (f"{_MATCH}::test_equal_prices_go_to_the_lowest_hash_of_seed_order_and_bid",),
    ),
    Mutant(
        "excluded",
        "an order goes back to the validator that declined it",
        "matching_engine/conditions.py",
        "validator not in order.excluded,",
        "validator not in order.excluded[1:],",
        (MARKET,),
    ),
    Mutant(
        "dropped-block",
        "a block that is dropped leaves its bids in the living book",
        "chain/state_machine/market/book.py",
        "self._unsure = dict.fromkeys(changed)",
        "self._unsure = {}",
        ("tests/property/test_living_book.py", "tests/unit/chain/app/test_living_book.py"),
    ),
    Mutant(
        "lost-step",
        "a living book that missed a commit goes on as if nothing had happened",
        "chain/state_machine/market/book.py",
        "if step.before == self._version:",
        "if step.before:",
        ("tests/property/test_living_book.py",),
    ),
    Mutant(
        "cut-rest",
        "what does not divide among auditors is not burnt",
        "escrow/settle.py",
        "for receiver in receivers), pot - each * len(receivers)",
        "for receiver in receivers), 0",
        ("tests/unit/escrow/test_settle.py",),
    ),
    Mutant(
        "round-pay",
        "providers share the validator's part",
        "escrow/settle.py",
        "pool = bps_floor(rest, providers_bps)",
        "pool = rest",
        (MARKET,),
    ),
    Mutant(
        "bond-wait",
        "a bond that is asked back arrives a second early",
        "chain/state_machine/ledger/balances.py",
        "if w.release_at <= ctx.clock)",
        "if w.release_at <= ctx.clock + 1)",
        (MARKET,),
    ),
    # --- what is drawn, hashed and signed ---
    Mutant(
        "lot-swap",
        "a draw forgets what it moved, and may draw a number twice",
        "pol/rules/lots.py",
        "drawn.append(moved.get(picked, picked))",
        "drawn.append(picked)",
        (LOT,),
    ),
    Mutant(
        "lot-seed",
        "the lots of different purposes are the same",
        "pol/rules/lots.py",
        '"assay/lot", *hashes, purpose, lot_id)',
        '"assay/lot", *hashes, lot_id)',
        (LOT, MARKET),
    ),
    Mutant(
        "share-version",
        "a share's signature does not bind the executor's version",
        "pol/rules/commitment.py",
        "        claim.update_root,\n        u32(claim.executor_version),\n",
        "        claim.update_root,\n",
        (COMMITMENTS,),
    ),
    Mutant(
        "leaf-provider",
        "a trace could be handed in by another provider",
        "pol/rules/commitment.py",
        "        provider,\n        u32(index),\n",
        "        u32(index),\n",
        (COMMITMENTS,),
    ),
    Mutant(
        "tree-split",
        "leaves and inner nodes of a Merkle tree hash alike",
        "domain/hashing.py",
        r'sha256(b"\x01" + left + right)',
        r'sha256(b"\x00" + left + right)',
        (COMMITMENTS,),
    ),
    # --- the wire ---
    Mutant(
        "to-address",
        "coins can be sent to any text",
        "domain/messages.py",
        "    to_address: Address\n",
        "    to_address: Annotated[str, Visible(), Size(0, TEXT_MAX)]\n",
        (ADDRESS_FIELDS,),
    ),
    Mutant(
        "auditor",
        "an auditor can be any text",
        "domain/messages.py",
        "    auditor: Address\n",
        "    auditor: Annotated[str, Visible(), Size(0, TEXT_MAX)]\n",
        (ADDRESS_FIELDS,),
    ),
    Mutant(
        "signer",
        "a provider certifies itself",
        "domain/messages.py",
        'SIGNER: ClassVar[str] = "validator"\n    validator: Address\n    provider: Address\n',
        'SIGNER: ClassVar[str] = "provider"\n    provider: Address\n    validator: Address\n',
        (TRANSACTIONS,),
    ),
    Mutant(
        "bounds-of-python",
        "the state machine takes the bounds of messages that Python made for granted",
        "chain/state_machine/handler.py",
        "        if not is_bounded:\n",
        "        if is_bounded:\n",
        (
            "tests/unit/chain/state_machine/registry/handlers/test_registry.py"
            "::test_measurements_are_bounded",
        ),
    ),
    Mutant(
        "sign-chain",
        "a transaction is signed for all chains",
        "domain/tx.py",
        r'        + _field(b"\x1a", chain_id.encode())',
        "",
        (TRANSACTIONS,),
    ),
    Mutant(
        "timeout-height",
        "a transaction is sent without its last height",
        "wire/tx.py",
        "memo=memo, timeout_height=timeout_height\n",
        "memo=memo\n",
        (TRANSACTIONS,),
    ),
    # --- states and jobs ---
    Mutant(
        "chunk-size",
        "the chunks of a state have another size",
        "pol/state/layout.py",
        "CHUNK_SIZE = 65_536",
        "CHUNK_SIZE = 32_768",
        (STATE,),
    ),
    Mutant(
        "job-flops",
        "a job's document has its work as numbers, not as text",
        "pol/job/document.py",
        "name: str(getattr(document, name))",
        "name: getattr(document, name)",
        (JOB,),
    ),
    # --- between owners ---
    Mutant(
        "envelope-body",
        "the body of a request on the link is not signed",
        "link/envelope.py",
        "sha256(body).digest(),",
        'sha256(b"").digest(),',
        (LINK,),
    ),
    Mutant(
        "chunk-nonce",
        "results are encrypted with another nonce",
        "link/handover.py",
        "_NONCE = bytes(12)",
        "_NONCE = bytes(11) + bytes([1])",
        (HANDOVER,),
    ),
    Mutant(
        "order-secret",
        "all orders of a job have the same secret",
        "link/handover.py",
        '"assay/order-key", chain_id, job_id, u64(sequence))',
        '"assay/order-key", chain_id, job_id)',
        (HANDOVER,),
    ),
    Mutant(
        "newest-order",
        "a consumer cannot open the result of the order that it made last",
        "consumer/submit.py",
        "in range(newest, max",
        "in range(newest - 2, max",
        ("tests/unit/consumer/test_submit.py::test_the_secret_is_found_again",),
    ),
    Mutant(
        "newest-caller",
        "the rate limits forget who called last",
        "link/rates.py",
        "popitem(last=False)",
        "popitem(last=True)",
        ("tests/unit/link/test_rates.py::test_only_who_was_quiet_longest_is_forgotten",),
    ),
)
