"""How MariaDB is set, and what is said of one that has ended."""

import signal
import unittest

import server

MIB = server.MIB


def set_to(limit):
    return dict(line.split("=", 1) for line in server.settings(limit).splitlines() if "=" in line)


class Settings(unittest.TestCase):
    def test_apps_that_take_all_connections_leave_those_that_members_and_admins_need(self):
        for limit, most in ((256 * MIB, 64), (512 * MIB, 128), (16 * 1024 * MIB, 1000)):
            said = set_to(limit)
            self.assertEqual(most, int(said["max-user-connections"]))
            self.assertEqual(most + server.RESERVED, int(said["max-connections"]))

    def test_what_apps_for_mysql_do_in_a_transaction_is_not_refused_as_another_had_changed_it(self):
        self.assertEqual("0", set_to(512 * MIB)["innodb-snapshot-isolation"])

    def test_a_line_of_what_is_restored_has_room_beside_the_data(self):
        for limit, most in ((256, 10), (512, 30), (2048, 150)):
            self.assertEqual(most, server.longest_line(limit * MIB) // MIB)


class Ends(unittest.TestCase):
    def test_one_that_the_system_killed_may_have_needed_more_memory(self):
        self.assertIn("flynn limit set mysql memory=", server.words_of_end(-signal.SIGKILL, is_on_purpose=False))
        for code, is_on_purpose, says in (
            (-signal.SIGKILL, True, "MariaDB was killed"),
            (-signal.SIGSEGV, False, "MariaDB has ended by SIGSEGV: its log says why"),
            (1, False, "MariaDB has ended with 1: its log says why"),
        ):
            self.assertEqual(says, server.words_of_end(code, is_on_purpose=is_on_purpose))


if __name__ == "__main__":
    unittest.main()
