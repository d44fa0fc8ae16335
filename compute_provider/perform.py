"""The functions that carry out the actions of ``decide``, with the chain, the validator and the disk.

Each action may be repeated. Its result is a list of changes to the record. The caller handles ClusterError, ChainError
and ProviderError, and decides what they mean for the share.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from os import urandom
from pathlib import Path
from threading import Event, Lock

from chain.client.clock import REMEDY, ClockCheck
from chain.client.errors import TxRefused
from compute_provider.decide import actions as do
from compute_provider.decide import claims, contests, receive
from compute_provider.decide.actions import Action
from compute_provider.decide.duties import is_same
from compute_provider.decide.receive import Change
from compute_provider.decide.records import GAVE_UP, MAY_STAND, Shares, ShareWork, Stage, name_of
from compute_provider.decide.view import Look, ValidatorView
from compute_provider.interfaces import (
    Behaviour,
    ChainReader,
    ChainSender,
    NotAdmitted,
    ProviderConfig,
    ProviderError,
)
from compute_provider.links import Link
from compute_provider.store import Store
from compute_provider.work.machines import Machines, ThisMachine
from compute_provider.work.worker import LOCAL_OUT, UPDATE, WorkOrder
from domain import codec
from domain.amount import ASSAY, in_assay
from domain.disputes.messages import MsgAppeal, MsgStand
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountResponse
from domain.limits import EXECUTOR_VERSION
from domain.node.queries import StatusResponse
from domain.proof.messages import MsgAskReceipt, MsgIncludeShare, MsgShowKey
from domain.proof.queries import OrderResponse
from domain.proof.records import DeliveryManifest, Panel, PanelSeat, ShareClaim, ShareRoots
from domain.registry.messages import MsgRegisterProvider
from domain.registry.records import Provider
from host.files import link_whole
from link.blobs import BlobStore
from link.client import ClusterClient
from link.delivery import DeliveredFiles, derive_delivery_key, seal_delivery
from link.errors import ClusterError
from link.types import (
    AT_ONCE_MAX,
    DELIVER_SHARE,
    JOIN,
    POLL,
    PROBE,
    SHOW_KEY,
    SHOW_PLACE,
    SUBMIT_OPENING,
    SUBMIT_SHARE,
    BlobRef,
    DeliveryOffer,
    DeliveryReceipt,
    JoinRequest,
    Machine,
    OpenedState,
    OpeningSubmission,
    PollRequest,
    ProbeRequest,
    ShareSubmission,
    ShownKey,
    ShownPlace,
    TrainTask,
    Verdict,
)
from pol.rules.commitment import compute_trace_root, share_commitment, share_sign_bytes
from pol.rules.delivery import BoundaryEntry, delivered_boundaries, manifest_sign_bytes, receipt_sign_bytes
from wire.keys import verify

VERSION = "1"
DELIVERY, MANIFEST = "delivery", "delivery.json"
"""Files of a share: its encrypted delivery, and the manifest of it."""
FEATURES = ("exact",)
_log = logging.getLogger("assay.provider")
_SESSION_BYTES = 16
PROBE_TASKS_MAX = 16
"""Largest number of tasks that the provider answers in one probe; further tasks are ignored."""
DOINGS_MAX = 64
"""Largest number of shares that a poll reports."""
# Shortest pause between two polls, even if the validator gives a shorter pause.
_POLL_SECONDS_MIN = 0.02
# Pause between two tries to submit a share that the behaviour never sends.
_NEVER_SECONDS = 60.0

# Pause before a task that contradicted the chain is checked again.
_REFUSED_SECONDS = 1.0

# Balance (uassay) that earnings left as bond do not touch: the fees of about a thousand transactions.
_KEPT_FOR_FEES = ASSAY
# Pause between two looks at the panel of a share for which the provider stands.
_STAND_SECONDS = 1.0
# Pause before a delivery is sent again to witnesses that have not signed.
_WITNESS_SECONDS = 3.0

# Pause before a provider tries again to stand for a share, if it is not decided yet how the order goes on.
_STAND_AGAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action: changes to the record, and a new look if the action called the validator.

    ``pause`` is the time (seconds) before the action may run again; None if there is no need to wait.
    """

    changes: tuple[Change, ...] = ()
    seen: Look | None = None
    pause: float | None = None


