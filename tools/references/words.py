"""The terms of the project, each with one meaning; the glossary is written from this list."""

from typing import NamedTuple

from tools.references.markdown import page, table


class Word(NamedTuple):
    """A term, its meaning, and synonyms that the project does not use."""

    term: str
    meaning: str
    instead_of: tuple[str, ...] = ()


WORDS = (
    Word(
        "accept",
        "A validator's message that it will serve an order that it won. It has received the payload and run a trial.",
    ),
    Word(
        "aggregation",
        "The end of a round: the outer optimizer computes the next global state from the mean of the updates.",
    ),
    Word("attestation", "A request for the credential of a device, with the evidence that a panel judges."),
    Word("audit", "The recomputation of places of a closed round by a panel."),
    Word(
        "audit place",
        "One thing that a panel recomputes: a segment, an update, or an aggregation; *place* for short.",
    ),
    Word(
        "beacon",
        "Unique signatures of the proposers, one per block. Lots are drawn from them, and no one can choose them.",
    ),
    Word("bid", "A validator's standing offer: price, capacity, speed, machines, regions, tiers."),
    Word("bond", "Coins that are locked as security: by a validator for a leg, by a provider for a share."),
    Word("book", "All bids and all open orders. It is the same at every validator."),
    Word("boundary", "The state between two segments. The hash of this state is a leaf of the trace."),
    Word("capture", "Recording a person's PyTorch functions as a program of primitives.", ("tracing", "traced")),
    Word(
        "challenge",
        "A claim, with a bond, that a place of a closed round is wrong; a panel of its own decides. `assay challenge`.",
    ),
    Word("cluster", "A validator and the providers that it admitted."),
    Word("commitment", "One hash of a share. It is on chain before any part of the share is shown or drawn."),
    Word("community pool", "The account that receives fees and the part of an audit fee that no one earned."),
    Word(
        "complaint",
        "A consumer's proof on chain that its validator encrypted a wrong chunk of a result; `assay order complain`.",
    ),
    Word("component", "One part of the state machine with its messages, records, events, parameters and rules."),
    Word("consumer", "The party that orders training and pays for it."),
    Word(
        "credential",
        "The right of one account to count as the owner of one confidential device; a panel judged its evidence.",
    ),
    Word("deposit", "The coins that an order locks. Verified rounds are paid from these coins."),
    Word("device class", "A word in a bid that describes its machines. An order may ask for some classes."),
    Word("dispute", "A disagreement that a panel of its own decides: a challenge of a place, or a stand for a share."),
    Word("escrow", "The accounts that hold deposits and bonds."),
    Word("exact", "The tier that accepts a result if its bits are equal to the bits of a recomputation."),
    Word(
        "executor",
        "A program that computes primitives: NumPy (the definition), native, or torch. All give the same bits.",
    ),
    Word("faucet", "A source of coins on a test network: `assay faucet`, or `assay localnet faucet` on a local one."),
    Word("genesis", "The file that a chain begins with: its validators, coins and parameters."),
    Word(
        "hand-over round",
        "A round whose state the consumer can fetch, encrypted, when the round is verified; `assay order result"
        " --round`. The last round is always one.",
    ),
    Word(
        "hardware arithmetic",
        "A program computed by the ordinary FP32, TF32 or BF16 kernels of a device. Its bits depend on the machine"
        " ([page](tolerance.md)).",
    ),
    Word("hold", "A named reason why the payment of an order or of a round must wait."),
    Word("holdout", "A consumer's own test data, which never leave the consumer's machine."),
    Word("home", "A folder with one owner's keys, configuration and records: `~/.assay`, `ASSAY_HOME` or `--home`."),
    Word("issue", "One hand-out of a slot to a provider. A slot whose share was rejected is issued again."),
    Word("job", "A training described as data: program, weights, data, schedule. Its id is a hash."),
    Word("keyring", "The store of a home's keys: encrypted with a passphrase (`file`), or not encrypted (`test`)."),
    Word("lane", "A group of threads of a daemon that carries out one kind of action."),
    Word(
        "leg",
        "The part of an order that one bid serves: some rounds, some or all slots, and the states at the start. A leg"
        " *continues* another one if it starts from the states of that leg's last verified round.",
    ),
    Word("look", "One reading that a daemon takes of the chain, its records and its machine, before it decides."),
    Word("lot", "A draw from the beacon: the segments to recompute, or the seats of a panel."),
    Word(
        "mirror",
        "A validator that keeps the data of a panel's places for the winner, so that seats can also fetch them there.",
    ),
    Word("moniker", "The name that a validator gives itself. Anyone may take any name, so the address decides."),
    Word("newcomer", "A provider without an accepted share. It gets few slots of an order at once."),
    Word("opening", "The states that a provider shows for the segments of its share that were drawn."),
    Word("operator", "The owner of a validator, and the address that stands for this owner."),
    Word("order", "A job's hash, conditions and price limit, signed, with a deposit."),
    Word("panel", "The validators that recompute places of one closed round. None of them served the round."),
    Word(
        "payload",
        "The files that a consumer delivers to the validator that won: the job, its first states, its data.",
    ),
    Word("PFLOP", "10^15 floating point operations, the unit of price."),
    Word(
        "primitive",
        "An operation that a program may use. Each has one definition of its bits ([all of them](arithmetic.md)).",
    ),
    Word(
        "product",
        "A multiplication of matrices or windows in integers of 8, 15 or 22 bits, with exact sums ([which to "
        "take](decisions/precision.md)).",
    ),
    Word("provider", "The party that sells computing time in a validator's cluster.", ("miner", "worker node")),
    Word("quote", "The result that an order would have in the book now. Nothing is signed or paid."),
    Word(
        "receipt",
        "A validator's signature that it received the ciphertext of a share. The provider then shows the key.",
    ),
    Word("region", "A word in a bid for the country of its machines. An order may ask for some regions."),
    Word(
        "repeat",
        "A primitive that runs a program of its own a fixed number of times: recurrent layers, CTC, `assay.repeat`.",
    ),
    Word("replay", "The recomputation of a segment from its first state."),
    Word("round", "A fixed number of steps of every slot, followed by the aggregation of their updates."),
    Word("seat", "One validator's duty in a panel."),
    Word("segment", "A fixed number of steps between two boundaries; the smallest part that is replayed."),
    Word("share", "One slot of one round. A provider trains it and is paid for it."),
    Word(
        "slot", "One of a job's parallel trainings. Each slot has its own batches. The job gives the number of slots."
    ),
    Word("solo", "A node that makes all blocks itself, without consensus, for development."),
    Word(
        "stage",
        "One turn of a panel: its seats commit answers, then reveal them. Too few answers open the next stage.",
    ),
    Word("stake", "The coins that a validator can lose. They are also its weight in the consensus."),
    Word(
        "stand",
        "A provider's claim, with a bond, that its share is right although its validator rejected or lost it.",
    ),
    Word("state root", "The hash of all weights, optimizer values and counters at a boundary."),
    Word(
        "tier",
        "A way to check results: which rounds are recomputed, and when two results agree "
        "([tiers](reference/tiers.md)).",
    ),
    Word("trace", "The Merkle tree over the boundaries of a share: the Proof of Learning."),
    Word("turn", "One pass of a `repeat` through its program."),
    Word("uassay", "The unit of money; 1 ASSAY is 1,000,000 uassay."),
    Word(
        "update",
        "The difference that a share makes to its slot's state; the aggregation takes the mean of all slots' updates.",
    ),
    Word("validator", "The party that runs the chain, wins orders for its cluster, and recomputes for others."),
    Word(
        "verdict",
        "A validator's answer about a share that it checked: the share is accepted, or rejected with a reason.",
    ),
    Word(
        "watchtower",
        "A daemon that recomputes places of others' rounds and challenges those that are wrong; `assay watchtower`.",
    ),
    Word(
        "window",
        "The shortest time from the close of a round to its payment. The payment also waits for the panel's decision.",
    ),
    Word("work", "The floating point operations that a job needs. Prices are per PFLOP of work."),
)


def glossary_page() -> str:
    """Return the page of all words."""
    rows = ((f"**{word.term}**", word.meaning) for word in WORDS)
    return page("Words", table(("word", "meaning"), rows), source="tools/references/words.py")
