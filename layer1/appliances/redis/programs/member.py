"""One member: looks at the keyspace and at its Valkey every two seconds, has it decided what to do, and does it."""

import collections
import threading
import time
import traceback

import decision
import keyspace
import leadership
import logins
import progress
import valkey
from clock import now
from decision import LEASE_S, LOOP_S, MARGIN_S, PROMISE_S, STORE_S, Begin, Follow, Member, Record, Seen, Serve, Take
from handover import hand_over
from peers import Peers
from server import PORT

# A Valkey that answers nothing for so long is started anew.
SILENT_S = 30
# One that does nothing but somebody's script likewise: a script that has written cannot be ended otherwise.
BUSY_S = 300
# Of the two minutes that a member has to stop.
COPY_S = 15


class Ended(Exception):
    """It cannot go on, and its host is to start it again; in words for people."""


class Supervisor:
    def __init__(self, *, name, address, store, server, local, guard, noted, password):
        self.name, self.address, self.password = name, address, password
        self.store, self.server, self.valkey, self.guard, self.noted = store, server, local, guard, noted
        self.peers = Peers()
        # The lead ends with the lease that it was seen with, or taken with; by now there may be another lease.
        self.lease = self.lead_lease = None
        # Held while the lead is taken, or somebody is promised that it is not.
        self.taking = threading.Lock()
        self.promised_until = 0.0
        self.may_have_taken = False
        # What the keyspace had in it last.
        self.entries, self.record, self.lead = {}, None, None
        # So long it has seen that nobody leads.
        self.free_s, self.is_late = 0.0, False
        # The data of this process; as it was read from the disk until it has led or followed.
        self.data, self.position, self.is_cold = noted.data, noted.position, True
        # Of a copy: what it has copied since it follows is on its disk.
        self.is_kept, self.replid, self.published, self.published_at = False, "", None, 0.0
        # The term that it leads in, and what it may have written into the record of copies.
        self.leads, self.possible_copies, self.possible_at = None, frozenset(), None
        self.own_offsets = collections.deque(maxlen=64)
        # What was written is told from what copies have by a time that passes only while Valkey answers.
        self.written_s, self.measured_at, self.has_stalled = 0.0, now(), False
        self.info, self.answered_at, self.busy_since = {}, now(), None
        self.admitted, self.state, self.told = None, "starting", ""
        self.is_told = self.is_replacing = self.is_ending = self.is_stopping = False
        self.wake, self.jobs = threading.Event(), collections.deque()
        self.looked_at, self.read_at = now(), float("-inf")

    # What others ask of it, in any thread.

    def run(self, job, timeout):
        """In this member's own thread, between two looks; what it returns, or throws."""
        done, claim, result = threading.Event(), threading.Lock(), {}

        def task():
            # Whoever is first has it: the job begins, or is given up.
            if not claim.acquire(blocking=False):
                return
            try:
                result["value"] = job()
            except Exception as error:
                result["error"] = error
            done.set()

        self.jobs.append(task)
        self.wake.set()
        if not done.wait(timeout):
            if claim.acquire(blocking=False):
                raise keyspace.Refused(f"the member is busy for {timeout} s: nothing was done")
            raise keyspace.Away("the member is busy; it may be doing it")
        if "error" in result:
            raise result["error"]
        return result["value"]

    def promise(self, asking, term):
        if not self.taking.acquire(timeout=0.5):
            return False
        try:
            leads = self.leads is not None or self.may_have_taken
            if not decision.may_promise(self.record, asking, term, leads):
                return False
            self.promised_until = now() + PROMISE_S
            return True
        finally:
            self.taking.release()

    def serves(self):
        return self.leads is not None and self.guard.is_open and not self.is_replacing and not self.is_stopping

    def follows(self):
        return self.leads is None and progress.is_linked(self)

    def knows_lead(self):
        """Who leads, as far as that is sure: what was read long ago may have changed."""
        is_sure = now() - self.read_at < LEASE_S or self.serves() or self.follows()
        return self.lead if is_sure else None

    # The loop, in the main thread.

    def loop(self):
        while not self.is_ending:
            began = now()
            self.wake.clear()
            self.step()
            self.wake.wait(max(0.1, LOOP_S - (now() - began)))

    def step(self):
        while self.jobs:
            self.store.allow(STORE_S)
            self.jobs.popleft()()
        self.store.allow(STORE_S)
        try:
            self.look_or_stay()
        except (keyspace.Refused, valkey.Error) as error:
            self.tell(str(error))
        except Ended:
            raise
        except Exception:
            traceback.print_exc()
        self.looked_at = now()

    def look_or_stay(self):
        try:
            self.look()
        except keyspace.Away as error:
            leadership.stay(self, error)

    def look(self):
        self.examine()
        self.renew()
        self.read()
        progress.measure(self)
        self.act(decision.decide(self.seen()))
        progress.publish(self)

    def examine(self):
        if self.server.has_ended():
            raise Ended("Valkey has ended")
        try:
            self.info = self.valkey.info(timeout=2)
            self.answered_at, self.busy_since = now(), None
            self.replid = self.info.get("master_replid", self.replid)
        except valkey.Unanswered:
            self.info, self.has_stalled = {}, True
            if now() - self.answered_at > SILENT_S:
                self.server.kill()
                raise Ended(f"Valkey answers nothing for {SILENT_S} s") from None
        except valkey.Error as error:
            # It is busy with a script of somebody's, or reads its data.
            self.info, self.has_stalled, self.answered_at = {}, True, now()
            if not str(error).startswith("BUSY"):
                self.busy_since = None
                return
            self.busy_since = self.busy_since or now()
            if now() - self.busy_since > BUSY_S:
                self.server.kill()
                raise Ended(f"Valkey has done nothing but a script for {BUSY_S} s") from None

    def is_ready(self):
        return self.info.get("loading") == "0"

    def renew(self):
        asked_at = now()
        if self.lease is not None and self.store.keep(self.lease):
            if self.leads is not None and self.lease == self.lead_lease:
                self.guard.extend(asked_at + LEASE_S - MARGIN_S)
            return
        self.lease = None
        self.lease = self.store.grant(LEASE_S)

    def read(self):
        asked_at = now()
        entries = self.store.read()
        found = entries.get("record")
        record = None if found is None else Record.read(found.value)
        lead = entries.get("lead")
        is_mine = lead is not None and lead.lease == self.lease
        self.count_free(lead, asked_at)
        self.entries, self.record, self.read_at = entries, record, asked_at
        self.lead = None if lead is None else leadership.lead_of(lead.value, is_mine)
        self.peers.update(entries)
        self.may_have_taken = False
        if is_mine:
            self.lead_lease = self.lease
        if self.revision("record") != self.possible_at:
            # What was to be written over that one is written, or never will be.
            self.possible_copies = frozenset()
        if self.leads is not None and not is_mine and not self.has_lapsed():
            self.step_down("the lead is another's")
        self.apply_logins()

    def count_free(self, lead, asked_at):
        """From one read to the next, if that comes soon."""
        passed = asked_at - self.read_at
        if lead is not None:
            self.free_s, self.is_late = 0.0, False
        elif passed > LEASE_S:
            self.is_late = True
        elif self.lead is None:
            self.free_s += passed

    def has_lapsed(self):
        """The lead ended while the store was away, and nobody took it: while the copies wait it goes on, and takes it again."""
        if self.lead is not None or self.record is None:
            return False
        return (self.record.leader, self.record.term, self.record.next) == (self.name, self.leads, None)

    def apply_logins(self):
        """On each member: who reads at a copy logs in there."""
        wanted = self.known_logins()
        if self.record is None or wanted == self.admitted or not self.is_ready():
            return
        logins.admit(self.valkey, wanted)
        self.admitted = wanted

    def known_logins(self):
        """The keyspace has none before any was changed."""
        found = self.entries.get("logins")
        return {"app": logins.digest(self.password["app"])} if found is None else found.value

    def me(self):
        return Member(self.name, self.position, self.is_ready(), self.data, self.is_cold)

    def seen(self):
        return Seen(
            me=self.me(),
            lead=self.lead,
            record=self.record,
            others=self.peers.others(self.name),
            is_late=self.is_late,
            free_s=self.free_s,
            has_promised=now() < self.promised_until,
            is_told=self.is_told,
        )

    def act(self, action):
        match action:
            case Serve():
                leadership.serve(self)
            case Begin() | Take():
                leadership.take(self, leadership.renewed(self))
            case Follow(lead):
                self.follow(lead)
            case decision.Wait(why):
                self.state = "loading" if not self.is_ready() else "waiting"
                self.tell(why)

    def revision(self, key):
        return None if key not in self.entries else self.entries[key].revision

    def follow(self, lead):
        if self.guard.may_be_open:
            self.step_down(f"{lead.name} leads")
        self.is_told = False
        is_following = self.info.get("master_host") == lead.address and self.info.get("master_port") == str(PORT)
        if not is_following and self.is_ready():
            self.is_kept = False
            self.guard.close(lead.address, PORT)
            self.tell(f"it follows {lead.name} at {lead.address}")
        self.state = "streaming" if progress.is_linked(self) else "syncing"

    def step_down(self, why):
        self.leads = None
        self.state = "waiting"
        self.tell(why)
        self.guard.close()

    def tell(self, text):
        if text != self.told:
            print(text, flush=True)
        self.told = text

    def end(self):
        """It hands over as it goes: one that has just begun, in an update, is a few seconds from being close behind."""
        until = now() + COPY_S
        while self.leads is not None and not self.record.copies and now() < until:
            if not any(other.is_ready for other in self.peers.others(self.name)):
                break
            time.sleep(0.3)
            self.step()
        self.is_stopping = True
        self.store.allow(STORE_S)
        try:
            if self.leads is not None and self.record.copies:
                hand_over(self, None)
        except (keyspace.Away, keyspace.Refused, valkey.Error) as error:
            self.tell(f"it does not hand over: {error}")
        self.server.stop()
