"""How a member begins, follows, and takes writes."""

import unittest
from unittest import mock

import maria
import received
from decision import Position
from maria import FIRST_OF_COPIES, position_of
from member import UNKNOWN_NUMBER
from member_fixture import FakeMaria, Place
from supervisor import Ended

FOLLOWING = {
    "Master_Host": "10.0.0.2",
    "Slave_IO_Running": "Yes",
    "Slave_SQL_Running": "Yes",
    "Slave_SQL_Running_State": "",
    "Gtid_IO_Pos": "0-3-9",
    "Last_IO_Errno": 0,
    "Last_SQL_Errno": 0,
    "Last_SQL_Error": "",
    "Relay_Master_Log_File": "bin.000002",
    "Exec_Master_Log_Pos": 100,
}


class Begins(Place):
    def test_who_led_last_keeps_all_that_it_wrote_and_another_takes_back_what_nobody_acknowledged(self):
        for leader, is_copy in (("m1", False), ("m2", True)):
            self.setUp()
            self.store.set("record", {"data": "d", "term": 3, "leader": leader, "copies": ["m2"]})
            self.step()
            self.assertEqual({"is_copy": is_copy, "number": FIRST_OF_COPIES + 1}, self.server.started)

    def test_one_that_may_have_all_is_waited_for_until_it_has_said_what_it_has(self):
        self.store.set("record", {"data": "d", "term": 3, "leader": "m1", "copies": ["m2"]})
        self.maria.failing, self.maria.data = maria.Unanswered("it starts"), "d"
        for _ in range(2):
            self.step()
        said = self.store.entries["members/m1"].value
        self.assertEqual((3, UNKNOWN_NUMBER, False, "d"), (said["term"], said["offset"], said["isReady"], said["data"]))
        self.assertNotIn("lead", self.store.entries)
        self.maria.failing, self.maria.log = None, "0-3-7"
        self.step()
        self.assertTrue(self.member.serves())
        self.assertEqual(4, self.store.entries["lead"].value["term"])

    def test_one_that_still_reads_what_it_has_is_not_killed_however_long_that_takes(self):
        self.store.set("record", {"data": "d", "term": 3, "leader": "m1", "copies": []})
        self.maria.failing = maria.Unanswered("it starts")
        for _ in range(300):
            self.step()
        self.assertFalse(self.server.is_killed)
        self.maria.failing, self.maria.data, self.maria.log = None, "d", "0-3-7"
        self.step()
        self.assertTrue(self.member.serves())
        self.maria.failing = maria.Unanswered("it hangs")
        with self.assertRaisesRegex(Ended, "answers nothing for 60 s"):
            for _ in range(300):
                self.step()
        self.assertTrue(self.server.is_killed)

    def test_one_whose_server_ended_says_how(self):
        self.lead()
        self.server.ended = "MariaDB has ended with 1"
        with self.assertRaisesRegex(Ended, "with 1"):
            self.step()

    def test_it_takes_nothing_before_it_has_written_its_term(self):
        self.maria.failing, self.maria.failing_at = maria.Error("no"), "REPLACE"
        for _ in range(4):
            self.step()
        self.assertFalse(self.member.serves())
        self.assertFalse(self.guarded.has("SET GLOBAL read_only=0"))
        self.maria.failing = None
        self.step()
        self.assertTrue(self.member.serves())
        self.assertEqual(Position(2, 6), position_of(self.maria.log))

    def test_what_does_not_end_writes_in_time_is_killed(self):
        self.lead()
        self.guarded.failing, self.guarded.failing_at = maria.Error("lock wait timeout"), "SET GLOBAL read_only=1"
        self.until_shut()
        self.assertTrue(self.server.is_killed)


