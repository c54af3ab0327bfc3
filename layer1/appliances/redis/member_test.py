"""What the loop does: jobs of others, logins, scripts that never end, its key in the store."""

import threading
import time
import unittest

import logins
import valkey
from keyspace import Away, Refused
from member import BUSY_S, Ended
from member_fixture import Place
from peers import TOLD_S


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


if __name__ == "__main__":
    unittest.main()
