"""A member with a MariaDB, a server and a store that say and fail as they are told. For tests."""

import unittest
from unittest import mock

import maria
from guard import Guard
from member import Supervisor
from store_fixture import FakeStore


class FakeMaria:
    """Says what it is told to; `failing`: what it throws, and for which beginning of a statement."""

    def __init__(self):
        self.asked, self.failing, self.failing_at = [], None, ""
        self.log, self.following, self.data = "0-1-5", None, None
        self.counts = {"clients": 0, "wait_sessions": 0, "yes_tx": 0, "status": "ON"}
        self.takes_writes = True
        self.connected = []

    def rows(self, text, *values, timeout=None):
        self.asked.append(text)
        if self.failing is not None and text.startswith(self.failing_at):
            raise self.failing
        if text.startswith("SELECT @@gtid_binlog_pos"):
            return [{"log": self.log, "copied": "", "closed": int(not self.takes_writes)}]
        if text == "SHOW SLAVE STATUS":
            return [] if self.following is None else [self.following]
        if text.startswith("SHOW GLOBAL STATUS"):
            return [{"Variable_name": f"Rpl_semi_sync_master_{one}", "Value": str(value)} for one, value in self.counts.items()]
        if "processlist" in text:
            return self.connected
        if text.startswith("SELECT data"):
            return [] if self.data is None else [{"data": self.data}]
        if text.startswith("REPLACE INTO flynn.lead"):
            self.data, self.log = values[0], f"0-{values[1]}-{int(self.log.rpartition('-')[2]) + 1}"
        return []

    def one(self, text, *values, timeout=None):
        found = self.rows(text, *values, timeout=timeout)
        return found[0] if found else None

    def close(self):
        pass

    def has(self, beginning):
        return any(one.startswith(beginning) for one in self.asked)


class FakeServer:
    def __init__(self):
        self.is_killed, self.is_stopped, self.started, self.ended = False, False, None, None

    def has_data(self):
        return True

    def is_started(self):
        return self.started is not None

    def start(self, **how):
        self.started = how

    def kill(self):
        self.is_killed = True

    def stop(self):
        self.is_stopped = True

    def end(self):
        return self.ended


class Place(unittest.TestCase):
    """A member "m1", and time that passes as it is told."""

    def setUp(self):
        self.moment = 1000.0
        self.enterContext(mock.patch("time.clock_gettime", lambda _: self.moment))
        self.enterContext(mock.patch("builtins.print"))
        self.enterContext(mock.patch("maria.time.sleep"))
        self.asks = self.enterContext(mock.patch("leadership.ask_copies", return_value=True))
        self.store, self.server, self.maria, self.guarded = FakeStore(), FakeServer(), FakeMaria(), FakeMaria()
        self.guard = Guard(self.guarded, self.server)
        self.member = Supervisor(
            name="m1",
            address="10.0.0.1",
            store=self.store,
            server=self.server,
            local=self.maria,
            guard=self.guard,
            password={"members": "m", "superuser": "s", "replication": "r"},
        )

    def step(self, passed=2.0):
        self.moment += passed
        self.member.step()

    def lead(self):
        for _ in range(4):
            self.step()
        self.assertTrue(self.member.serves())

    def announce(self, *, acks=True, offset=None, state="streaming"):
        """A copy "m2" that has what was written, or as much of it as is said."""
        has = maria.position_of(self.maria.log)
        said = {"term": has.term, "offset": has.offset if offset is None else offset, "data": self.member.data, "logBytes": 1}
        how = {"isReady": True, "isCold": False, "state": state, "acks": "m1" if acks else None, "chosen": None}
        self.store.set("members/m2", {"address": "10.0.0.2", **said, **how})
        self.maria.counts["clients"] = int(acks)

    def count(self):
        self.lead()
        for acks in (False, True, True, True):
            self.announce(acks=acks)
            self.step()
        self.assertEqual(frozenset({"m2"}), self.member.record.copies)

    def until_shut(self):
        self.moment = max(self.moment, self.guard.until)
        self.guard.look()