class Leads(Place):
    def test_what_was_shut_and_nobody_answered_for_is_opened_again(self):
        self.lead()
        self.guarded.asked.clear()
        self.maria.takes_writes = False
        self.step()
        self.assertTrue(self.guarded.has("SET GLOBAL read_only=0"))


    def test_it_asks_nothing_of_the_log_while_what_waits_is_not_acknowledged(self):
        self.count()
        self.maria.counts["wait_sessions"] = 2
        self.maria.asked.clear()
        self.announce()
        self.step()
        self.assertFalse(self.maria.has("SELECT @@gtid_binlog_pos"))
        self.assertFalse(self.maria.has("SHOW MASTER STATUS"))
        self.maria.counts["wait_sessions"] = 0
        self.step()
        self.assertTrue(self.maria.has("SELECT @@gtid_binlog_pos"))


class HadReceived(Place):
    """Commits that who led has told apps of, and that it may never come back with."""

    def setUp(self):
        super().setUp()
        self.maria.data, self.maria.log = "d", "0-3-7"
        self.maria.following = {**FOLLOWING, "Slave_IO_Running": "No", "Slave_SQL_Running": "No", "Gtid_IO_Pos": ""}
        self.found = self.enterContext(mock.patch("received.first_beyond", return_value=("relay.000004", 331)))

    def begin(self, copies):
        self.store.set("record", {"data": "d", "term": 3, "leader": "m2", "copies": copies})
        for _ in range(2):
            self.step()

    def test_it_does_that_before_it_says_how_far_it_is(self):
        self.begin(["m1"])
        self.assertTrue(self.maria.has("CHANGE MASTER TO MASTER_USE_GTID=no"))
        self.maria.following = {**self.maria.following, "Slave_SQL_Running": "Yes"}
        for _ in range(60):
            self.step()
        self.assertFalse(self.member.is_ready())
        self.assertEqual(UNKNOWN_NUMBER, self.store.entries["members/m1"].value["offset"])
        self.assertNotIn("lead", self.store.entries)
        through = "Slave has read all relay log; waiting for more updates"
        self.maria.following, self.maria.log = {**self.maria.following, "Slave_SQL_Running_State": through}, "0-3-9"
        self.step()
        self.assertEqual(Position(3, 9), self.member.position)
        self.assertEqual("m1", self.store.entries["lead"].value["name"])

    def test_what_was_not_received_whole_ends_it(self):
        self.begin(["m1"])
        self.maria.following = {**self.maria.following, "Last_SQL_Error": "Relay log read failure"}
        self.step()
        self.assertTrue(self.member.is_ready())

    def test_one_that_does_not_count_goes_on_from_who_leads(self):
        self.begin([])
        self.found.assert_not_called()
        self.assertTrue(self.member.is_ready())


class ReceivedInto(unittest.TestCase):
    def test_the_first_transaction_beyond_what_was_done_is_found(self):
        said = b"""# at 256
#261128  6:05:23 server id 3995143647  end_log_pos 331 CRC32 0x4b64532c \tGtid list [0-1-718,
# at 368
#261128  6:04:55 server id 3  end_log_pos 410 CRC32 0x3bc32309 \tGTID 0-3-9959 trans thread_id=48
# at 410
#Q> INSERT INTO notes VALUES ('# at 9')
# at 592
#261128  6:05:04 server id 4  end_log_pos 634 CRC32 0xf5ccd8a2 \tGTID 0-4-9960 trans thread_id=40
"""
        for done, at in ((Position(3, 9958), 368), (Position(3, 9959), 592), (Position(4, 9960), None)):
            self.assertEqual(at, received.place_beyond(said.splitlines(keepends=True), done))


