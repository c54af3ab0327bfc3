"""A member with a Valkey, a server and a store that say and fail as they are told. For tests."""

import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import valkey
from disk import Noted
from guard import Guard
from keyspace import Away
from member import Supervisor
from store_fixture import FakeStore

WHOLE = {"aof_enabled": "1", "aof_rewrite_in_progress": "0", "aof_rewrite_scheduled": "0", "aof_last_bgrewrite_status": "ok"}


def wanted():
    return True


class FakeValkey:
    """Says what it is told to; `failing`: what it throws, and for which of the words."""

    def __init__(self):
        self.asked, self.failing, self.failing_at = [], None, ()
        self.infos = {"loading": "0", "master_replid": "r", "master_repl_offset": "100", **WHOLE}

    def ask(self, *words, timeout=None):
        self.asked.append(words)
        if self.failing is not None and (not self.failing_at or words[: len(self.failing_at)] == self.failing_at):
            raise self.failing
        return ["flynn"] if words == ("ACL", "USERS") else "OK"

    def info(self, *_, timeout=None):
        self.ask("INFO")
        return dict(self.infos)


class FakeServer:
    quay_port = 999

    def __init__(self):
        self.is_killed = False

    def kill(self):
        self.is_killed = True

    def has_ended(self):
        return False


class Place(unittest.TestCase):
    """A member "a", and time that passes as it is told."""

    def setUp(self):
        self.moment = 1000.0
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch("time.clock_gettime", lambda _: self.moment))
        self.enterContext(mock.patch("builtins.print"))
        self.asks = self.enterContext(mock.patch("leadership.ask_copies", return_value=True))
        self.noted = Noted(Path(folder))
        self.store, self.server, self.valkey, self.guarded = FakeStore(), FakeServer(), FakeValkey(), FakeValkey()
        self.guard = Guard(self.guarded, self.server)
        self.member = Supervisor(
            name="a",
            address="10.0.0.1",
            store=self.store,
            server=self.server,
            local=self.valkey,
            guard=self.guard,
            noted=self.noted,
            password={"members": "m", "app": "p"},
        )

    def step(self, passed=2.0):
        self.moment += passed
        self.valkey.infos["master_repl_offset"] = str(int(self.valkey.infos["master_repl_offset"]) + 100)
        self.member.step()
        self.noted.write_due()

    def lead(self):
        """With a copy "b" that is close behind."""
        for _ in range(3):
            self.step()
        self.assertTrue(self.member.serves())
        self.announce()
        for _ in range(3):
            self.acknowledge()
            self.step()
        self.assertEqual(frozenset("b"), self.member.record.copies)

    def announce(self, **known):
        term = self.member.leads or 1
        said = {"address": "10.0.0.2", "term": term, "offset": 10, "data": "d", "isReady": True, "isCold": False, "isKept": True}
        self.store.set("members/b", {**said, "replid": "r", "state": "streaming", **known})

    def acknowledge(self, lacking=0):
        offset = int(self.valkey.infos["master_repl_offset"]) - lacking
        self.valkey.infos["slave0"] = f"ip=10.0.0.2,port=6379,state=online,offset={offset},lag=0"

    def lose(self, call):
        """What is asked of the store is done, and the answer is lost."""
        asked = getattr(self.store, call)

        def lost(*words):
            asked(*words)
            raise Away("the answer is lost")

        return mock.patch.object(self.store, call, lost)

    def follow(self):
        """A "b" that leads."""
        self.store.set("record", {"data": "d", "term": 1, "leader": "b", "copies": ["a"]})
        self.announce()
        self.store.set("lead", {"name": "b", "address": "10.0.0.2", "term": 1})
        linked = {"master_link_status": "up", "master_host": "10.0.0.2", "master_port": "6379", "slave_repl_offset": "10"}
        self.valkey.infos.update(linked)
        self.step()
        self.assertTrue(self.member.follows())

    def until_shut(self):
        self.moment = max(self.moment, self.guard.until)
        self.guard.look()
