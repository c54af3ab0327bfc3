"""What people send is read as it was meant for a database that is called otherwise, on a server that has others who log in."""

import base64
import contextlib
import gzip
import io
import json
import threading
import unittest
import unittest.mock

import accounts
import dumping
import maria
import objects
import reading
import restoring
import server
from dumping import Failed

FOREIGN = b"""-- MySQL dump 10.13  Distrib 8.0.40, for Linux (x86_64)
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `wp` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 DEFAULT ENCRYPTION='N' */;
USE `wp`;
SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN;
SET @@SESSION.SQL_LOG_BIN= 0;
SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5,
b:1-7';
"""
END = b"-- Dump completed on 2026-11-28  1:02:03\n"


def read(text, chunk=7, is_own=False, longest=server.MIB):
    reader = reading.Reader(beside="x", is_own=is_own, longest=longest)
    return b"".join(reader.read(text[at : at + chunk] for at in range(0, len(text), chunk)))


class Read(unittest.TestCase):
    def test_compressed_or_not(self):
        text = b"CREATE TABLE a (n INT);\nINSERT INTO a VALUES (1);\n" * 100
        for packed in (text, gzip.compress(text), gzip.compress(text) + gzip.compress(text)):
            self.assertIn(read(packed), (text, text + text))

    def test_what_is_cut_or_damaged_is_refused(self):
        packed = gzip.compress(b"INSERT INTO a VALUES (1);\n" * 100)
        for text in (packed[:-3], packed[:20] + b"xxxx" + packed[24:], b"", FOREIGN, b"-- MariaDB dump 10.19\n"):
            with self.assertRaises(Failed):
                read(text)
        with self.assertRaises(Failed):
            read(b"SELECT 1;\n", is_own=True)
        self.assertEqual(b"SELECT 1;\n" + END, read(b"SELECT 1;\n" + END, is_own=True))

    def test_pieces_have_an_end(self):
        whole = b"3\nabc2\nde0\n"
        self.assertEqual(b"abcde", b"".join(reading.pieces(io.BytesIO(whole))))
        for cut in (whole[:-2], whole[:4], b"", b"x\n"):
            with self.assertRaises(Failed):
                list(reading.pieces(io.BytesIO(cut)))

    def test_a_long_line_is_handed_on_in_pieces(self):
        text = b"INSERT INTO a VALUES (" + b"1" * 3 * reading.LINE + b"USE `x`;\nSELECT 1;\n"
        for chunk in (1000, reading.LINE * 2):
            chunks = [text[at : at + chunk] for at in range(0, len(text), chunk)]
            found = list(reading.lines(chunks))
            self.assertEqual(text, b"".join(piece for piece, _ in found))
            self.assertEqual(2, sum(is_start for _, is_start in found))
            self.assertLess(max(len(piece) for piece, _ in found), reading.LINE + chunk)

    def test_definers_of_another_server_are_who_reads_it(self):
        for line in (
            b"/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n",
            b"/*!50003 CREATE*/ /*!50017 DEFINER=`a b`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET @x=1 */;\n",
            b"CREATE DEFINER=wp@localhost PROCEDURE p()\n",
            b'CREATE DEFINER="wp"@"localhost" PROCEDURE p()\n',
            b"CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS SELECT 1;\n",
        ):
            self.assertIn(b"DEFINER=CURRENT_USER", read(line))
            self.assertNotIn(b"localhost", read(line))
        for data in (
            b"INSERT INTO a VALUES ('DEFINER=`x`@`y`');\n",
            b"CREATE PROCEDURE p() SELECT 'DEFINER=`x`@`y`';\n",
            b"DELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\nSELECT '\nCREATE DEFINER=a@b\n';\nEND ;;\nDELIMITER ;\n",
        ):
            self.assertEqual(data, read(data))

    def test_there_is_one_database(self):
        self.assertEqual(FOREIGN.splitlines(keepends=True)[0] + b"SELECT 1;\n" + END, read(FOREIGN + b"SELECT 1;\nUSE `wp`;\n" + END))
        altered = b"ALTER DATABASE `wp` CHARACTER SET latin1 COLLATE latin1_swedish_ci ;\n"
        self.assertEqual(b"ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_swedish_ci ;\n", read(altered))
        with self.assertRaisesRegex(Failed, "more than one database"):
            read(b"USE `wp`;\nUSE `other`;\n")

    def test_views_that_name_their_database_name_this_one(self):
        said = b"-- Host: localhost    Database: my wp\n"
        for before, after in (
            (b"/*!50001 VIEW `v` AS select `my wp`.`a`.`n` AS `n` from `my wp`.`a` */;\n", b"from `x`.`a` */;"),
            (b"INSERT INTO a VALUES ('`my wp`.`a`');\n", b"('`my wp`.`a`');"),
        ):
            self.assertIn(after, read(said + before))

    def test_what_only_looks_like_a_line_of_mysqldump_stays(self):
        for text in (
            b"CREATE VIEW v AS SELECT n FROM a\nUSE INDEX (i);\n",
            b"DELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\nSELECT '\nUSE `other`;\nUSE `another`;\n';\nEND ;;\nDELIMITER ;\n",
            b"CREATE DATABASE wp;\n",
            b"SET @@SESSION.SQL_LOG_BIN = @mine;\n",
        ):
            self.assertEqual(text, read(text))


