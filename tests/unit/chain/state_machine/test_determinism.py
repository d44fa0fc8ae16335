"""The same blocks give the same state and events, whatever the process they run in."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """
from hashlib import sha256
from dataclasses import replace
from chain.types.params import local_params
from tests.support.chain_market import Market, bid, submit

names = ("carol", "dave", "erin")
market = Market(replace(local_params(), audit_bps=2_000), bidders=("v0", "v1", "v2"), consumers=names)
for name in names:
    order_id = market.run(submit(name))
    if name != "dave":
        market.settle(order_id)
market.chain.ok(bid("v3", regions=("de", "fr")), submit("erin", time_to_live=5))
market.chain.pass_time(60)
digest = sha256()
for prefix in range(256):
    for key, value in market.chain.store.scan(bytes([prefix])):
        digest.update(key + value)
digest.update(repr(market.chain.events).encode())
print(digest.hexdigest())
"""


def run(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_the_state_does_not_depend_on_the_hash_seed() -> None:
    digests = {run(seed) for seed in ("0", "1", "4242")}
    assert len(digests) == 1
    assert len(digests.pop()) == 64
