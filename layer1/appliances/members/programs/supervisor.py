"""
One member, of whatever kind: looks at the keyspace and at its server every two seconds, has it decided what to do, and does it.
What is its kind's own is at the end.
"""

import collections
import threading
import time
import traceback

import decision
import keyspace
import leadership
from clock import now
from decision import LEASE_S, LOOP_S, MARGIN_S, PROMISE_S, STORE_S, Begin, Follow, Member, Position, Record, Seen, Serve, Take
from peers import UNTOLD_BYTES, Peers

# Of the two minutes that a member has to stop.
COPY_S = 15


class Ended(Exception):
    """It cannot go on, and its host is to start it again; in words for people."""


class Supervisor:
    # What its server throws where it does not answer, or says no.
    errors = ()
    # It tells how far it is once that is another by so much.
    untold = UNTOLD_BYTES

    def __init__(self, *, name, address, store, server, guard, password):
        self.name, self.address, self.password = name, address, password
        self.store, self.server, self.guard = store, server, guard
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
        self.data, self.position, self.is_cold = None, Position(), True
        self.published, self.published_at = None, 0.0
        # The term that it leads in, and what it may have written into the record of copies.
        self.leads, self.possible_copies, self.possible_at = None, frozenset(), None
        self.state, self.told = "starting", ""
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
        return self.leads is None and self.is_linked()

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
        except (keyspace.Refused, *self.errors) as error:
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
        self.measure()
        self.act(decision.decide(self.seen()))
        self.publish()

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
        self.prepare()

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
            case Begin():
                self.begin()
            case Take():
                leadership.take(self, leadership.renewed(self))
            case Follow(lead):
                self.follow(lead)
            case decision.Wait(why):
                self.state = "loading" if not self.is_ready() else "waiting"
                self.tell(why)

    def revision(self, key):
        return None if key not in self.entries else self.entries[key].revision

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
                self.hand_over()
        except (keyspace.Away, keyspace.Refused, *self.errors) as error:
            self.tell(f"it does not hand over: {error}")
        self.server.stop()

    # Its kind's own.

    def examine(self):
        """How its server is; throws Ended where that has to begin anew."""
        raise NotImplementedError

    def is_ready(self):
        """It answers, and has read all that it has."""
        raise NotImplementedError

    def is_linked(self):
        """It copies who leads, as that one is now, and has all that it sent."""
        raise NotImplementedError

    def measure(self):
        """How far its data is."""
        raise NotImplementedError

    def publish(self):
        """What the others are to know (peers.tell)."""
        raise NotImplementedError

    def follow(self, lead):
        """Again with each look."""
        raise NotImplementedError

    def close_copies(self):
        """Names of those that may take over."""
        raise NotImplementedError

    def count_copies(self):
        """Has it written down who they are (leadership.note_copies)."""
        raise NotImplementedError

    def hand_over(self, address=None):
        """To the member at that address, else to the copy that has most."""
        raise NotImplementedError

    def lag(self, leader, peer):
        """In bytes, what a copy lacks; None of who leads, and where it is not known."""
        if leader is None or leader is peer or leader.position.term != peer.position.term:
            return None
        behind = leader.position.offset - peer.position.offset
        return behind if behind > self.untold else 0

    def begin(self):
        """A database that there was none of."""
        leadership.take(self, leadership.renewed(self))

    def begin_term(self):
        """It has just taken the lead."""

    def prepare(self):
        """With each look, once it knows what the keyspace has."""

    def open(self):
        """Has its server take writes; whether it does."""
        return self.guard.open()