class Server:
    """Makes views of views only once those are there. It stands for both connections."""

    place = user = password = port = connection = None

    def __init__(self):
        self.made, self.asked = [], []

    def one(self, text):
        return {"own": b"utf8mb4_unicode_ci", "mode": b"STRICT"}

    def rows(self, text, *values, timeout=None):
        self.asked.append((text, *values))
        if isinstance(text, bytes):
            needs = text.split()[1:]
            if any(one not in self.made for one in needs):
                raise maria.Error("it is not there")
            self.made.append(text.split()[0])
        return []

    def close(self):
        pass


def described(statement, *, is_view=True, mode=None, database=""):
    charsets = {"client": "latin1", "connection": "latin1_swedish_ci", "database": database}
    return {"what": "view v", "isView": is_view, "statement": base64.b64encode(statement).decode(), "sqlMode": mode, **charsets}


class Objects(unittest.TestCase):
    def make(self, *found):
        server = Server()
        self.enterContext(unittest.mock.patch("objects.raw", lambda *_: server))
        objects.make(server, "app", json.dumps(found))
        return server

    def test_views_of_views_are_made_in_any_order(self):
        self.assertEqual([b"c", b"b", b"a"], self.make(described(b"a b"), described(b"b c"), described(b"c")).made)

    def test_what_cannot_be_made_is_said(self):
        with self.assertRaisesRegex(Failed, "the view v cannot be made again: it is not there"):
            self.make(described(b"c"), described(b"a b"))

    def test_each_is_made_as_it_was_with_its_modes_and_charsets(self):
        server = self.make(described(b"f", is_view=False, mode="ANSI_QUOTES", database="latin1_swedish_ci"))
        self.assertEqual(
            [
                ("SET SESSION sql_mode=%s", "ANSI_QUOTES"),
                ("SET SESSION character_set_client=latin1, collation_connection=latin1_swedish_ci",),
                ("ALTER DATABASE COLLATE latin1_swedish_ci",),
                (b"f",),
            ],
            server.asked[:4],
        )


class Replaces(unittest.TestCase):
    def test_apps_that_come_back_and_keep_a_table_are_sent_away_again(self):
        server, came_back = Server(), threading.Event()
        at_first = server.rows

        def rows(text, *values, timeout=None):
            if text.startswith("RENAME TABLE"):
                came_back.wait(5)
            return at_first(text, *values)

        def disconnect(by, names):
            self.assertEqual(accounts.APPS, names)
            if by is not server:
                came_back.set()

        server.rows = rows
        with (
            unittest.mock.patch("restoring.accounts.disconnect", disconnect),
            unittest.mock.patch("restoring.objects.read", return_value=b"[]"),
            unittest.mock.patch("objects.raw", lambda *_: server),
            unittest.mock.patch("restoring.AGAIN_S", 0.01),
        ):
            restoring.replace(server)
        self.assertTrue(came_back.is_set())


class LargeRows(unittest.TestCase):
    """In a dump a row takes twice what it does on its way from an app."""

    def setUp(self):
        self.server, self.larger = Server(), f"SET GLOBAL max_allowed_packet={dumping.PACKET}"
        self.started = self.enterContext(unittest.mock.patch("restoring.subprocess.Popen"))
        self.started.side_effect = lambda *_, **__: self.server.asked.append(("reads",)) or unittest.mock.DEFAULT

    def test_one_that_would_have_the_server_killed_is_refused_and_many_that_are_less_are_not(self):
        line, longest = b"(1," + 100_000 * b"0" + b"),\n", 200_000
        self.assertEqual(5 * line, read(5 * line, chunk=4096, longest=longest))
        with self.assertRaisesRegex(Failed, "memory=….*nothing was replaced"):
            read(line + 2 * line[:-1] + line, chunk=4096, longest=longest)

    def read(self, feed):
        with unittest.mock.patch("restoring.feed", feed):
            restoring.read("here", self.server, [])

    def test_they_are_dumped_whole(self):
        self.assertIn(f"--max-allowed-packet={dumping.PACKET}", dumping.words("--defaults-file=x"))

    def test_they_are_read_and_apps_send_as_much_as_before(self):
        for fails in (False, True):
            self.server.asked.clear()
            feed = unittest.mock.Mock(side_effect=Failed("cut") if fails else None)
            with self.assertRaises(Failed) if fails else contextlib.nullcontext():
                self.read(feed)
            asked = [one[0] for one in self.server.asked]
            self.assertEqual([self.larger, "reads", f"SET GLOBAL max_allowed_packet={64 * 1024**2}"], asked[-3:])
        self.assertIn(f"--max-allowed-packet={dumping.PACKET}", self.started.call_args[0][0])


class Logins(unittest.TestCase):
    def test_nobody_is_shut_out_by_an_input_that_never_came(self):
        digest = "*" + "A" * 40
        self.assertEqual({"app_1": digest}, accounts.parse(f"app_1 {digest}\n"))
        for text in ("", "root " + digest, "app_1 secret", f"app_1 {digest}'"):
            with self.assertRaises(ValueError):
                accounts.parse(text)


if __name__ == "__main__":
    unittest.main()
