"""What is done with what is in a Valkey, as far as it needs none: waiting for one that saves a dump."""

import io
import socket
import sys
import threading
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from unittest import mock

import snapshot
from peers import Unwilling


def load():
    """Its functions: as a program it would do something at once."""
    module = ModuleType("client")
    with mock.patch.object(sys, "argv", ["flynn-redis-client"]):
        try:
            SourceFileLoader("client", str(Path(snapshot.__file__).parent / "flynn-redis-client")).exec_module(module)
        except SystemExit:
            return module
    raise AssertionError("without a word it does nothing")


class Waiting(unittest.TestCase):
    def setUp(self):
        self.client = load()
        self.client.SIGN_S = 0.001
        self.ours, self.primary = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.primary.close)

    def test_a_primary_that_saves_a_dump_is_waited_for_and_whoever_reads_is_told_by_what_nobody_sees(self):
        told = threading.Event()

        class Words(io.StringIO):
            def flush(self):
                if len(self.getvalue()) >= 5:
                    told.set()

        def answer():
            told.wait(60)
            self.primary.sendall(b"HTTP/1.1 200 OK\r\n")

        primary = threading.Thread(target=answer)
        primary.start()
        words = Words()
        with mock.patch.object(sys, "stderr", words):
            self.client.await_dump(self.ours)
        primary.join()
        self.assertTrue(told.is_set())
        self.assertEqual("", words.getvalue().strip())
        self.assertEqual(b"HTTP", self.ours.recv(4))

    def test_a_primary_that_says_nothing_is_given_up(self):
        with mock.patch.object(snapshot, "SAVE_S", -self.client.STALLED_S):
            with mock.patch.object(sys, "stderr", io.StringIO()), self.assertRaises(Unwilling):
                self.client.await_dump(self.ours)


if __name__ == "__main__":
    unittest.main()
