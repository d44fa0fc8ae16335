"""Limits of values that come from outside. Unless a unit is named, they are in bytes or are counts."""

TX_BYTES_MAX = 256 * 1024
MEMO_BYTES_MAX = 256
MESSAGES_MAX = 16
SIGNERS_MAX = 16  # accounts that sign a transaction, with the one that pays the fee
MULTISIG_KEYS_MAX = 16  # members of a multisig account
ACCOUNT_KEY_BYTES_MAX = 6 + 40 * MULTISIG_KEYS_MAX  # the key of a multisig account
DECODE_DEPTH_MAX = 8
GAS_MAX = 100_000_000
"""Largest gas limit that the bytes of a transaction can declare. The chain allows a tenth of a block's gas
(:func:`domain.node.params.tx_gas_max`), which is less."""
MEMPOOL_TXS_MAX = 20_000
MEMPOOL_BYTES_MAX = 16 * 1024 * 1024
BLOCK_TXS_MAX = 20_000
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Largest total size (bytes) of the transactions of a block, as they are encoded in the block."""
TEXT_MAX = 128  # monikers, device classes, endpoints
NAME_MAX = 32  # a region, tier or device class
TAGS_MAX = 16
CERTIFICATE_BYTES_MAX = 4096
SHARES_PER_MESSAGE_MAX = 128
SLOTS_MAX = 1024
PROBE_PIECES_MAX = 4_096
CAPABILITY_SECONDS_MAX = 7 * 86_400
"""Longest time for which a measured capability is valid."""
ANSWERS_MAX = 256  # places of a round that a panel recomputes
STAGES_MAX = 8  # stages of a panel, in records; rules end a panel before
SEATS_MAX = 256  # seats of a panel in all its stages
MIRRORS_MAX = 4  # validators that a closed round names as its mirrors
CHALLENGERS_MAX = 16
"""Most addresses that an order can name as challengers."""
CHALLENGE_WAIT_MAX = 7 * 86_400
"""Longest time (s) after a round's window in which an order lets the round be challenged."""
DISPUTES_MAX = 64  # disputes about one round that have not ended
SALT_BYTES = 32
PATH_MAX = 64
DELIVERED_BOUNDARIES_MAX = 16  # boundaries of a share before its last one whose states its delivery has
METRICS_MAX = 8
BIDS_PER_VALIDATOR_MAX = 64
WITHDRAWALS_MAX = 16
ROUNDS_MAX = 100_000
REPLICAS_MAX = 4  # validators that each train the whole order, in a tier that replicates
REPLICATED_SEGMENTS_MAX = 4_096  # small enough that one transaction can carry all boundaries of a trace
DUTY_SEGMENTS_MAX = 256  # a block may draw the segments of a whole round, with as many tickets for each share
SHARE_SEGMENTS_MAX = 32_767  # small enough that one message of the link can carry all leaves of a trace
SAMPLES_MAX = 2**48
PAYLOAD_BYTES_MAX = 2**48
RESULT_CHUNKS_MAX = 2**32
STATE_CHUNK_BYTES = 65_536  # a full chunk of a state's canonical bytes; only the header may be longer
STATE_HEADER_MAX = 2**20 + 4  # the header, which is the first chunk of a state
CHUNK_TAG_BYTES = 16  # what encryption adds to a chunk
PROVIDERS_BPS_MAX = 8_000
SHARE_BOND_MAX = 64  # the bond of a share, as a multiple of the price of its work
DURATION_MAX = 366 * 86_400  # seconds
EVIDENCE_BYTES_MAX = 64 * 1024
"""Largest size of all parts of the evidence in a message. The largest sample of a vendor has 21 KB."""
POLICY_BYTES_MAX = 32 * 1024
"""Largest size of a policy about evidence, as the state stores it."""
ATTEST_SEATS_MAX = 64  # seats of a panel about evidence
CREDENTIALS_MAX = 8  # devices of which an account is the last owner
BEACONS_MAX = 256  # beacons that the chain keeps for evidence
QUERY_LIMIT_MAX = 1_000
EVENTS_LIMIT_MAX = 1_000


EXECUTOR_VERSION = 1
"""Version of the definitions of the primitives. The version changes if a primitive is added or removed, or gives other
bits than before.
"""
