"""One member of a MariaDB: what it asks of that, how it follows another, and how it begins to take writes."""

import accounts
import copying
import leadership
import maria
import received
import supervisor
from clock import now
from copies import Copies
from decision import LEASE_S, Position
from finishing import Finishing
from handover import hand_over
from maria import FIRST_OF_COPIES
from peers import tell
from server import PORT
from supervisor import Ended

# A MariaDB that answers nothing for so long is started anew.
SILENT_S = 60
# Beyond all that there are.
UNKNOWN_NUMBER = 2**62


class Supervisor(supervisor.Supervisor):
    errors = (maria.Error,)
    untold = 1

    def __init__(self, *, local, **known):
        super().__init__(**known)
        self.maria, self.info = local, {}
        # None of one that has answered nothing since it was started.
        self.answered_at = None
        self.last_info = None
        self.copies, self.finishing = Copies(self), Finishing(self)
        # Of a copy: whom it lets wait for it, and what it has to have received before its data are those of who leads.
        self.acks, self.target = None, None
        # Its data are being copied anew.
        self.copying, self.copied_at, self.rest = None, float("-inf"), copying.Rest()
        # Its MariaDB has said how far it is, since it was started, and has done what it had received before.
        self.is_known = self.is_catching_up = False
        # The term that its MariaDB is ready to lead in.
        self.readied = None

    def number(self):
        return FIRST_OF_COPIES + int(self.name[1:], 16) % FIRST_OF_COPIES

    def step(self):
        super().step()
        try:
            self.fall_silent()
        except maria.Error as error:
            self.tell(str(error))

    def fall_silent(self):
        """Another may have been chosen by now, of whom it cannot read, and who leads is not to take its word for that one's."""
        if self.acks is None or now() < max(self.read_at + LEASE_S, self.promised_until):
            return
        self.tell("it acknowledges nothing while it can read nothing of the keyspace, and nobody has asked it to wait")
        self.acknowledge_to(None)

    def examine(self):
        if not self.is_stopping and (said := self.server.end()) is not None:
            raise Ended(said)
        self.info = {}
        if not self.server.is_started():
            return
        try:
            copying.settle(self.maria)
            self.info = self.last_info = maria.look(self.maria, before=self.last_info)
            found = self.maria.one("SELECT data FROM flynn.lead WHERE one = 1", timeout=2)
            self.data = None if found is None else found["data"]
            self.answered_at = now()
        except maria.Error:
            # As long as it reads what it has it does not listen: after a loss of power that may take minutes.
            if self.answered_at is not None and now() - self.answered_at > SILENT_S:
                self.server.kill()
                raise Ended(f"MariaDB answers nothing for {SILENT_S} s") from None

    def is_ready(self):
        if self.copying is not None:
            return False
        # One without data could begin, and nothing else.
        return (self.info != {} and self.is_known) or (self.record is None and not self.server.has_data())

    def prepare(self):
        """Who is started knows by then whether another led since it did."""
        if self.server.has_data() and not self.server.is_started() and self.copying is None:
            led_last = self.record is None or self.record.leader == self.name
            self.server.start(is_copy=not led_last, number=self.number())
            self.answered_at = None
        if self.info and not self.is_known:
            self.catch_up()
        if self.info and not self.is_replacing:
            accounts.disconnect(self.maria, accounts.locked(self.maria))

    def catch_up(self):
        """What it had received is done first, where it may be what nobody else has any more."""
        following = self.info["following"]
        if self.is_catching_up:
            self.is_known = received.is_done(self.maria, following)
        else:
            counts = self.record is not None and self.name in self.record.copies
            self.is_catching_up = counts and following is not None and received.begin(self.maria, self.info["applied"])
            self.is_known = not self.is_catching_up
        if self.is_known:
            self.is_catching_up = False
            self.info = maria.look(self.maria)

    def begin(self):
        if self.server.is_started():
            super().begin()
            return
        self.tell("there is no database yet: it makes one")
        self.server.make()
        self.prepare()

    def measure(self):
        if not self.info:
            return
        if self.leads is None and self.is_copying_rightly():
            self.position = self.info["received"]
            self.warm()
        else:
            self.position = self.info["applied"] if self.leads is not None else self.info["received"]

    def warm(self):
        """What it has counts once it has received what who leads had when it had just begun to follow."""
        if not self.is_cold:
            return
        if self.target is None:
            leader = maria.Maria(self.lead.address, "flynn", self.password["superuser"])
            try:
                self.target = maria.look(leader)["applied"]
            except maria.Error:
                return
            finally:
                leader.close()
        self.is_cold = self.position.order() < self.target.order()

    def is_copying_rightly(self):
        following = self.info.get("following")
        return (
            following is not None
            and self.lead is not None
            and following["Master_Host"] == self.lead.address
            and following["Slave_IO_Running"] == "Yes"
            and following["Slave_SQL_Running"] == "Yes"
        )

    def is_linked(self):
        return self.copying is None and self.is_copying_rightly() and self.info["received"].term == self.lead.term

    def may_be_furthest(self):
        """What its data are is not known before its MariaDB has started: until then others take it for one that has all."""
        if self.is_known or self.copying is not None or self.record is None or not self.server.has_data():
            return False
        return self.name == self.record.leader or self.name in self.record.copies

    def publish(self):
        position, data = self.position, self.data
        if self.may_be_furthest():
            position, data = Position(self.record.term, UNKNOWN_NUMBER), self.record.data
        own = {
            "address": self.address,
            "term": position.term,
            "offset": position.offset,
            "data": data,
            "isReady": self.is_ready(),
            "isCold": self.is_cold,
            "state": self.state,
            "logBytes": self.info.get("logBytes"),
            # Whom it lets wait until it has received what is written; and, of who leads, who is to do that.
            "acks": self.acks if self.is_linked() else None,
            "chosen": self.copies.chosen if self.leads is not None else None,
        }
        tell(self, own)

    def lag(self, leader, peer):
        if leader is None or leader is peer or leader.position.term != peer.position.term:
            return None
        if None in (leader.said.get("logBytes"), peer.said.get("logBytes")):
            return None
        return max(0, leader.said["logBytes"] - peer.said["logBytes"])

    # A copy.

    def follow(self, lead):
        if self.guard.may_be_open:
            self.step_down(f"{lead.name} leads")
        self.is_told = False
        if self.copying is not None:
            self.go_on_copying(lead)
        elif not self.server.has_data() or (self.info and self.data is None):
            self.copy_anew(lead, "it has no data yet")
        elif not self.info or not self.is_known:
            self.state = "starting"
        elif (why := self.cannot_follow(lead)) is not None:
            self.copy_anew(lead, why)
        else:
            self.keep_following(lead)

    def keep_following(self, lead):
        leader = self.peers.named(lead.name)
        acks = lead.name if leader is not None and leader.said.get("chosen") == self.name else None
        following = self.info["following"]
        if self.is_receiving(following, lead) and following["Slave_SQL_Running"] != "Yes":
            # What it has received stays that way.
            self.maria.rows("START SLAVE SQL_THREAD", timeout=5)
        elif following is None or following["Master_Host"] != lead.address or following["Slave_SQL_Running"] != "Yes":
            self.tell(f"it follows {lead.name} at {lead.address}")
            self.target = None
            self.change_leader(lead.address, acks)
        elif acks != self.acks:
            self.acknowledge_to(acks)
        elif following["Slave_IO_Running"] == "No":
            self.maria.rows("START SLAVE IO_THREAD", timeout=5)
        self.state = "streaming" if self.is_linked() else "syncing"

    def acknowledge_to(self, leader):
        self.maria.rows("STOP SLAVE IO_THREAD", timeout=5)
        self.maria.rows(f"SET GLOBAL rpl_semi_sync_slave_enabled={int(leader is not None)}")
        self.maria.rows("START SLAVE IO_THREAD", timeout=5)
        self.acks = leader

    def is_receiving(self, following, lead):
        if following is None or following["Master_Host"] != lead.address:
            return False
        return following["Slave_IO_Running"] != "No"

    def change_leader(self, address, acks):
        self.acks = None
        self.maria.rows("STOP SLAVE", timeout=10)
        for name, value in (
            ("server_id", self.number()),
            ("rpl_semi_sync_master_enabled", 0),
            ("rpl_semi_sync_slave_enabled", int(acks is not None)),
        ):
            self.maria.rows(f"SET GLOBAL {name}={value}")
        self.maria.rows("SET GLOBAL gtid_slave_pos=%s", self.info["gtid"])
        self.maria.rows(
            f"CHANGE MASTER TO MASTER_HOST=%s, MASTER_PORT={PORT}, MASTER_USER='replication', MASTER_PASSWORD=%s,"
            " MASTER_USE_GTID=slave_pos, MASTER_HEARTBEAT_PERIOD=1, MASTER_CONNECT_RETRY=1,"
            " MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0",
            address,
            self.password["replication"],
        )
        self.maria.rows("START SLAVE")
        self.acks = acks

    def cannot_follow(self, lead):
        """Why what it has does not go on with what who leads has; None where it does, or is not known yet."""
        following = self.info["following"]
        if self.info["isStray"]:
            return "something was written here while another led"
        if following is None or following["Master_Host"] != lead.address:
            return None
        if following["Last_IO_Errno"] == 1236:
            return f"it has what {lead.name} does not have, or lacks what that does not keep any more"
        if following["Last_SQL_Errno"] != 0 and following["Slave_SQL_Running"] == "No":
            return f"what {lead.name} sends does not fit what it has ({following['Last_SQL_Error'][:200]})"
        return None

    def copy_anew(self, lead, why):
        if now() < self.copied_at + copying.AGAIN_S:
            self.state = "waiting"
            self.tell(f"{why}, though it was copied anew a short while ago: see what is said before")
            return
        if not self.rest.is_over(lead.address):
            self.state = "waiting"
            return
        self.tell(f"{why}: all that {lead.name} has is copied anew")
        self.state = "copying"
        self.copying = copying.Copying(lead, self.password["members"], had_data=self.data is not None)
        self.copying.start()

    def go_on_copying(self, lead):
        self.state = "copying"
        if self.copying.is_under_way():
            if self.copying.lead.address != lead.address:
                self.copying.give_up()
            return
        done, self.copying = self.copying, None
        if done.problem is not None:
            rest_s = self.rest.begin(done.lead.address)
            self.tell(f"it could not be copied from {done.lead.name}: {done.problem}; tried again in {rest_s} s")
            return
        self.rest = copying.Rest()
        self.server.forget()
        self.maria.close()
        done.take_its_place()
        # The first copy of all is no second try.
        self.copied_at = now() if done.had_data else self.copied_at
        self.is_cold, self.acks, self.target = True, None, None
        self.is_known = self.is_catching_up = False
        self.data, self.position, self.info, self.state = None, Position(), {}, "starting"
        self.last_info = None
        self.server.start(is_copy=True, number=self.number())
        self.answered_at = None

    # Who leads.

    def open(self):
        """All that it received as a copy comes first."""
        if not self.info:
            return False
        if self.readied != self.leads and not self.get_ready():
            return False
        return self.guard.open()

    def get_ready(self):
        """To lead in this term; whether it is."""
        if self.info["following"] is not None:
            self.maria.rows("STOP SLAVE IO_THREAD", timeout=5)
            self.info = maria.look(self.maria)
            if self.info["applied"].order() < self.info["received"].order():
                self.state = "syncing"
                self.tell("it does what it had received before it takes more")
                self.wake.set()
                return False
            self.maria.rows("STOP SLAVE", timeout=10)
            self.maria.rows("RESET SLAVE ALL", timeout=10)
        self.acks = None
        for one in (f"server_id={self.leads}", "rpl_semi_sync_slave_enabled=0", "rpl_semi_sync_master_enabled=0"):
            self.maria.rows(f"SET GLOBAL {one}")
        # Whoever is connected writes with the number of before.
        accounts.disconnect_all(self.maria)
        self.maria.rows(f"SET SESSION server_id={self.leads}")
        # The first of its term, which nobody else writes: with it a copy's data are of this term.
        if now() >= self.guard.until:
            return False
        self.maria.rows("REPLACE INTO flynn.lead VALUES (1, %s, %s)", self.record.data, self.leads)
        self.readied = self.leads
        return True

    def begin_term(self):
        self.copies.begin()

    def close_copies(self):
        return self.copies.close()

    def count_copies(self):
        if self.info and self.guard.is_open and not self.info["takesWrites"]:
            # It was shut to hand over by a statement that was not answered in time.
            self.guard.open()
        self.copies.count()
        self.finishing.look()

    def hand_over(self, address=None):
        return hand_over(self, address)

    def step_down(self, why):
        super().step_down(why)
        accounts.disconnect_all(self.maria)
