"""What may take writes is watched, and ended in time."""

import socket
import threading
import unittest

import valkey
from member_fixture import Place


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


if __name__ == "__main__":
    unittest.main()