class Performer:
    """The part of the daemon that carries out actions, on any thread."""

    def __init__(
        self,
        config: ProviderConfig,
        chain_id: str,
        chain: ChainReader,
        sender: ChainSender,
        *,
        store: Store,
        behaviour: Behaviour,
        shares: Callable[[], Shares],
        stop: Event,
        moved: Callable[[str, int], None] = lambda direction, size: None,
        clock: ClockCheck | None = None,
        warn: Callable[[str], None] = _log.warning,
        machines: Machines | None = None,
    ) -> None:
        """Use the store and the connections that the daemon opened; ``shares`` returns the present record.

        While ``clock`` finds this machine's clock wrong, nothing is signed for the validator. ``warn`` shows a text to
        the provider's operator. ``moved`` is called for each transfer, with its direction (``in``: from the validator,
        ``out``: to the validator) and its number of bytes.
        """
        self._moved = moved
        self._machines: Machines = machines or ThisMachine(lambda *_: None, config.home, config.engine)
        self._clock = clock or ClockCheck()
        self._warn = warn
        self._is_bond_settled = not config.bond
        # The validator serves only one process per key, and identifies the process by this number.
        self._session = urandom(_SESSION_BYTES)
        self._config = config
        self._chain_id = chain_id
        self._chain = chain
        self._sender = sender
        self._store = store
        self._behaviour = behaviour
        self._shares = shares
        self._stop = stop
        self._link = Link(chain, config.validator, config.key, chain_id)
        self._jobs = config.home / "jobs"
        self._bond_lock = Lock()
        # Seats that have the places of a share for which this provider stands.
        self._shown: set[tuple[PanelKey, int]] = set()
        self._seat_links: dict[str, Link] = {}
        # Bonds (uassay) of shares that are not committed on the chain yet.
        self._promised: dict[ShareKey, int] = {}
        # The chain's record of this provider, as last read.
        self.known: Provider | None = None
        # Number of rounds ahead for which bonds and cover pay the provider's shares, by order.
        self.covered: dict[bytes, int] = {}
        # The reasons why this machine cannot train at all, by order.
        self.unable: dict[bytes, str] = {}
        # The provider's balance and bond, as last read.
        self.account: AccountResponse | None = None
        # A first value, until the validator gives its own.
        self.poll_seconds = 1.0
        self.blobs = BlobStore(config.home / "blobs", config.disk_bytes)

    def close(self) -> None:
        """Close the connections to the validator and to seats, which ends all calls on them."""
        self._link.close()
        for link in list(self._seat_links.values()):
            link.close()

    def renew(self) -> None:
        """Read the validator's endpoint from the chain again."""
        self._link.renew()

    def perform(self, action: Action) -> ActionResult:
        """Carry out an action of a lane that has threads, except ``Status``, which the daemon itself carries out."""
        match action:
            case do.Join():
                return self._join()
            case do.Poll():
                return self._poll()
            case do.Glance():
                self._glance()
                # A provider that is not in the cluster yet deposits its bond when it joins.
                if self.known is not None and self.known.validator == self._config.validator:
                    self._top_up()
                return ActionResult(pause=self._config.chain_seconds)
            case do.Watch():
                return ActionResult(tuple(self._watch()), pause=self._watch_seconds())
            case do.CheckTask(task):
                return self._check_task(task)
            case do.Renew(task):
                return self._renew(task)
            case do.Bond(task):
                return _result_of_check(task.key, self._bond_task(task), receive.bonded)
            case do.Fetch(task):
                self._fetch(task)
                return ActionResult((partial(receive.fetched, key=task.key),))
            case _:
                return self._perform_trained(action)

    def _perform_trained(self, action: Action) -> ActionResult:
        """Carry out an action for a share that is trained."""
        match action:
            case do.Submit(key):
                return self._submit(key)
            case do.Upload(key):
                return self._upload(key)
            case do.Deliver(key):
                return self._deliver(key)
            case do.ShowKey(key):
                return self._show_key(key)
            case do.ShowOnChain(key):
                return self._show_on_chain(key)
            case do.Include(key):
                return self._include(key)
            case do.Ask(key):
                return self._ask(key)
            case do.SendToWitnesses(key):
                return self._send_to_witnesses(key)
            case do.Open(key, indices):
                self._open(key, indices)
            case do.Stand(key):
                return self._stand(key)
            case do.ShowPlaces(key, dispute):
                return self._show_places(key, dispute)
            case do.Recheck(key):
                return self._recheck(key)
            case do.Appeal(key):
                return self._appeal(key)
        return ActionResult()

    def _client(self) -> ClusterClient:
        """Return the validator's client; ProviderError while this machine's clock is wrong."""
        if self._clock.problem:
            raise ProviderError(self._clock.problem, REMEDY)
        return self._link.client()

    # The cluster

    def _join(self) -> ActionResult:
        """Apply on the chain, then ask the validator, which measures this machine before it admits the provider."""
        me = self._config.key.address
        operator = self._config.validator
        self.known = self._chain.provider(me)
        is_new = self.known is None or self.known.validator != operator
        problem = self._bond_problem()
        if is_new:
            # Raised before anything is sent: a provider that cannot deposit its bond does not apply.
            if problem:
                raise ProviderError(problem, f"send coins to {me} (assay tx send), or use a smaller --bond")
            self._sender.send(MsgRegisterProvider(me, operator))
        self._top_up()
        client = self._client()
        measured = self._store.measured(self._config.engine)
        if measured is None:
            raise ProviderError("this machine's speed has not been measured yet", "start the provider again")
        request = JoinRequest(
            version=VERSION,
            machine=Machine(self._config.device_class, measured.memory),
            features=FEATURES,
            session=self._session,
            invitation=self._config.invitation,
        )
        reply = client.call(JOIN, request)
        if reply.probe:
            self._probe(client)
            return ActionResult()
        if not reply.accepted:
            raise NotAdmitted(reply.reason, reply.limits.poll_ms / 1000)
        self.known = self._chain.provider(me)
        self.poll_seconds = self._config.poll_seconds or reply.limits.poll_ms / 1000
        return ActionResult(seen=Look(joined=True))

    def _bond_problem(self) -> str:
        """Return the reason why the bond that the owner wants cannot be deposited.

        The text is empty if the bond can be deposited or is already there.
        """
        self.account = account = self._chain.account(self._config.key.address)
        lacking = self._config.bond - account.bond.free
        if lacking <= 0 or account.balance >= lacking:
            return ""
        return (
            f"--bond asks for a free bond of {in_assay(self._config.bond)}; {self._config.key.address} has a free bond"
            f" of {in_assay(account.bond.free)} and {in_assay(account.balance)} to deposit"
        )

    def _top_up(self) -> None:
        """Deposit the missing part of the bond that the owner wants.

        The deposit is made only once, at a time when no share locks a part of the bond.
        """
        # The actions that join and that read the chain run in different lanes, and both call this method.
        with self._bond_lock:
            if self._is_bond_settled or self._shares().works:
                return
            problem = self._bond_problem()
            account = self.account
            lacking = self._config.bond - account.bond.free if account else 0
            if problem:
                self._warn(f"{problem}; the provider works with the bond that it has")
            elif lacking > 0:
                self._sender.send(MsgDepositBond(self._config.key.address, lacking))
            self._is_bond_settled = True

    def _probe(self, client: ClusterClient) -> None:
        """Answer the tasks of the validator's probe; ProviderError if the validator does not accept the measurement."""
        with self._machines.probing(self._stop) as work:
            task = client.call(PROBE, ProbeRequest(()))
            for _ in range(PROBE_TASKS_MAX):
                if task.over:
                    break
                if task.data:
                    digests: tuple[bytes, ...] = (sha256(task.data).digest(),)
                else:
                    digests = work(task.seed, task.pieces)
                task = client.call(PROBE, ProbeRequest(digests))
        if task.text:
            raise ProviderError(f"the validator did not accept the measurement: {task.text}", "trying again")

    def _poll(self) -> ActionResult:
        """Report the shares to the validator and return its tasks. If the validator asks for a probe, answer it."""
        began = time.monotonic()
        doing = tuple(work.doing() for work in self._shares().works)
        client = self._client()
        measured = self._store.measured(self._config.engine)
        slots = min(max(1, self._machines.slots), AT_ONCE_MAX)
        request = PollRequest(
            version=VERSION,
            doing=doing[-DOINGS_MAX:],
            session=self._session,
            speed=measured.flops * slots if measured else 0,
            cautious=not self._config.uncovered,
            slots=slots,
        )
        reply = client.call(POLL, request)
        if reply.probe and not any(work.stage < Stage.TRAINED for work in self._shares().works):
            self._probe(client)
            return ActionResult()
        asked = max(reply.retry_after_ms / 1000 or self.poll_seconds, _POLL_SECONDS_MIN)
        pause = self._config.poll_seconds or asked
        picture = ValidatorView(reply.train, reply.open, began)
        seen = Look(joined=True, picture=picture, idle=reply.idle, warning=reply.warning)
        return ActionResult(seen=seen, pause=pause)

    def _glance(self) -> StatusResponse:
        """Read the chain's status and its record of this provider, compare the clocks, and return the status."""
        status = self._chain.status()
        self._clock.look(status)
        self.known = self._chain.provider(self._config.key.address)
        self.account = self._chain.account(self._config.key.address)
        return status

    def _watch(self) -> Iterator[Change]:
        """Read the orders of the signed shares, and yield the changes to the record that follow from the chain.

        Only these orders are read, because the chain may not have an order without a signed share, and its query would
        then fail.
        """
        clock = self._glance().clock
        works = [work for work in self._shares().works if work.signed]
        for order_id in sorted({work.key.order_id for work in works}):
            order = self._chain.order(order_id)
            paid = claims.earned(order, self._config.key.address)
            day = time.strftime("%Y-%m-%d", time.gmtime())
            self._store.put_earned(order_id, paid, day, is_kept=self._config.keep_earnings)
            for work in works:
                if work.key.order_id != order_id:
                    continue
                handed_in = work.stage in (Stage.TRAINED, Stage.SUBMITTED)
                if handed_in and claims.has_committed(order, self._signed(work)[0]):
                    yield partial(receive.committed, key=work.key)
                claim, _ = self._signed(work)
                contest = contests.find_contest(order, claim, clock)
                if contest is not None and not (contest.is_liable or self._chain.has_credential(claim.provider)):
                    contest = None
                yield partial(receive.contested, key=work.key, contest=contest)
                must_show = claims.must_show(order, claim, work.receipt, clock)
                yield partial(receive.to_show, key=work.key, wanted=must_show)
                must_include = self._must_include(work, claim, order, clock)
                yield partial(receive.to_include, key=work.key, wanted=must_include)
                must_ask = self._is_sent(work) and claims.must_ask(order, work.task, claim, work.receipt, clock)
                yield partial(receive.to_ask, key=work.key, wanted=must_ask)
                is_asking = claims.open_ask(order, claim, clock) is not None
                yield partial(receive.is_witnessed, key=work.key, waiting=is_asking)
                must_act = must_show or must_include or must_ask or is_asking
                yield from self._watch_stand(work, order, clock, must_act)
        self._keep()

    def _is_sent(self, work: ShareWork) -> bool:
        """Return whether the behaviour hands a share in at once. If it holds the share back, it does nothing else."""
        return self._behaviour.delay(work.task) == 0.0

    def _keep(self) -> None:
        """Deposit the earned coins that are to be bond, as far as the account has more than it needs for fees.

        The rest is deposited later, when the account has it.
        """
        due = self._store.to_keep()
        if not self._config.keep_earnings or due <= 0:
            return
        me = self._config.key.address
        with self._bond_lock:
            amount = min(due, self._chain.account(me).balance - _KEPT_FOR_FEES)
            if amount <= 0:
                return
            try:
                self._sender.send(MsgDepositBond(me, amount))
            except TxRefused as error:
                # The duties of the shares must not wait for this deposit.
                _log.warning("%s cannot be left as bond yet: %s", in_assay(amount), error)
                return
            self._store.put_to_keep(due - amount)

    def _must_include(self, work: ShareWork, claim: ShareClaim, order: OrderResponse, clock: int) -> bool:
        """Return whether a share has to be included. A behaviour that holds the share back does not include it."""
        return self._is_sent(work) and claims.must_include(order, work.task, claim, clock)

    def _watch_stand(self, work: ShareWork, order: OrderResponse, clock: int, must_act: bool) -> Iterator[Change]:
        """Yield the changes of a signed share that its validator rejected or made void, and its end.

        A share is not over while its provider ``must_act``: show the key of the delivery, include the share, or send
        its delivery to witnesses.
        """
        has_to = work.stand in (0, MAY_STAND) and claims.has_to_stand(order, self._signed(work)[0], self._chain_id)
        panel = claims.standing_panel(order, work.key, self._config.key.address)
        if panel is not None:
            yield partial(receive.standing, key=work.key, stand=panel.dispute)
        elif has_to:
            yield partial(receive.standing, key=work.key, stand=MAY_STAND)
        elif claims.is_over(work.key, self._config.key.address, order, clock) and not must_act:
            yield partial(receive.released, key=work.key)

    def _watch_seconds(self) -> float:
        """Return the seconds until the chain is read again.

        The pause is short while a commitment is on its way to the chain.
        """
        waiting = any(work.stage is Stage.SUBMITTED for work in self._shares().works)
        usual = self._config.chain_seconds
        return min(usual, self.poll_seconds) if waiting else usual

    # Taking a share

    def _check_task(self, task: TrainTask) -> ActionResult:
        """Compare a task with the chain, and record the arithmetic that the tier of its leg has there."""
        order = self._chain.order(task.key.order_id)
        problem = self._problem(task, order)
        hardware = not problem and claims.is_hardware(order, task.key.leg)
        return _result_of_check(task.key, problem, partial(receive.checked, hardware=hardware))

    def _problem(self, task: TrainTask, order: OrderResponse) -> str:
        """Return why the provider cannot take the task; empty if it can."""
        problem = self.unable.get(task.key.order_id, "") or claims.problem(task, order, self._config.validator)
        problem = problem or claims.income_problem(task, order, self._config.least_income)
        leg = order.leg(task.key.leg)
        if leg is not None:
            self.covered[task.key.order_id] = claims.covered_rounds(order, leg, task)
        problem = problem or ("" if self._config.uncovered else claims.cover_problem(task, order))
        problem = problem or self._task_problem(task, order)
        return problem or self._lacks_room(claims.trace_bytes(task, order), task.key)

    def _renew(self, task: TrainTask) -> ActionResult:
        """Take a later deadline of a task, if its validator has signed it."""
        signer = self._chain.account(self._config.validator).account.pub_key
        me, clock = self._config.key.address, self._chain.status().clock
        problem = claims.task_problem(task, me, self._chain_id, clock, partial(verify, signer))
        if problem:
            raise ProviderError(f"the deadline of the task is not moved: {problem}")
        renewed = partial(receive.renewed, key=task.key, deadline=task.deadline, signature=task.signature)
        return ActionResult((renewed,))

    def _task_problem(self, task: TrainTask, order: OrderResponse) -> str:
        """Return why the share of a task could not be included; empty if it could."""
        signer = self._chain.account(self._config.validator).account.pub_key
        clock = self._chain.status().clock
        me = self._config.key.address
        measured = self._store.measured(self._config.engine)
        seconds = claims.training_seconds(order, measured.flops if measured else 0)
        return claims.task_problem(task, me, self._chain_id, clock, partial(verify, signer), seconds)

    def _bond_task(self, task: TrainTask) -> str:
        """Deposit the missing bond for the task; return why the deposit is not possible, or an empty string."""
        order = self._chain.order(task.key.order_id)
        return self._ensure_bond(task.key, claims.bond_of(task, order), order)

    def _lacks_room(self, size: int, key: ShareKey) -> str:
        """Return why a trace of ``size`` bytes does not fit on the disk; empty if it fits."""
        here = sum(file.stat().st_size for file in self._store.folder(key).iterdir())
        room = min(shutil.disk_usage(self._config.home).free + here, self._config.disk_bytes)
        return f"the share's trace needs {size} bytes, but only {room} bytes are free" if size > room else ""

    def _ensure_bond(self, key: ShareKey, bond: int, order: OrderResponse) -> str:
        """Deposit the bond that is missing for this share and for all other shares that are not committed yet.

        Return why the deposit is not possible; empty if the bond is there.
        """
        with self._bond_lock:
            me = self._config.key.address
            self._promised = claims.still_promised(self._promised, key, self._config.key.address, order)
            self._promised[key] = bond
            needed = sum(self._promised.values())
            if problem := self._exposure_problem(order, needed):
                del self._promised[key]
                return problem
            account = self._chain.account(me)
            lacking = needed - account.bond.free
            if lacking <= 0:
                return ""
            if not self._config.auto_bond or account.balance < lacking:
                del self._promised[key]
                return (
                    f"the open shares need a bond of {in_assay(needed)}, but only {in_assay(account.bond.free)} is"
                    f" free; send coins to {me} (assay tx send), or deposit more (assay tx deposit-bond)"
                )
            self._sender.send(MsgDepositBond(me, lacking))
            return ""

    def _exposure_problem(self, order: OrderResponse, promised: int) -> str:
        """Return why the unpaid shares would be worth more than the owner allows; empty if they are within the limit.

        ``promised`` is the value (uassay) of all shares that are not committed yet.
        """
        most = self._config.max_exposure
        if not most:
            return ""
        known = {work.key.order_id for work in self._shares().works} - {order.order.id}
        orders = [order, *(self._chain.order(order_id) for order_id in sorted(known))]
        unpaid = claims.exposure(orders, self._config.key.address) + promised
        if unpaid <= most:
            return ""
        return (
            f"shares with bonds of {in_assay(unpaid)} would be unpaid, and --max-exposure is {in_assay(most)};"
            " the provider continues when earlier shares are paid"
        )

    def _fetch(self, task: TrainTask) -> None:
        """Fetch the payload and the initial states; delete them again if the share was dropped meanwhile."""
        try:
            self._download(task)
        finally:
            if self._shares().get(task.key) is None:
                for blob in (
                    task.global_in.blob,
                    task.local_in.blob,
                    *(f.blob for f in task.payload),
                ):
                    self.blobs.hold(blob.sha256, _holder(task.key))
                self.forget(task.key)

    def _download(self, task: TrainTask) -> None:
        """Download the payload and the initial states; each file is verified by its hash."""
        client = self._client()
        folder = self._job_folder(task.key)
        # The folders are made before the holds, because the sweep after a crash finds holds by their folders.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store.folder(task.key)
        blobs_of = {
            f"job/{_order_name(task.key)}": [file.blob for file in task.payload],
            _holder(task.key): [task.global_in.blob, task.local_in.blob],
        }
        for holder, blobs in blobs_of.items():
            for blob in blobs:
                self._check_wanted(task)
                self.blobs.hold(blob.sha256, holder)
                before = self.blobs.status(blob).held
                client.fetch(blob, self.blobs, lambda *_: self._check_wanted(task))
                self._moved("in", blob.size - before)
        # The link checks that the paths stay inside the folder when it decodes the task.
        for file in task.payload:
            target = folder / file.path
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                link_whole(self.blobs.path(file.blob.sha256), target)

    def _check_wanted(self, task: TrainTask) -> None:
        """Raise ProviderError if the validator no longer wants the share. This function is called before each chunk."""
        work = self._shares().get(task.key)
        if self._stop.is_set() or work is None or not is_same(work.task, task):
            raise ProviderError("the validator no longer wants the share")

    def work_order(self, work: ShareWork) -> WorkOrder:
        """Return the work order of a share for its worker."""
        key, task = work.key, work.task
        return WorkOrder(
            job=str(self._job_folder(key)),
            folder=str(self._store.folder(key)),
            global_in=str(self.blobs.path(task.global_in.blob.sha256)),
            local_in=str(self.blobs.path(task.local_in.blob.sha256)),
            global_root=task.global_in.root,
            local_root=task.local_in.root,
            round=key.round,
            slot=key.slot,
            engine=self._config.engine,
            boundaries=self._store.boundaries(key),
            hardware=work.hardware,
        )

    # Handing a share in

    def _submit(self, key: ShareKey) -> ActionResult:
        """Sign the commitment to a trained share and submit it.

        A commitment shows nothing that another provider could copy.
        """
        work = self._shares().get(key)
        delay = self._behaviour.delay(work.task) if work else None
        if work is None or delay is None:
            return ActionResult(pause=_NEVER_SECONDS)
        claim, _ = self._signed(work)
        # Signatures are deterministic (RFC 6979), so a restarted daemon submits the same signature.
        signature = self._config.key.sign(share_sign_bytes(self._chain_id, claim))
        self._stop.wait(delay)
        verdict = self._client().call(SUBMIT_SHARE, ShareSubmission(claim, signature))
        return ActionResult((_verdict_change(receive.submitted, key, verdict),))

    def _upload(self, key: ShareKey) -> ActionResult:
        """Encrypt the results of a share and send the ciphertext. Without the key, it shows nothing."""
        client = self._client()
        reply = client.call(DELIVER_SHARE, self._offer(self._work(key), client))
        if not reply.accepted:
            raise ProviderError(f"the validator refused the delivery: {reply.text}")
        return ActionResult((partial(receive.uploaded, key=key),))

    def _deliver(self, key: ShareKey) -> ActionResult:
        """Get the validator's receipt for the ciphertext. This provider's commitment is on the chain by then."""
        work = self._work(key)
        client = self._client()
        offer = self._offer(work, client)
        reply = client.call(DELIVER_SHARE, offer)
        if not reply.accepted:
            return ActionResult((partial(receive.delivered, key=key, accepted=False, text=reply.text),))
        if reply.receipt is None:
            return ActionResult(pause=self.poll_seconds)
        self._check_receipt(work, offer.manifest, reply.receipt, was_shown=False)
        return ActionResult((partial(receive.receipted, key=key, receipt=reply.receipt),))

    def _show_key(self, key: ShareKey) -> ActionResult:
        """Show the validator the key of a delivery, for which it has signed a receipt."""
        work = self._work(key)
        claim, roots = self._signed(work)
        secret = derive_delivery_key(self._config.key.secret, claim)
        reply = self._client().call(SHOW_KEY, ShownKey(key, secret, roots))
        changes: list[Change] = []
        if reply.receipt is not None:
            self._check_receipt(work, self._sealed(work)[0], reply.receipt, was_shown=True)
            changes.append(partial(receive.receipted, key=key, receipt=reply.receipt))
        changes.append(partial(receive.delivered, key=key, accepted=reply.accepted, text=reply.text))
        return ActionResult(tuple(changes))

    def _show_on_chain(self, key: ShareKey) -> ActionResult:
        """Show the key of a delivery to the chain, with the last receipt of the validator."""
        work = self._work(key)
        claim, roots = self._signed(work)
        receipt = work.receipt
        now = self._chain.order(key.order_id).held(key, self._config.key.address)
        message = MsgShowKey(
            provider=claim.provider,
            order_id=now.order_id,
            leg=now.leg,
            round=now.round,
            slot=now.slot,
            issue=now.issue,
            manifest=self._sealed(work)[0],
            key=derive_delivery_key(self._config.key.secret, claim),
            roots=roots,
            signed_at=receipt.at if receipt is not None else 0,
            was_shown=receipt is not None and receipt.was_shown,
            signature=receipt.signature if receipt is not None else b"",
        )
        self._sender.send(message, in_lane=True)
        return ActionResult((partial(receive.to_show, key=key, wanted=False),))

    def _include(self, key: ShareKey) -> ActionResult:
        """Put the commitment to a share on chain, with the validator's signature of its task."""
        work = self._work(key)
        task = work.task
        claim, _ = self._signed(work)
        order = self._chain.order(key.order_id)
        problem = self._ensure_bond(key, claims.bond_of(task, order), order)
        if problem:
            raise ProviderError(f"the share cannot be included: {problem}")
        message = MsgIncludeShare(
            provider=claim.provider,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            commitment=claim.commitment,
            signature=self._config.key.sign(share_sign_bytes(self._chain_id, claim)),
            every=task.every,
            deadline=task.deadline,
            task_signature=task.signature,
            multiple=claim.multiple,
            cover=claim.cover,
        )
        _log.warning("%s: putting the commitment on chain, because the validator has not", name_of(key))
        self._sender.send(message, in_lane=True)
        return ActionResult((partial(receive.to_include, key=key, wanted=False),))

    def _ask(self, key: ShareKey) -> ActionResult:
        """Ask on chain for witnesses of a delivery, because the validator signs no receipt for it."""
        work = self._work(key)
        task = work.task
        claim, _ = self._signed(work)
        message = MsgAskReceipt(
            provider=claim.provider,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            commitment=claim.commitment,
            signature=self._config.key.sign(share_sign_bytes(self._chain_id, claim)),
            every=task.every,
            deadline=task.deadline,
            task_signature=task.signature,
            manifest=self._sealed(work)[0],
            multiple=claim.multiple,
            cover=claim.cover,
        )
        _log.warning("%s: asking for witnesses, because the validator signs no receipt", name_of(key))
        self._sender.send(message, in_lane=True)
        changes = (partial(receive.to_ask, key=key, wanted=False), partial(receive.is_witnessed, key=key, waiting=True))
        return ActionResult(changes)

    def _send_to_witnesses(self, key: ShareKey) -> ActionResult:
        """Send the ciphertext of a share to each of its witnesses that has not signed.

        One that took it is asked again, because it forgets the delivery if its daemon is restarted.
        """
        work = self._work(key)
        ask = claims.find_ask(self._chain.order(key.order_id), self._signed(work)[0])
        for name in ask.witnesses if ask is not None else ():
            if ask is None or name in ask.signed:
                continue
            try:
                client = self._seat_link(name).client()
                client.call(DELIVER_SHARE, self._offer(work, client))
            except (ClusterError, ProviderError) as error:
                _log.info("%s: witness %s: %s; trying again", name_of(key), name, error)
        return ActionResult(pause=_WITNESS_SECONDS)

    def _seat_link(self, operator: str) -> Link:
        """Return the connection to another validator, which has a seat or is a witness."""
        link = self._seat_links.get(operator)
        if link is None:
            link = Link(self._chain, operator, self._config.key, self._chain_id)
            self._seat_links[operator] = link
        return link

    def _work(self, key: ShareKey) -> ShareWork:
        work = self._shares().get(key)
        if work is None:
            raise ProviderError("the validator no longer wants the share")
        return work

    def _check_receipt(
        self, work: ShareWork, manifest: DeliveryManifest, receipt: DeliveryReceipt, *, was_shown: bool
    ) -> None:
        """Raise ProviderError if a receipt is not the validator's, or if it is too old to show a key with it."""
        claim, _ = self._signed(work)
        document = receipt_sign_bytes(self._chain_id, claim, manifest, receipt.at, shown=was_shown)
        signer = self._chain.account(self._config.validator).account.pub_key
        if receipt.was_shown is not was_shown or not verify(signer, document, receipt.signature):
            raise ProviderError("the validator's receipt is not signed with its key")
        if was_shown:
            return
        wait = self._chain.order(work.key.order_id).order.params.show_wait
        if receipt.at + wait // 2 <= self._chain.status().clock:
            raise ProviderError("the validator's receipt is too old to show the key with it", "asking for another one")

    def _offer(self, work: ShareWork, client: ClusterClient) -> DeliveryOffer:
        """Return the offer of a share's delivery; encrypt and send what was not sent before."""
        manifest, path = self._sealed(work)
        claim, _ = self._signed(work)
        signature = self._config.key.sign(manifest_sign_bytes(self._chain_id, claim, manifest))
        return DeliveryOffer(key=work.key, manifest=manifest, signature=signature, ciphertext=self._put(client, path))

    def _sealed(self, work: ShareWork) -> tuple[DeliveryManifest, Path]:
        """Return the manifest and the file of a share's encrypted delivery; encrypt it if the file is not here."""
        claim, roots = self._signed(work)
        folder = self._store.folder(work.key)
        path, manifest_path = folder / DELIVERY, folder / MANIFEST
        if path.exists() and manifest_path.exists():
            return codec.decode(DeliveryManifest, manifest_path.read_bytes()), path
        every = work.task.every
        boundaries = self._store.boundaries(work.key)[1:]
        files = DeliveredFiles(
            entries=[
                BoundaryEntry(step=b.step, global_root=b.global_root, local_root=b.local_root, metrics=b.metrics)
                for b in boundaries
            ],
            update=folder / UPDATE if roots.is_whole else None,
            local_out=folder / LOCAL_OUT if roots.is_whole else None,
            boundary_states=[
                (folder / f"{index}.global", folder / f"{index}.local")
                for index in delivered_boundaries(len(boundaries), every)
            ],
        )
        key = derive_delivery_key(self._config.key.secret, claim)
        manifest = seal_delivery(work.key, key, files, every, path)
        manifest_path.write_bytes(codec.encode(manifest))
        return manifest, path

    def _put(self, client: ClusterClient, path: Path) -> BlobRef:
        blob = client.put_blob(path)
        self._moved("out", blob.size)
        return blob

    def _signed(self, work: ShareWork) -> tuple[ShareClaim, ShareRoots]:
        """Return the claim that is signed for a trained share, and the roots that its commitment hides."""
        key = work.key
        task = work.task
        boundaries = self._store.boundaries(key)
        leaves = [boundary.leaf for boundary in boundaries[1:]]
        roots = ShareRoots(
            trace_root=compute_trace_root(leaves) if leaves else b"",
            update_root=work.update_root,
            local_out=work.local_out_root,
            metrics=boundaries[-1].metrics,
            segments=len(leaves),
            steps=work.steps_since(boundaries[-1].step),
        )
        me = self._config.key.address
        commitment = share_commitment(
            self._chain_id,
            key,
            me,
            (task.global_in.root, task.local_in.root),
            EXECUTOR_VERSION,
            roots,
        )
        claim = ShareClaim(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            provider=me,
            commitment=commitment,
            multiple=task.multiple,
            cover=task.cover,
        )
        return self._behaviour.claim(claim), roots

    def _open(self, key: ShareKey, indices: tuple[int, ...]) -> None:
        """Send a share's states at the boundaries with these indices."""
        work = self._shares().asked(key)
        folder, client = self._store.folder(key if work is None else work.key), self._client()
        for index in indices:
            global_state = self._put(client, folder / f"{index}.global")
            local_state = self._put(client, folder / f"{index}.local")
            verdict = client.call(
                SUBMIT_OPENING,
                OpeningSubmission(key=key, index=index, global_state=global_state, local_state=local_state),
            )
            if not verdict.accepted:
                raise ProviderError(f"the validator refused the states of boundary {index}: {verdict.text}")

    # Appealing a ruling against a share

    def _recheck(self, key: ShareKey) -> ActionResult:
        """Recompute the segments of a share that a panel found wrong, and compare the results with those on disk."""
        work = self._shares().get(key)
        if work is None or work.contest is None:
            return ActionResult()
        order, home = self.work_order(work), self._config.home / "recheck" / name_of(key)
        known = {boundary.index: boundary for boundary in order.boundaries}
        segments = work.contest.segments
        right = all(self._machines.recompute(order, segment, home) == known.get(segment + 1) for segment in segments)
        text = "has the same result here again" if right else "has another result here, or cannot be recomputed"
        _log.warning("%s: a panel found it wrong; what it found %s", name_of(key), text)
        return ActionResult((partial(receive.rechecked, key=key, is_right=right),))

    def _appeal(self, key: ShareKey) -> ActionResult:
        """Appeal a ruling against a right share, if the bond pays. If the chain refuses this, give it up.

        The chain has no price for a credential, which the ruling would end for good. So a provider that has one appeals
        whenever it can lock the bond.
        """
        work = self._shares().get(key)
        order = self._chain.order(key.order_id)
        me = self._config.key.address
        if work is None or work.contest is None:
            return ActionResult(pause=_STAND_SECONDS)
        panel = contests.contested_panel(order, key, me, work.contest)
        if panel is None:
            return ActionResult(pause=_STAND_SECONDS)
        gave_up = ActionResult((partial(receive.rechecked, key=key, is_right=False),))
        bond = contests.compute_bond(order, panel, self._chain.count_validators(), self._chain.params())
        pays = work.contest.is_liable and contests.pays(order, panel, work.task.multiple, bond)
        if not pays and not self._chain.has_credential(me):
            _log.warning("%s: an appeal needs %s, more than the share is worth", name_of(key), in_assay(bond))
            return gave_up
        account = self._chain.account(me)
        lacking = bond - account.bond.free
        can_add = self._config.auto_bond and account.balance >= lacking
        deposit = (MsgDepositBond(me, lacking),) if lacking > 0 and can_add else ()
        message = MsgAppeal(
            appellant=me, order_id=panel.order_id, leg=panel.leg, round=panel.round, dispute=panel.dispute
        )
        try:
            self._sender.send(*deposit, message)
        except TxRefused as error:
            _log.warning("%s: the provider cannot appeal the ruling: %s", name_of(key), error)
            return gave_up
        _log.info("%s: appealed the ruling against the share", name_of(key))
        return ActionResult(pause=_STAND_SECONDS)

    # Standing for a share

    def _stand(self, key: ShareKey) -> ActionResult:
        """Stand for a share on the chain. If the chain refuses this, give the share up."""
        work = self._shares().get(key)
        if work is None:
            return ActionResult()
        _, roots = self._signed(work)
        me = self._config.key.address
        now = self._chain.order(key.order_id).held(key, self._config.key.address)
        message = MsgStand(
            provider=me,
            order_id=now.order_id,
            leg=now.leg,
            round=now.round,
            slot=now.slot,
            issue=now.issue,
            roots=roots,
        )
        try:
            self._sender.send(*self._top_up_for_stand(key), message)
        except TxRefused as error:
            if claims.may_stand_later(self._chain.order(key.order_id), key, me):
                return ActionResult(pause=_STAND_AGAIN_SECONDS)
            _log.warning("%s: the provider cannot stand for the share: %s", name_of(key), error)
            return ActionResult((partial(receive.standing, key=key, stand=GAVE_UP),))
        _log.info("%s: standing for the share, because its validator rejected it or made it void", name_of(key))
        return ActionResult(pause=_STAND_SECONDS)

    def _top_up_for_stand(self, key: ShareKey) -> tuple[MsgDepositBond, ...]:
        """Return the message that deposits the missing bond for a stand; none if the bond is there."""
        me = self._config.key.address
        order = self._chain.order(key.order_id)
        account = self._chain.account(me)
        lacking = claims.stand_bond(order, key, me) - account.bond.free
        if lacking <= 0 or not self._config.auto_bond or account.balance < lacking:
            return ()
        return (MsgDepositBond(me, lacking),)

    def _show_places(self, key: ShareKey, dispute: int) -> ActionResult:
        """Send the places of a share to each seat of its panel that has not answered yet."""
        work = self._shares().get(key)
        order = self._chain.order(key.order_id)
        now = order.held(key, self._config.key.address)
        panel_key = RoundKey(now.order_id, now.leg, now.round).panel(dispute)
        seats = self._chain.seats(panel_key)
        panel = claims.standing_panel(order, key, self._config.key.address)
        if work is None or panel is None:
            return ActionResult(pause=_STAND_SECONDS)
        for seat in seats:
            if seat.stage != panel.stage or seat.commitment or (panel_key, seat.number) in self._shown:
                continue
            try:
                if self._show_seat(work, panel, seat, with_ends=claims.is_hardware(order, panel.leg)):
                    self._shown.add((panel_key, seat.number))
            except ClusterError as error:
                _log.info("%s: seat %s: %s; trying again", name_of(key), seat.validator, error)
        return ActionResult(pause=_STAND_SECONDS)

    def _show_seat(self, work: ShareWork, panel: Panel, seat: PanelSeat, *, with_ends: bool) -> bool:
        """Send the openings of a seat's places, with their blobs; return whether the seat has taken all of them."""
        key = work.key
        client = self._seat_link(seat.validator).client()
        folder = self._store.folder(key)
        boundaries = self._store.boundaries(key)
        leaves = [boundary.leaf for boundary in boundaries[1:]]
        files = work.task.payload
        for file in files:
            client.put_blob(self.blobs.path(file.blob.sha256))

        def put(index: int) -> OpenedState:
            return OpenedState(
                index=index,
                global_state=self._put(client, folder / f"{index}.global"),
                local_state=self._put(client, folder / f"{index}.local"),
                metrics=boundaries[index].metrics if index else (),
            )

        for number in seat.places:
            place = panel.places[number].place
            opening = claims.place_opening(place, leaves, files, put, with_end=with_ends)
            shown = ShownPlace(
                order_id=panel.order_id,
                leg=panel.leg,
                round=panel.round,
                dispute=panel.dispute,
                place_index=number,
                opening=opening,
            )
            if not client.call(SHOW_PLACE, shown).accepted:
                return False
        return True

    # Files on disk

    def forget(self, key: ShareKey) -> None:
        """Delete a share's files. If the record has no other share of the order, also delete the order's files."""
        self.blobs.release(_holder(key))
        self._store.forget(key)
        if key.order_id not in (work.key.order_id for work in self._shares().works):
            self._forget_order(_order_name(key))

    def sweep(self, shares: Shares) -> None:
        """Delete the files of shares and orders that are not in the record; a crash may leave such files."""
        for name in self._store.leftovers(shares):
            self.blobs.release(f"share/{name}")
        self._store.sweep(shares)
        known = {_order_name(work.key) for work in shares.works}
        for folder in self._jobs.glob("*"):
            if folder.name not in known:
                self._forget_order(folder.name)

    def _forget_order(self, name: str) -> None:
        self.blobs.release(f"job/{name}")
        shutil.rmtree(self._jobs / name, ignore_errors=True)

    def _job_folder(self, key: ShareKey) -> Path:
        return self._jobs / _order_name(key)


def _result_of_check(key: ShareKey, problem: str, passed: Callable[[Shares, ShareKey], Shares]) -> ActionResult:
    """Return the result of an action that checks a share.

    If ``problem`` is empty, the check passed, and the result changes the record by ``passed``.
    """
    if not problem:
        return ActionResult((lambda shares: passed(shares, key),))
    # A node may be a block behind the validator, so the check is repeated as long as the task is listed.
    failed = partial(receive.failed, key=key, text=problem, again=True)
    return ActionResult((failed,), pause=_REFUSED_SECONDS)


def _verdict_change(
    receives: Callable[[Shares, ShareKey, bool, str], Shares], key: ShareKey, verdict: Verdict
) -> Change:
    """Return the change to the record that follows from the validator's verdict."""
    return lambda shares: receives(shares, key, verdict.accepted, verdict.text)


def _holder(key: ShareKey) -> str:
    return f"share/{name_of(key)}"


def _order_name(key: ShareKey) -> str:
    return key.order_id.hex()
