"""What a member does where its Valkey does not answer, the store does not, or somebody sends it what it is not to take."""

import io
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import answers
import handover
import keyspace
import logins
import replacement
import snapshot
import valkey
from decision import PROMISE_S, Position
from disk import SETTLE_S, Noted
from guard import Guard
from keyspace import Away, Entry, Refused
from member import BUSY_S, Ended, Supervisor
from peers import TOLD_S

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


class FakeStore:
    """One lease and keys; `away`: the calls that it does not answer."""

    def __init__(self):
        self.entries, self.leases, self.count, self.away, self.puts = {}, set(), 0, set(), []

    def allow(self, seconds):
        pass

    def reach(self, call):
        if call in self.away:
            raise Away(f"the store does not answer to {call}")

    def keep(self, lease):
        self.reach("keep")
        return lease in self.leases

    def grant(self, _):
        self.reach("grant")
        self.count += 1
        self.leases.add(f"L{self.count}")
        return f"L{self.count}"

    def read(self):
        self.reach("read")
        return dict(self.entries)

    def put(self, key, value, lease):
        self.reach("put")
        self.puts.append(key)
        self.set(key, value, lease)

    def set(self, key, value, lease=None):
        self.count += 1
        self.entries[key] = Entry(value, self.count, lease)

    def commit(self, expected, puts, deletes=()):
        self.reach("commit")
        if any((self.entries[key].revision if key in self.entries else None) != at for key, at in expected.items()):
            return False
        for one in puts:
            self.set(*one)
        for key in deletes:
            self.entries.pop(key, None)
        return True

    def end(self, lease):
        self.leases.discard(lease)
        self.entries = {key: entry for key, entry in self.entries.items() if entry.lease != lease}


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


class Guards(Place):
    def test_what_may_take_writes_is_watched_though_it_has_not_answered(self):
        self.guarded.failing = valkey.Unanswered("nothing")
        self.guard.extend(self.moment + 5)
        self.assertRaises(valkey.Unanswered, self.guard.open)
        self.assertFalse(self.guard.is_open)
        self.guarded.failing = None
        self.assertTrue(self.guard.look())
        self.assertEqual([("REPLICAOF", "NO", "ONE")], self.guarded.asked)
        self.until_shut()
        self.assertIn(("REPLICAOF", "127.0.0.1", 999), self.guarded.asked)
        self.assertFalse(self.guard.may_be_open)

    def test_it_is_not_told_to_take_writes_if_there_is_no_time_to_end_that_again(self):
        self.guard.extend(self.moment + 0.9)
        self.assertFalse(self.guard.open())
        self.assertEqual([], self.guarded.asked)

    def test_what_does_not_hear_that_it_is_to_take_none_has_to_go(self):
        for error in (valkey.Unanswered("nothing"), valkey.Error("BUSY a script")):
            for end in (self.guard.close, lambda: self.guard.close("10.0.0.2", 6379), lambda: self.guard.lend(1234)):
                self.server.is_killed, self.guarded.failing = False, None
                self.guard.extend(self.moment + 5)
                self.assertTrue(self.guard.open())
                self.guarded.failing = error
                self.assertRaises(valkey.Error, end)
                self.assertFalse(self.guard.is_open)
                self.moment += 5
                self.assertFalse(self.guard.look())
                self.assertTrue(self.server.is_killed)

    def test_once_it_has_heard_it_is_watched_no_more(self):
        self.guard.extend(self.moment + 5)
        self.guard.open()
        self.guarded.failing, self.guarded.failing_at = valkey.Unanswered("nothing"), ("ACL",)
        self.assertRaises(valkey.Unanswered, self.guard.close)
        self.moment += 5
        self.assertTrue(self.guard.look())
        self.assertFalse(self.server.is_killed)


class Connections(unittest.TestCase):
    def test_one_that_is_not_let_in_has_no_answer_and_no_connection(self):
        with socket.create_server(("127.0.0.1", 0)) as full:

            def refuse():
                with full.accept()[0] as connection:
                    connection.sendall(b"-ERR max number of clients reached\r\n")

            refusing = threading.Thread(target=refuse)
            refusing.start()
            local = valkey.Valkey(full.getsockname(), "flynn", "p")
            with self.assertRaisesRegex(valkey.Unanswered, "max number of clients reached"):
                local.ask("PING", timeout=2)
            refusing.join()
            self.assertIsNone(local.socket)


