"""What is on the volume: notes of how far the data is, and files that are dumped."""

import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import snapshot
from decision import Position
from disk import SETTLE_S, Noted
from keyspace import Refused
from member_fixture import FakeValkey, Place
from peers import TOLD_S


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