class Follows(Place):
    def setUp(self):
        super().setUp()
        self.maria.data, self.maria.log = "d", "0-2-7"
        self.store.set("record", {"data": "d", "term": 3, "leader": "m2", "copies": []})
        self.store.set("lead", {"name": "m2", "address": "10.0.0.2", "term": 3})
        leader = FakeMaria()
        leader.log = "0-3-9"
        self.enterContext(mock.patch("member.maria.Maria", return_value=leader))
        self.tell_leader("m2")
        self.step()

    def tell_leader(self, chosen):
        said = {"address": "10.0.0.2", "term": 3, "offset": 9, "data": "d", "isReady": True, "isCold": False, "state": "running"}
        self.store.set("members/m2", {**said, "logBytes": 1, "acks": None, "chosen": chosen})

    def test_it_goes_on_from_what_it_has(self):
        self.step()
        self.assertTrue(self.maria.has("SET GLOBAL gtid_slave_pos=%s"))
        self.assertTrue(self.maria.has("CHANGE MASTER TO"))
        self.assertFalse(self.member.follows())

    def test_it_follows_once_it_has_something_of_this_term(self):
        self.maria.following = {**FOLLOWING, "Gtid_IO_Pos": "0-2-7"}
        self.step()
        self.assertFalse(self.member.follows())
        self.maria.following = FOLLOWING
        self.step()
        self.assertTrue(self.member.follows())
        self.assertEqual(Position(3, 9), self.member.position)

    def test_what_it_has_received_stays_where_only_doing_it_has_ended(self):
        self.maria.following = {**FOLLOWING, "Slave_SQL_Running": "No"}
        self.maria.asked.clear()
        self.step()
        self.assertTrue(self.maria.has("START SLAVE SQL_THREAD"))
        self.assertFalse(self.maria.has("CHANGE MASTER TO"))

    def test_it_lets_who_leads_wait_only_if_it_is_chosen(self):
        self.maria.following = FOLLOWING
        self.step()
        self.assertIsNone(self.member.acks)
        self.tell_leader("m1")
        self.step()
        self.assertEqual("m2", self.member.acks)
        self.assertTrue(self.maria.has("SET GLOBAL rpl_semi_sync_slave_enabled=1"))
        self.step()
        self.assertEqual("m2", self.store.entries["members/m1"].value["acks"])

    def test_out_of_touch_it_acknowledges_nothing_unless_it_is_asked_to_wait(self):
        self.maria.following = FOLLOWING
        self.tell_leader("m1")
        self.step()
        self.assertEqual("m2", self.member.acks)
        self.store.away = {"keep", "read", "grant"}
        for _ in range(3):
            self.step(5)
            self.member.promise("m2", 3)
        self.assertEqual("m2", self.member.acks)
        self.maria.asked.clear()
        for _ in range(3):
            self.step(5)
        self.assertIsNone(self.member.acks)
        self.assertTrue(self.maria.has("SET GLOBAL rpl_semi_sync_slave_enabled=0"))
        self.store.away = set()
        self.step()
        self.assertEqual("m2", self.member.acks)

    def test_with_what_who_leads_does_not_have_it_is_copied_anew_and_not_again_and_again(self):
        self.maria.following = {**FOLLOWING, "Slave_IO_Running": "No", "Last_IO_Errno": 1236}
        with mock.patch("member.copying.Copying") as copying:
            self.step()
        copying.return_value.start.assert_called_once()
        self.assertFalse(self.member.is_ready())
        self.member.copying, self.member.copied_at = None, self.moment
        with mock.patch("member.copying.Copying") as copying:
            self.step()
        copying.assert_not_called()

    def fail_to_copy(self, seconds):
        """How often it began to copy in that time, where it fails each time."""
        self.maria.following = {**FOLLOWING, "Slave_IO_Running": "No", "Last_IO_Errno": 1236}
        with mock.patch("member.copying.Copying") as copying:
            failed = copying.return_value
            failed.is_under_way.return_value, failed.problem, failed.lead = False, "there is no room", self.member.lead
            for _ in range(seconds // 2):
                self.step()
        return copying.call_count

    def test_copying_that_fails_again_and_again_does_not_keep_who_leads_busy(self):
        self.assertIn(self.fail_to_copy(20), (2, 3))
        self.assertIn(self.fail_to_copy(3600), range(25, 40))
        # Another one may have what that lacked.
        self.store.set("lead", {"name": "m3", "address": "10.0.0.3", "term": 4})
        self.store.set("record", {"data": "d", "term": 4, "leader": "m3", "copies": []})
        self.maria.following = {**FOLLOWING, "Master_Host": "10.0.0.3", "Slave_IO_Running": "No", "Last_IO_Errno": 1236}
        with mock.patch("member.copying.Copying") as copying:
            self.step()
            self.step()
        copying.return_value.start.assert_called_once()

    def test_what_was_written_where_another_led_does_not_stay(self):
        self.maria.following, self.maria.log = FOLLOWING, f"0-{FIRST_OF_COPIES + 1}-8"
        with mock.patch("member.copying.Copying") as copying:
            self.step()
        copying.return_value.start.assert_called_once()

    def test_it_does_all_that_it_received_before_it_takes_writes(self):
        self.maria.following, self.maria.log = FOLLOWING, "0-3-8"
        self.store.set("record", {"data": "d", "term": 3, "leader": "m2", "copies": ["m1"]})
        self.step()
        self.store.entries.pop("lead")
        self.store.entries.pop("members/m2")
        for _ in range(8):
            self.step()
        self.assertEqual("m1", self.store.entries["lead"].value["name"])
        self.assertFalse(self.member.serves())
        self.maria.log = "0-3-9"
        self.step()
        self.assertTrue(self.member.serves())
        self.assertEqual(Position(4, 10), position_of(self.maria.log))


class Stops(Place):
    def stopped(self):
        """What it was asked as it handed over and ended."""
        self.count()
        self.maria.asked.clear()
        self.maria.connected = [{"id": 7, "user": "app"}]
        copy = FakeMaria()
        copy.log = self.maria.log
        with mock.patch("handover.maria.Maria", return_value=copy):
            self.member.end()
        return self.maria.asked

    def test_it_hands_over_first_and_what_an_app_has_under_way_is_not_waited_for(self):
        asked = self.stopped()
        self.assertEqual("m2", self.store.entries["record"].value["next"])
        self.assertNotIn("lead", self.store.entries)
        self.assertTrue(self.server.is_stopped)
        self.assertLess(asked.index("KILL CONNECTION 7"), asked.index("SET GLOBAL read_only=1"))


class HandsOver(Place):
    def hand_over_in(self, seconds):
        """To a copy that says nothing for so long, and then that it has nothing."""
        self.count()
        copy = mock.Mock()

        def says_nothing(*_, **__):
            self.moment += seconds
            self.guard.look()
            raise maria.Unanswered("it is gone")

        copy.rows.side_effect = copy.one.side_effect = says_nothing
        self.maria.asked.clear()
        self.guarded.asked.clear()
        with mock.patch("handover.maria.Maria", return_value=copy), self.assertRaises(maria.Unanswered):
            self.member.hand_over()
        asked = [*self.maria.asked, *self.guarded.asked]
        return [one for one in asked if one.startswith("SET GLOBAL read_only")]

    def test_where_the_copy_does_not_catch_up_it_goes_on_taking_writes(self):
        self.assertEqual(["SET GLOBAL read_only=1", "SET GLOBAL read_only=0"], self.hand_over_in(1))
        self.assertTrue(self.member.serves())

    def test_where_its_lead_was_over_by_then_it_takes_none(self):
        self.assertEqual(["SET GLOBAL read_only=1", "SET GLOBAL read_only=1"], self.hand_over_in(8))
        self.assertFalse(self.member.serves())


class Positions(unittest.TestCase):
    def test_they_are_said_by_the_data(self):
        self.assertEqual(Position(3, 9), position_of("0-3-9"))
        self.assertEqual(Position(), position_of(""))
        # What was written where nobody led is none of a term.
        self.assertEqual(Position(0, 9), position_of(f"0-{FIRST_OF_COPIES + 4}-9"))


if __name__ == "__main__":
    unittest.main()
