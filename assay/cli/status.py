"""``assay status``."""

import os
import shutil
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.output import flops, money, short, table
from domain.errors import Exit
from domain.measures import duration
from host.addresses import HostPort

if TYPE_CHECKING:
    from rich.table import Table

    from assay.cli.health import ConsensusJail, ProviderSeen, Seen
    from chain.client.client import ChainClient
    from domain.proof.queries import PanelDuty
    from domain.registry.records import Validator
    from validator.decide.deadlines import OpenDuty

ANSWER_SECONDS = 3.0
"""Longest wait for an answer of a node or of a daemon of this home."""
PARTS = ("node", "validator", "provider")
"""Folders of a home that hold the files of a node or a daemon."""
_PAGE = 1_000
_BLOCK = 512
"""Size of the blocks that ``st_blocks`` counts, in bytes."""


@click.command(
    help=f"""Show the state of the chain, and the problems of this home that need attention.

    For a home with a node, a validator or a provider, the command also shows peers, votes, stake, duties and disk use.

    The exit code is {Exit.NEEDS_CARE.value} if there is a problem. Examples: the node or a daemon does not answer, no
    new blocks arrive, the validator is jailed (by panels or by the consensus), has overdue duties or has no coins, or
    the disk is almost full.
    `--output json` lists the problems in `problems`.

    \b
    Examples:
      assay status
      assay status --node 127.0.0.1:9090 --output json
    """
)
@common_options
@click.pass_context
def command(click_context: click.Context, context: CommandContext) -> None:
    """Print the state of the chain and of the home; exit with ``Exit.NEEDS_CARE`` if there are problems."""
    from assay.cli.health import idle_validator, problems

    seen = _look(context)
    found = list(problems(seen))
    lines: list[str | Table] = [_headline(seen)]
    if rows := _home_rows(seen):
        lines.append(table(f"In {context.home}", ("what", "state"), rows))
    if seen.validators:
        lines.append(_validator_table(seen))
    lines += [f"! {each.text}; {each.remedy}" for each in found]
    context.output.result(
        {
            "status": seen.status,
            "block_age_seconds": seen.block_age,
            "validators": seen.validators,
            "node": seen.comet and asdict(seen.comet),
            "votes": seen.votes and float(seen.votes.power),
            "validator": seen.me
            and {
                "operator": seen.me.operator,
                "jailed": seen.me.jailed,
                "consensus_jail": seen.jail and {"until_ns": seen.jail.until_ns, "for_good": seen.jail.for_good},
                "stake": seen.me.stake,
                "power": _power(seen),
                "balance": seen.account.balance if seen.account else None,
                "bond": seen.account.bond.free if seen.account else None,
                "listens": seen.listens,
                "idle": idle_validator(seen),
                "answers": seen.answers,
            },
            "duties": [{"kind": duty.kind, "order": duty.order_id, "seconds_left": duty.left} for duty in seen.duties],
            "provider": seen.provider
            and {
                "address": seen.provider.address,
                "pid": seen.provider.pid,
                "running": seen.provider.running,
                "on_chain": seen.provider.on_chain,
                "idle": seen.provider.idle,
                "warning": seen.provider.warning,
            },
            "disk": {**seen.disk, "free": seen.free},
            "problems": [{"code": each.trouble, "text": each.text, "remedy": each.remedy} for each in found],
        },
        lines,
    )
    if found:
        click_context.exit(Exit.NEEDS_CARE)


# --- looking -------------------------------------------------------------------------------------


def _look(context: CommandContext) -> "Seen":
    """Return the state of the chain and of the home; leave out parts that do not answer in ``ANSWER_SECONDS``."""
    from assay.cli.health import Seen
    from assay.cli.provider import asked_node
    from chain.client.client import ChainClient
    from chain.client.clock import find_wrong_clock
    from chain.client.errors import ChainError
    from domain.registry.queries import ValidatorsRequest

    home = context.home
    operated = [home / part for part in PARTS if (home / part).is_dir()]
    seen: dict[str, Any] = {"now_ns": time.time_ns()}
    if operated:
        seen["free"] = shutil.disk_usage(home).free
        seen["disk"] = {path.name: _size(path) for path in operated}
    # The node of a home that has only a provider may be on another machine.
    node = context.node if (home / "node").is_dir() else asked_node(context)
    with ChainClient(node, timeout=ANSWER_SECONDS) as client:
        try:
            seen["status"] = client.status()
            if seen["status"].time_ns < seen["now_ns"]:
                seen["wrong_clock"] = find_wrong_clock(client.status)
            listed = client.query(ValidatorsRequest())
            seen |= {"validators": listed.validators, "consensus_jailed": listed.consensus_jailed}
            me = _own_validator(context, listed.validators)
            if me is not None:
                seen |= {"me": me, **_of_validator(context, client, me)}
                if me.operator in listed.consensus_jailed:
                    seen["jail"] = _jail_of(client, me)
            seen["provider"] = _of_provider(home, client)
        except ChainError as error:
            if not operated:
                raise
            seen["away"] = error.reason
            seen["provider"] = _of_provider(home, None)
    is_solo = "status" in seen and seen["status"].solo
    if (home / "node").is_dir() and not context.given["node_address"]:
        seen["own_chain"] = _own_chain(home)
        if not is_solo:
            seen |= _of_comet(context)
    if (home / "node").is_dir() and not is_solo:
        seen |= _of_key(home)
    return Seen(**seen)


