"""Leases, patience and copies: what who leads does where the store or Valkey does not answer."""

import socket
import time
import unittest
from unittest import mock

import answers
import handover
import keyspace
import valkey
from decision import PROMISE_S, Position
from keyspace import Away, Refused
from member_fixture import Place


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

    def test_a_copy_that_was_seen_to_have_all_too_late_is_not_handed_over_to(self):
        self.lead()
        self.acknowledge()
        candidate = mock.Mock(address="10.0.0.2")
        times = iter([0, 0, handover.CATCH_UP_S + 0.1, handover.CATCH_UP_S + 0.1])
        with mock.patch("handover.now", lambda: next(times)), self.assertRaisesRegex(Refused, "has yet to catch up"):
            handover.until_it_has(self.member, candidate, 100)

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
                store.allow(2)
                for _ in range(6):
                    self.assertRaises(Away, store.read)
            # Each with a time of its own would take six times as long.
            self.assertLess(time.monotonic() - began, 9)


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


class Told(Place):
    def test_a_member_without_data_leads_for_nobody(self):
        self.store.set("record", {"data": "d", "term": 1, "leader": "z", "copies": ["b"]})
        self.step()
        # Its backups would go with it.
        says = "no member that is there has any of the data.*download a backup before you remove the resource"
        with self.assertRaisesRegex(Refused, says):
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


if __name__ == "__main__":
    unittest.main()