class Leases(Place):
    def test_no_time_is_given_for_a_lease_that_the_lead_does_not_hang_on(self):
        self.lead()
        self.asks.return_value = False
        self.store.end(self.member.lease)
        self.store.away = {"read"}
        until = self.guard.until
        for _ in range(3):
            self.step()
            self.assertEqual(until, self.guard.until)
        self.until_shut()
        self.assertFalse(self.member.serves())
        with self.assertRaisesRegex(Refused, "its lead has just ended"):
            handover.hand_over(self.member, None)

    def test_with_the_store_back_it_takes_the_lead_that_nobody_has(self):
        self.test_no_time_is_given_for_a_lease_that_the_lead_does_not_hang_on()
        self.store.away = set()
        term = self.member.leads
        for _ in range(2):
            self.step()
        self.assertTrue(self.member.serves())
        self.assertEqual(term + 1, self.member.leads)

    def test_one_that_was_taken_though_the_answer_was_lost_is_led_in_its_own_term(self):
        self.lead()
        term = self.member.leads
        self.store.away = {"keep", "grant", "read"}
        for _ in range(4):
            self.acknowledge()
            self.step()
        self.store.end(self.member.lease)
        self.announce()
        self.store.away = set()
        self.acknowledge()
        with self.lose("commit"):
            self.step()
        self.assertEqual(term + 1, self.store.entries["lead"].value["term"])
        self.assertEqual(term, self.member.leads)
        for _ in range(4):
            self.step()
            self.announce()
            self.acknowledge()
        self.assertEqual(term + 1, self.member.leads)
        self.assertEqual(term + 1, self.store.entries["members/a"].value["term"])
        self.assertTrue(self.member.serves())
        self.assertEqual(["b"], self.store.entries["record"].value["copies"])

    def test_a_look_s_calls_take_no_longer_together_than_the_store_may(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            store = keyspace.Keyspace(f"http://127.0.0.1:{silent.getsockname()[1]}", "n", "p")
            began = time.monotonic()
            with mock.patch("keyspace.now", time.monotonic):
                store.allow(0.3)
                for _ in range(6):
                    self.assertRaises(Away, store.read)
            self.assertLess(time.monotonic() - began, 1.2)


class Patience(Place):
    def test_no_time_passes_while_the_store_is_away(self):
        self.store.set("record", {"data": "d", "term": 1, "leader": "z", "copies": ["a"]})
        for _ in range(2):
            self.step()
        before = self.member.free_s
        self.store.away = {"read"}
        for _ in range(40):
            self.step(5)
        self.store.away = set()
        self.step(5)
        self.assertEqual(before, self.member.free_s)
        self.assertTrue(self.member.is_late)
        self.step(2)
        self.assertEqual(before + 2, self.member.free_s)

    def test_who_leads_ends_it(self):
        self.store.set("record", {"data": "d", "term": 1, "leader": "z", "copies": ["a"]})
        for _ in range(3):
            self.step()
        self.store.set("lead", {"name": "z", "address": "10.0.0.9", "term": 2})
        self.step()
        self.assertEqual((0.0, False), (self.member.free_s, self.member.is_late))


class Copies(Place):
    def test_a_valkey_that_does_not_answer_in_time_loses_no_copy(self):
        self.lead()
        for error in (valkey.Unanswered("nothing"), valkey.Error("BUSY a script")):
            self.valkey.failing = error
            for _ in range(3):
                self.step(3)
            self.assertEqual(["b"], self.store.entries["record"].value["copies"])
            self.valkey.failing = None
            # What it has acknowledged since is yet to be read.
            self.step()
            self.assertEqual(["b"], self.store.entries["record"].value["copies"])
            self.acknowledge()
            self.step()

    def test_one_that_lacks_what_was_written_some_seconds_ago_is_none(self):
        self.lead()
        for _ in range(3):
            self.step()
        self.assertEqual([], self.store.entries["record"].value["copies"])

    def test_one_that_went_is_waited_for_no_more_though_the_answer_to_that_was_lost(self):
        self.lead()
        del self.valkey.infos["slave0"]
        with self.lose("commit"):
            self.step()
        self.assertEqual([], self.store.entries["record"].value["copies"])
        self.step()
        self.asks.side_effect = lambda copies, *_: not copies
        self.store.away = {"keep"}
        for _ in range(5):
            self.step(4)
            self.guard.look()
        self.assertTrue(self.member.serves())

    def test_one_that_may_be_written_down_yet_is_waited_for_until_it_cannot_be(self):
        self.lead()
        self.announce(address="10.0.0.3")
        said = self.store.entries.pop("members/b")
        self.store.set("members/c", said.value)
        self.announce()
        self.acknowledge()
        self.valkey.infos["slave1"] = self.valkey.infos["slave0"].replace("10.0.0.2", "10.0.0.3")
        self.store.away = {"commit"}
        self.step()
        self.assertEqual({"b", "c"}, self.member.possible_copies)
        del self.valkey.infos["slave1"]
        self.acknowledge()
        self.step()
        self.assertEqual({"b", "c"}, self.member.possible_copies)
        self.store.away = set()
        for _ in range(2):
            self.acknowledge()
            self.step()
        self.assertEqual(["b"], self.store.entries["record"].value["copies"])
        self.assertLessEqual(self.member.possible_copies, {"b"})

    def test_one_is_none_before_its_disk_has_what_it_copied(self):
        self.lead()
        self.announce(isKept=False)
        self.acknowledge()
        self.step()
        self.assertEqual(frozenset(), self.member.record.copies)


class WithoutTheStore(Place):
    def test_it_goes_on_while_its_copies_wait_and_are_close_behind(self):
        self.lead()
        self.store.away = {"keep"}
        for _ in range(5):
            self.acknowledge()
            self.step(4)
            self.guard.look()
            self.assertTrue(self.member.serves())
        for _ in range(4):
            self.step(4)
            self.guard.look()
        self.assertFalse(self.member.serves())
        self.assertLessEqual(self.guard.until, self.moment)

    def test_what_was_shut_for_a_moment_is_open_again_once_they_wait(self):
        self.lead()
        self.store.away = {"keep"}
        self.asks.return_value = False
        self.until_shut()
        self.assertFalse(self.member.serves())
        self.acknowledge()
        self.step(0.1)
        self.assertFalse(self.member.serves())
        self.asks.return_value = True
        self.acknowledge()
        self.step(0.1)
        self.assertTrue(self.member.serves())
        self.assertEqual(self.moment + PROMISE_S - 1, self.guard.until)

    def test_how_far_it_is_is_noted_without_the_store_too(self):
        self.lead()
        self.store.away = {"keep"}
        for _ in range(4):
            self.acknowledge()
            self.step()
        self.assertGreaterEqual(self.noted.position.offset, self.member.position.offset - 300)


class Jobs(Place):
    def test_one_that_the_member_has_no_time_for_is_not_done_later(self):
        done = []
        with self.assertRaisesRegex(Refused, "nothing was done"):
            self.member.run(lambda: done.append(1), 0.01)
        self.step()
        self.assertEqual([], done)

    def test_of_one_that_it_is_at_it_is_not_known_whether_it_is_done(self):
        begun, may_end, said = threading.Event(), threading.Event(), []

        def job():
            begun.set()
            may_end.wait(10)

        def ask():
            try:
                self.member.run(job, 0.05)
            except Exception as error:
                said.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        while not self.member.jobs:
            time.sleep(0.001)
        working = threading.Thread(target=self.member.step)
        working.start()
        self.assertTrue(begun.wait(10))
        asking.join()
        may_end.set()
        working.join()
        self.assertIsInstance(said[0], Away)


class Logins(Place):
    def test_a_copy_lets_in_whom_the_primary_does_from_the_beginning(self):
        self.follow()
        self.assertEqual({"app": logins.digest("p")}, self.member.admitted)
        self.store.set("logins", {"app_1": "0" * 64})
        self.step()
        self.assertEqual({"app_1": "0" * 64}, self.member.admitted)

    def test_nobody_is_let_in_before_there_is_a_database(self):
        self.store.away = {"commit"}
        self.step()
        self.assertIsNone(self.member.admitted)
        self.store.away = set()
        self.step()
        self.assertEqual({"app": logins.digest("p")}, self.member.admitted)


class Notes(Place):
    def assert_noted(self, term, offset):
        self.noted.write_due()
        self.assertEqual(Position(term, offset), self.noted.position)
        self.assertEqual(Position(term, offset), Noted(self.noted.file.parent).position)

    def test_a_member_at_rest_notes_seldom_and_one_that_is_written_to_each_time(self):
        with mock.patch("disk.write") as write:
            for second in range(0, 5 * TOLD_S, 2):
                self.noted.note("d", Position(3, 100 + second), self.moment + second, True)
                self.noted.write_due()
            self.assertLessEqual(write.call_count, 5)
            write.reset_mock()
            for second in range(5 * TOLD_S, 6 * TOLD_S, 2):
                self.noted.note("d", Position(3, 10_000 * second), self.moment + second, True)
                self.noted.write_due()
            self.assertGreaterEqual(write.call_count, 3)

    def test_a_disk_that_takes_its_time_takes_none_of_the_member_s(self):
        at, may_end, seen = self.moment, threading.Event(), []

        def slow(_, text):
            seen.append(text)
            may_end.wait(10)

        with mock.patch("disk.write", slow):
            threading.Thread(target=self.noted.watch, daemon=True).start()
            for second in range(0, 20, 2):
                self.noted.note("d", Position(3, 10_000 * second), at + second, True)
            may_end.set()
            until = time.monotonic() + 10
            while self.noted.position != Position(3, 140_000) and time.monotonic() < until:
                time.sleep(0.01)
        self.assertEqual(Position(3, 140_000), self.noted.position)
        self.assertLessEqual(len(seen), 3)

    def test_a_full_disk_is_told_once_and_noted_on_when_there_is_room(self):
        with mock.patch("disk.write", side_effect=OSError("no room")):
            for second in range(0, 20, 2):
                self.noted.note("d", Position(3, 10_000 * second), self.moment + second, True)
                self.noted.write_due()
        self.assertEqual(Position(), self.noted.position)
        self.noted.note("d", Position(3, 900_000), self.moment + 20, True)
        self.noted.note("d", Position(3, 900_000), self.moment + 24, True)
        self.assert_noted(3, 900_000)

    def test_nothing_is_noted_while_a_file_is_written_anew_in_whatever_term(self):
        at = self.moment
        self.noted.note("d", Position(3, 10), at, True)
        self.noted.note("d", Position(3, 20), at + SETTLE_S, True)
        self.assert_noted(3, 10)
        # All was copied anew in the same term; the disk has what there was before.
        for later in range(1, 5):
            self.noted.note("d", Position(3, 5000), at + SETTLE_S * later, False)
        self.assert_noted(3, 10)
        self.noted.note("d", Position(3, 5000), at + 60, True)
        self.assert_noted(3, 10)
        self.noted.note("d", Position(3, 5000), at + 60 + SETTLE_S, True)
        self.assert_noted(3, 5000)


class Scripts(Place):
    def test_one_that_never_ends_ends_with_valkey(self):
        self.lead()
        self.valkey.failing = valkey.Error("BUSY Valkey is busy running a script.")
        self.step()
        self.step(BUSY_S - 1)
        self.assertFalse(self.server.is_killed)
        with self.assertRaises(Ended):
            self.step(2)
        self.assertTrue(self.server.is_killed)

    def test_who_reads_its_data_is_let_read(self):
        self.valkey.failing = valkey.Error("LOADING Valkey is loading the dataset in memory")
        for _ in range(10):
            self.step(BUSY_S)
        self.assertFalse(self.server.is_killed)


class Keys(Place):
    def test_a_member_at_rest_writes_seldom(self):
        self.lead()
        self.store.puts.clear()
        began = self.moment
        while self.moment < began + 5 * TOLD_S:
            self.acknowledge()
            self.step()
        self.assertLessEqual(self.store.puts.count("members/a"), 6)
        self.valkey.infos["master_repl_offset"] = "900000"
        self.acknowledge()
        self.store.puts.clear()
        self.step()
        self.assertEqual(1, self.store.puts.count("members/a"))


class Restores(Place):
    def test_what_is_larger_than_the_memory_is_not_taken(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("replacement.FOLDER", Path(folder)):
            sent = io.BytesIO(b"60\n" + b"x" * 60 + b"60\n" + b"x" * 60 + b"0\n")
            with self.assertRaisesRegex(Refused, "more than 100 bytes, which is the room in memory"):
                replacement.receive(sent, 100)
            self.assertLess(sent.tell(), 100)

    def test_before_it_begins_no_copy_leads_by_itself_and_nothing_is_written(self):
        self.lead()
        replacement.begin(self.member, wanted)
        self.assertEqual([], self.store.entries["record"].value["copies"])
        self.assertEqual(("REPLICAOF", "127.0.0.1", 999), self.guarded.asked[-2])
        self.assertFalse(self.member.serves())
        self.acknowledge()
        self.step()
        self.assertEqual([], self.store.entries["record"].value["copies"])
        replacement.settle(self.member)
        self.assertTrue(self.member.serves())
        self.step()
        self.assertTrue(self.member.serves())

    def test_one_that_is_small_is_through_before_the_next_look(self):
        self.lead()
        replacement.begin(self.member, wanted)
        replacement.settle(self.member)
        self.assertTrue(self.member.serves())

    def test_while_it_is_under_way_that_is_what_is_said(self):
        self.lead()
        replacement.begin(self.member, wanted)
        self.step()
        self.assertEqual("restoring", self.store.entries["members/a"].value["state"])
        for ask in (lambda: answers.switch_over(self.member, None), lambda: answers.told_to_lead(self.member)):
            with self.assertRaisesRegex(Refused, "a restore is under way"):
                ask()
        replacement.settle(self.member)
        self.step()
        self.assertEqual("running", self.store.entries["members/a"].value["state"])

    def test_a_lead_that_is_taken_anew_does_not_break_it_off(self):
        self.lead()
        term = self.member.leads
        replacement.begin(self.member, wanted)
        self.step()
        self.guarded.asked.clear()
        self.store.away = {"keep", "grant", "read"}
        for _ in range(6):
            self.step()
        self.store.end(self.member.lease)
        self.store.away = set()
        for _ in range(3):
            self.step()
        self.assertEqual(term + 1, self.member.leads)
        self.assertNotIn(("REPLICAOF", "NO", "ONE"), self.guarded.asked)
        self.assertFalse(self.member.serves())
        replacement.settle(self.member)
        self.assertTrue(self.member.serves())

    def test_one_is_not_settled_without_a_lease(self):
        self.lead()
        replacement.begin(self.member, wanted)
        self.store.end(self.member.lease)
        for lease in (self.member.lease, None):
            self.member.lease = lease
            self.assertRaises(Refused, replacement.settle, self.member)
            self.assertNotIn("lead", self.store.entries)

    def reading(self, **known):
        self.valkey.infos.update({"role": "slave", "master_link_status": "down", **known})
        return mock.Mock(asked=1, sent=False, port=1234)

    def test_what_was_told_to_be_a_primary_reads_nothing_to_its_end(self):
        self.lead()
        with self.assertRaisesRegex(replacement.Spoiled, "told to read no further"):
            replacement.until_loaded(self.member, self.valkey, self.reading(role="master"), wanted)

    def test_one_that_nobody_waits_for_ends_before_it_is_on_the_disk(self):
        self.lead()
        with self.assertRaisesRegex(Refused, "gone: nothing was replaced"):
            replacement.begin(self.member, lambda: False)
        self.assertTrue(self.member.serves())
        replacement.begin(self.member, wanted)
        with self.assertRaisesRegex(replacement.Spoiled, "who asked for it is gone"):
            replacement.load(self.member, self.valkey, self.reading(), 100, lambda: False)
        source = self.reading(master_link_status="up", used_memory="50")
        source.sent = True
        looks = iter([True, False])
        with self.assertRaisesRegex(replacement.Spoiled, "who asked for it is gone"):
            replacement.load(self.member, self.valkey, source, 100, lambda: next(looks))
        self.assertNotIn(("CONFIG", "SET", "appendonly", "yes"), self.valkey.asked)

    def test_once_it_is_on_its_way_to_the_disk_what_is_there_may_not_be_known(self):
        self.valkey.failing, self.valkey.failing_at = valkey.Unanswered("nothing"), ("INFO",)
        with self.assertRaisesRegex(replacement.Unknown, "whether all was replaced is not known"):
            source = self.reading(master_link_status="up", used_memory="50")
            with mock.patch("replacement.until_loaded"), mock.patch.object(self.valkey, "info", self.info_until_kept):
                replacement.load(self.member, self.valkey, source, 100, wanted)

    def info_until_kept(self, *_):
        if ("CONFIG", "SET", "appendonly", "yes") in self.valkey.asked:
            raise valkey.Unanswered("nothing")
        return self.valkey.infos

    def test_who_has_hung_up_is_gone_and_who_says_nothing_waits(self):
        own, other = socket.socketpair()
        with own:
            with other:
                self.assertFalse(replacement.is_gone(own))
                other.sendall(b"0\n")
                self.assertFalse(replacement.is_gone(own))
                own.recv(2)
            self.assertTrue(replacement.is_gone(own))

    def test_one_that_cannot_be_begun_changes_nothing(self):
        self.lead()
        self.store.away = {"commit"}
        self.assertRaises(Refused, replacement.begin, self.member, wanted)
        self.store.away = set()
        self.store.set("lead", {"name": "b", "address": "10.0.0.2", "term": 9})
        self.assertRaises(Refused, replacement.begin, self.member, wanted)
        self.assertTrue(self.member.serves())


class Told(Place):
    def test_a_member_without_data_leads_for_nobody(self):
        self.store.set("record", {"data": "d", "term": 1, "leader": "z", "copies": ["b"]})
        self.step()
        with self.assertRaisesRegex(Refused, "no member that is there has any of the data"):
            answers.told_to_lead(self.member)
        self.announce(term=1, isCold=True)
        self.step()
        ranks = {one["name"]: one["rank"] for one in answers.cluster(self.member)["members"]}
        self.assertGreater(ranks["b"], ranks["a"])
        with self.assertRaisesRegex(Refused, "another member has: say --to that"):
            answers.told_to_lead(self.member)
        self.member.data = "d"
        answers.told_to_lead(self.member)
        self.assertTrue(self.member.is_told)


    def test_one_with_the_data_of_another_database_comes_last(self):
        self.store.set("record", {"data": "d", "term": 1, "leader": "z", "copies": ["b"]})
        self.member.data, self.member.position = "another", Position(9, 9)
        self.announce(term=1)
        for _ in range(2):
            self.step()
        ranks = {one["name"]: one["rank"] for one in answers.cluster(self.member)["members"]}
        self.assertGreater(ranks["b"], ranks["a"])


class Saving(FakeValkey):
    """`saves`: what each look at it finds, and how many times it has saved."""

    def __init__(self, *looks):
        super().__init__()
        self.looks = list(looks)

    def info(self, *sections, timeout=None):
        if sections == ("memory",):
            return {"used_memory_dataset": "5"}
        busy, saves, status = self.looks.pop(0)
        return {"rdb_bgsave_in_progress": busy, "rdb_saves": saves, "rdb_last_bgsave_status": status}


class Dumps(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch("snapshot.FOLDER", self.folder))
        self.enterContext(mock.patch("snapshot.FILE", self.folder / "dump.rdb"))
        self.enterContext(mock.patch("snapshot.LOOK_S", 0))
        (self.folder / "dump.rdb").write_bytes(b"saved")

    def test_one_of_now_is_read_from_the_volume(self):
        # One is being made, of before; then one of now begins, and ends.
        local = Saving(("1", "3", "ok"), ("0", "3", "ok"), ("0", "3", "ok"), ("1", "4", "ok"), ("0", "4", "ok"))
        with snapshot.take(local) as file:
            self.assertEqual(b"saved", file.read())
        self.assertEqual(([("BGSAVE", "SCHEDULE")], []), (local.asked, local.looks))

    def test_one_that_cannot_be_made_is_none(self):
        with self.assertRaisesRegex(Refused, "cannot save a dump"):
            snapshot.take(Saving(("0", "3", "ok"), ("0", "4", "err")))

    def test_it_is_not_begun_where_there_is_no_room(self):
        local = Saving()
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=4)):
            with self.assertRaisesRegex(Refused, "may take 5 bytes, and the volume has room for 4"):
                snapshot.take(local)
        self.assertEqual([], local.asked)


if __name__ == "__main__":
    unittest.main()