def _own_chain(home: Path) -> str:
    from chain.app.comet_files import HomeError, read_genesis
    from chain.app.homes import genesis_path

    try:
        return read_genesis(genesis_path(home))[0].chain_id
    except HomeError:
        # The home has no genesis file yet.
        return ""


def _of_comet(context: CommandContext) -> dict[str, Any]:
    from chain.app.comet_rpc import CometView

    view = CometView(f"http://127.0.0.1:{context.setting('node.rpc_port').value}", ANSWER_SECONDS)
    comet = view.standing()
    return {"has_comet": True, "comet": comet, "votes": view.votes() if comet else None}


def _of_key(home: Path) -> dict[str, Any]:
    """Return the evidence that another node signs with the home's consensus key, as fields of ``Seen``."""
    from chain.app.homes import comet_home, read_signer
    from chain.app.signing import foreign_user, read_trouble

    trouble = read_trouble(comet_home(home))
    return {
        "signed_twice": trouble.text if trouble else "",
        "key_user": None if read_signer(home) else foreign_user(comet_home(home)),
    }


def _own_validator(context: CommandContext, validators: "tuple[Validator, ...]") -> "Validator | None":
    """Return the validator whose consensus key or operator's key is in this home, or None."""
    from chain.app.comet_files import HomeError
    from chain.app.homes import read_home_keys

    try:
        cons_key = read_home_keys(context.home).cons_key
    except HomeError:
        cons_key = b""
    addresses = set()
    if (context.home / "validator").is_dir():
        addresses = {info.address for info in context.keyring().names()}
    mine = (v for v in validators if v.cons_key == cons_key or v.operator in addresses)
    return next(mine, None)


def _of_validator(context: CommandContext, client: "ChainClient", me: "Validator") -> dict[str, Any]:
    from domain.legs.queries import LiveLegsRequest
    from domain.market.queries import BidsRequest
    from domain.registry.queries import ProvidersRequest
    from validator.decide.deadlines import open_duties

    duties = client.query(LiveLegsRequest(me.operator))
    listens, answers = find_daemon(str(context.setting("validator.listen").value), me.endpoint)
    return {
        "account": client.account(me.operator),
        "duties": tuple(open_duties(duties.legs, _panel_duties(client, me.operator), duties.clock, me.operator)),
        "listens": listens,
        "answers": answers,
        "bids": client.query(BidsRequest(me.operator, _PAGE, b"")).bids,
        "providers": client.query(ProvidersRequest(me.operator, _PAGE, "")).providers,
    }


def _jail_of(client: "ChainClient", me: "Validator") -> "ConsensusJail":
    """Return the jail in which the consensus put a validator."""
    from cosmpy.protos.cosmos.slashing.v1beta1 import query_pb2 as slashing

    from assay.cli.health import ConsensusJail
    from wire.address import cons_address_text

    request = slashing.QuerySigningInfoRequest(cons_address=cons_address_text(me.cons_address))
    path = "/cosmos.slashing.v1beta1.Query/SigningInfo"
    info = client.call(path, request, slashing.QuerySigningInfoResponse).val_signing_info
    return ConsensusJail(info.jailed_until.ToNanoseconds(), info.tombstoned)


def _panel_duties(client: "ChainClient", me: str) -> "Iterator[PanelDuty]":
    from domain.proof.queries import PanelDutiesRequest

    request = PanelDutiesRequest(me, _PAGE)
    while True:
        page = client.query(request).duties
        yield from page
        if len(page) < _PAGE:
            return
        request = request.after(page[-1])


def _of_provider(home: Path, client: "ChainClient | None") -> "ProviderSeen | None":
    from assay.cli.health import ProviderSeen
    from assay.cli.provider import idle_line
    from compute_provider import api
    from domain.registry.queries import ProviderRequest

    try:
        report = api.status(home / "provider")
    # A power cut can damage the status file. No other file has the provider's address, so it is unknown then.
    except api.ProviderError as error:
        pid = api.runs_as(home / "provider")
        return ProviderSeen(address="", running=bool(pid), pid=pid, note=str(error), on_chain=None)
    if report is None:
        return None
    address = report["provider"]
    pid = report["pid"]
    known = client.query(ProviderRequest(address)).provider if client else None
    idle = report.get("idle") if pid else None
    return ProviderSeen(
        address=address,
        running=bool(pid),
        pid=pid,
        note=report["note"],
        on_chain=known,
        idle=idle_line(idle) if idle else "",
        warning=report.get("warning") or "",
    )


