"""What people send is read as it was meant for a database that is called otherwise, on a server that has others who log in."""

import gzip
import io
import unittest

import accounts
import restoring
from dumping import Failed


def read(text, chunk=7):
    return b"".join(restoring.readable(restoring.unpacked(text[at : at + chunk] for at in range(0, len(text), chunk))))


class Read(unittest.TestCase):
    def test_compressed_or_not(self):
        text = b"CREATE TABLE a (n INT);\nINSERT INTO a VALUES (1);\n" * 100
        for packed in (text, gzip.compress(text), gzip.compress(text) + gzip.compress(text)):
            self.assertIn(read(packed), (text, text + text))

    def test_what_is_cut_or_damaged_is_refused(self):
        packed = gzip.compress(b"INSERT INTO a VALUES (1);\n" * 100)
        for text in (packed[:-3], packed[:20] + b"xxxx" + packed[24:], b""):
            with self.assertRaises(Failed):
                read(text)

    def test_pieces_have_an_end(self):
        whole = b"3\nabc2\nde0\n"
        self.assertEqual(b"abcde", b"".join(restoring.pieces(io.BytesIO(whole))))
        for cut in (whole[:-2], whole[:4], b"", b"x\n"):
            with self.assertRaises(Failed):
                list(restoring.pieces(io.BytesIO(cut)))

    def test_definers_of_another_server_are_who_reads_it(self):
        for line in (
            b"/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n",
            b"/*!50003 CREATE*/ /*!50017 DEFINER=`a b`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET @x=1 */;\n",
            b"CREATE DEFINER=wp@localhost PROCEDURE p()\n",
        ):
            self.assertIn(b"DEFINER=CURRENT_USER", read(line))
            self.assertNotIn(b"@`", read(line))
        data = b"INSERT INTO a VALUES ('DEFINER=`x`@`y`');\n"
        self.assertEqual(data, read(data))

    def test_there_is_one_database(self):
        self.assertEqual(b"SELECT 1;\n", read(b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `wp`;\nUSE `wp`;\nSELECT 1;\nUSE `wp`;\n"))
        with self.assertRaisesRegex(Failed, "more than one database"):
            read(b"USE `wp`;\nUSE `other`;\n")


class Logins(unittest.TestCase):
    def test_nobody_is_shut_out_by_an_input_that_never_came(self):
        digest = "*" + "A" * 40
        self.assertEqual({"app_1": digest}, accounts.parse(f"app_1 {digest}\n"))
        for text in ("", "root " + digest, "app_1 secret", f"app_1 {digest}'"):
            with self.assertRaises(ValueError):
                accounts.parse(text)


if __name__ == "__main__":
    unittest.main()
