"""Who counts as a copy: commits wait for it before it is written down, and until it is written off."""

import unittest

from keyspace import Away
from member_fixture import Place

WAIT, DO_NOT = "SET GLOBAL rpl_semi_sync_master_enabled=1", "SET GLOBAL rpl_semi_sync_master_enabled=0"


class Counted(Place):
    def setUp(self):
        super().setUp()
        self.lead()
        self.maria.asked.clear()

    def copies(self):
        return self.store.entries["record"].value["copies"]

    def test_one_is_chosen_and_told_so_before_anything_waits_for_it(self):
        self.announce(acks=False)
        self.step()
        self.step()
        self.assertEqual("m2", self.store.entries["members/m1"].value["chosen"])
        self.assertFalse(self.maria.has(WAIT))
        self.assertEqual([], self.copies())

    def test_commits_wait_for_it_before_it_is_written_down(self):
        self.announce(acks=False)
        self.step()
        self.announce()
        self.step()
        self.assertTrue(self.maria.has(WAIT))
        self.assertEqual([], self.copies())
        self.step()
        self.assertEqual(["m2"], self.copies())

    def test_one_that_lacks_what_was_committed_before_is_none_yet(self):
        self.announce(acks=False)
        self.step()
        for _ in range(3):
            self.announce(offset=1)
            self.step()
        self.assertTrue(self.maria.has(WAIT))
        self.assertEqual([], self.copies())
        self.announce()
        self.step()
        self.assertEqual(["m2"], self.copies())

    def test_one_that_is_gone_is_written_off_before_nobody_waits_for_it(self):
        self.count()
        self.maria.asked.clear()
        self.store.entries.pop("members/m2")
        self.maria.counts["clients"] = 0
        self.store.away = {"commit"}
        for _ in range(3):
            self.step()
        self.assertEqual(["m2"], self.copies())
        self.assertFalse(self.maria.has(DO_NOT))
        self.store.away = set()
        self.step()
        self.assertEqual([], self.copies())
        self.assertTrue(self.maria.has(DO_NOT))

    def test_one_that_was_written_down_though_the_answer_was_lost_is_waited_for(self):
        self.announce(acks=False)
        self.step()
        self.announce()
        self.step()
        commit = self.store.commit

        def lost(*words):
            commit(*words)
            raise Away("the answer is lost")

        self.store.commit = lost
        self.step()
        self.assertEqual(["m2"], self.copies())
        self.store.commit, self.store.away = commit, {"commit"}
        self.maria.asked.clear()
        self.store.entries.pop("members/m2")
        self.step()
        self.assertFalse(self.maria.has(DO_NOT))

    def test_one_beside_which_another_acknowledges_does_not_count(self):
        self.announce(acks=False)
        self.step()
        for _ in range(3):
            self.announce()
            self.maria.counts["clients"] = 2
            self.step()
        self.assertEqual([], self.copies())

    def test_where_waiting_has_ended_by_itself_nobody_counts(self):
        self.count()
        self.maria.counts["status"] = "OFF"
        self.step()
        self.assertEqual([], self.copies())

    def test_one_that_begins_anew_is_given_a_while(self):
        self.count()
        for _ in range(3):
            self.announce(acks=False)
            self.step()
            self.assertEqual(["m2"], self.copies())
        for _ in range(3):
            self.announce(acks=False)
            self.step()
        self.assertEqual([], self.copies())

    def test_one_that_acknowledges_nothing_though_something_waits_is_written_off(self):
        self.count()
        self.maria.counts["wait_sessions"] = 1
        for _ in range(10):
            self.announce()
            self.step()
        self.assertEqual([], self.copies())

    def refuse(self):
        """What waits for it waits until it is written off; how long it was before it was waited for."""
        self.maria.asked.clear()
        for passed in range(4000):
            self.announce(acks=self.member.copies.chosen == "m2")
            self.step()
            if self.maria.has(WAIT):
                break
        self.maria.counts["wait_sessions"] = 1
        for _ in range(10):
            if self.member.copies.chosen is not None:
                self.announce()
                self.step()
        self.assertEqual([], self.copies())
        self.assertIsNone(self.member.copies.chosen)
        self.maria.counts["wait_sessions"] = 0
        return 2 * passed

    def test_one_that_acknowledges_nothing_is_chosen_again_ever_later(self):
        waited = [self.refuse() for _ in range(9)]
        self.assertLess(waited[0], 10)
        for former, one in zip(waited[1:7], waited[2:7], strict=False):
            self.assertGreater(one, 1.7 * former)
        self.assertGreater(waited[1], 50)
        self.assertLess(max(waited), 3700)
        # Once it has acknowledged something it is forgotten.
        for number in range(1900):
            self.announce(acks=self.member.copies.chosen == "m2")
            self.maria.counts["yes_tx"] = number
            self.step()
        self.assertEqual(["m2"], self.copies())
        self.assertEqual(0, self.maria.counts["wait_sessions"])
        self.store.entries.pop("members/m2")
        self.step()
        self.assertEqual([], self.copies())
        self.assertLess(self.refuse(), 10)
        self.assertLess(self.refuse(), 80)

    def test_the_store_is_away_and_it_goes_on_with_the_one_that_counts_and_promises(self):
        self.count()
        self.store.away = {"keep", "read", "grant"}
        for _ in range(5):
            self.step(3)
            self.guard.look()
            self.assertTrue(self.member.serves())
        self.maria.counts["clients"] = 0
        for _ in range(6):
            self.step(3)
            self.guard.look()
        self.assertFalse(self.member.serves())
        self.assertTrue(self.guarded.has("SET GLOBAL read_only=1"))

    def test_what_was_shut_for_a_moment_and_is_open_again_still_waits_for_its_copy(self):
        self.count()
        self.store.away = {"keep", "read", "grant"}
        self.asks.return_value = False
        self.until_shut()
        self.assertFalse(self.member.serves())
        self.maria.asked.clear()
        self.asks.return_value = True
        self.step(0.1)
        self.assertTrue(self.member.serves())
        self.assertFalse(self.maria.has(DO_NOT))


if __name__ == "__main__":
    unittest.main()