def find_daemon(configured: str, published: str) -> tuple[str, bool]:
    """Return the address at which a validator's daemon listens, and True if the daemon answers there.

    ``configured`` is the address in config.toml, and ``published`` is the address on the chain. Try both addresses,
    because the daemon may have been started with an address that is not in config.toml.
    """
    where = next((each for each in (configured, published) if each and _answers(each)), "")
    return where or configured, bool(where)


def _answers(endpoint: str) -> bool:
    """Return True if a server accepts connections at ``endpoint`` (host:port)."""
    try:
        where = HostPort.parse(endpoint).reached
        socket.create_connection((where.host, where.port), ANSWER_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def _size(folder: Path) -> int:
    """Return the bytes on disk that all files in a folder take; a file may disappear during the count."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(path) / name).lstat().st_blocks * _BLOCK
    return total


# --- showing -------------------------------------------------------------------------------------


def _headline(seen: "Seen") -> str:
    status, age = seen.status, seen.block_age
    if status is None:
        return "the node does not answer"
    line = f"chain {status.chain_id}  height {status.height}"
    if age is not None:
        line += f"  last block {duration(max(0, round(age)))} ago"
    line += f"  chain clock {status.clock} s  gas price {status.gas_price_millionths:,} uassay per million"
    return line + ("  (solo: for development)" if status.solo else "")


def _home_rows(seen: "Seen") -> list[tuple[str, str]]:
    from assay.cli.health import LATE_SECONDS, idle_validator, percent

    rows: list[tuple[str, str]] = []
    if comet := seen.comet:
        peers = ", ".join(map(short, comet.peers)) or "none"
        doing = "catching up" if comet.catching_up else "in sync"
        rows += [
            ("node", f"{doing} at height {comet.height}"),
            ("peers", f"{len(comet.peers)}: {peers}"),
            ("waiting transactions", f"{comet.waiting_txs:,}, {comet.waiting_bytes:,} bytes"),
        ]
        # Votes at one moment mean nothing while new blocks arrive.
        if seen.votes is not None and (seen.block_age or 0) > LATE_SECONDS:
            rows.append(("votes for the next block", f"{percent(seen.votes.power)} of the power"))
    if me := seen.me:
        standing = f"votes with {_power(seen):.1%} of the power" if me.stake else "is not in the validator set"
        if seen.jail:
            standing += ", jailed by the consensus"
        if me.jailed:
            standing += ", jailed (no matches, no seats)"
        there = f"answers at {seen.listens}" if seen.answers else "does not answer"
        rows += [
            ("validator", f"{me.moniker} ({short(me.operator)}), {standing}"),
            ("its daemon", there),
            ("stake", money(me.stake)),
            ("missed stages of panels", f"{me.audits_missed:,}"),
        ]
        if account := seen.account:
            rows.append(("coins", f"{money(account.balance)}, bond {money(account.bond.free)}"))
        rows += [("duties", line) for line in _duty_lines(seen.duties)] or [("duties", "none")]
        if idle := idle_validator(seen):
            rows.append(("its work", idle))
    if provider := seen.provider:
        doing = f"runs as process {provider.pid}" if provider.running else "is stopped"
        rows.append(("provider", f"{short(provider.address)} {doing}".strip()))
        if provider.idle:
            rows.append(("its work", provider.idle))
        if provider.note:
            rows.append(("its last error", provider.note))
    if seen.disk:
        used = ", ".join(f"{name} {size / 2**20:,.1f} MiB" for name, size in seen.disk.items())
        rows.append(("disk", f"{used}; {seen.free / 2**30:,.1f} GiB free"))
    return rows


def _duty_lines(duties: "tuple[OpenDuty, ...]") -> Iterator[str]:
    """Yield a line per kind of duty, with the number of duties and the time until the first is due."""
    for kind in dict.fromkeys(duty.kind for duty in duties):
        left = [duty.left for duty in duties if duty.kind is kind]
        known = [seconds for seconds in left if seconds is not None]
        nearest = min(known, default=None)
        when = ""
        if nearest is not None:
            when = f", due in {duration(nearest)}" if nearest >= 0 else ", overdue"
        yield f"{kind.value} {len(left)}{when}"


def _power(seen: "Seen") -> float:
    """Return the fraction of the voting power that this home's validator has."""
    total = sum(each.stake for each in seen.validators)
    return seen.me.stake / total if seen.me and total else 0.0


def _standing(validator: "Validator", consensus_jailed: "Collection[str]") -> str:
    if validator.operator in consensus_jailed:
        return "jailed by the consensus"
    if validator.jailed:
        return "jailed"
    return "votes" if validator.stake else "not in the set"


def _validator_table(seen: "Seen") -> "Table":
    rows = [
        (
            v.moniker,
            v.operator,
            money(v.stake),
            f"{flops(v.audit_speed)}/s",
            v.audit_rate,
            v.endpoint or "-",
            _standing(v, seen.consensus_jailed),
        )
        for v in seen.validators
    ]
    columns = (
        "moniker",
        "operator",
        "stake",
        "audit speed",
        "audit bytes/s",
        "endpoint",
        "standing",
    )
    return table("Validators", columns, rows)
