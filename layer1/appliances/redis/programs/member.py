"""One member of a Valkey: what it asks of that, and how it follows another."""

import collections

import leadership
import logins
import progress
import supervisor
import valkey
from clock import now
from handover import hand_over
from server import PORT
from supervisor import Ended

# A Valkey that answers nothing for so long is started anew.
SILENT_S = 30
# One that does nothing but somebody's script likewise: a script that has written cannot be ended otherwise.
BUSY_S = 300


class Supervisor(supervisor.Supervisor):
    errors = (valkey.Error,)

    def __init__(self, *, local, noted, **known):
        super().__init__(**known)
        self.valkey, self.noted = local, noted
        self.data, self.position = noted.data, noted.position
        # Of a copy: what it has copied since it follows is on its disk.
        self.is_kept, self.replid = False, ""
        self.own_offsets = collections.deque(maxlen=64)
        # What was written is told from what copies have by a time that passes only while Valkey answers.
        self.written_s, self.measured_at, self.has_stalled = 0.0, now(), False
        self.info, self.answered_at, self.busy_since = {}, now(), None
        self.admitted = None

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

    def is_linked(self):
        return progress.is_linked(self)

    def measure(self):
        progress.measure(self)

    def publish(self):
        progress.publish(self)

    def hand_over(self, address=None):
        return hand_over(self, address)

    def begin_term(self):
        self.own_offsets.clear()

    def close_copies(self):
        return progress.close_copies(self)

    def count_copies(self):
        # A Valkey that does not answer acknowledges nothing either: they are as close as they were.
        if self.info:
            leadership.note_copies(self, self.close_copies())

    def prepare(self):
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
