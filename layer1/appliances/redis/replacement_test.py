"""Restores: what is not whole, does not fit or is not waited for changes nothing."""

import contextlib
import io
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import answers
import replacement
import valkey
from keyspace import Refused
from member_fixture import Place, wanted


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

    def test_what_was_full_and_makes_room_for_itself_comes_back(self):
        source = mock.Mock(port=1234)
        for policy, used, fits in (("noeviction", 101, False), ("allkeys-lru", 105, True), ("allkeys-lru", 120, False)):
            self.valkey.infos.update(used_memory=str(used), maxmemory_policy=policy)
            with mock.patch("replacement.until_loaded"), mock.patch("replacement.keep") as keep, contextlib.ExitStack() as stack:
                if not fits:
                    stack.enter_context(self.assertRaisesRegex(replacement.Spoiled, "raise the limit first"))
                replacement.load(self.member, self.valkey, source, 100, wanted)
            self.assertEqual(fits, keep.called)

    def test_one_that_is_not_read_through_in_time_is_refused(self):
        with tempfile.NamedTemporaryFile() as file, mock.patch("subprocess.run") as run:
            file.write(b"REDIS0011")
            file.flush()
            run.side_effect = subprocess.TimeoutExpired("valkey-check-rdb", 1)
            with self.assertRaisesRegex(Refused, "nothing was replaced"):
                replacement.check(file.name)

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


if __name__ == "__main__":
    unittest.main()
