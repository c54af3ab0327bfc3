"""
What people send to be restored: it was meant for a database that is called otherwise, on a server that has others who log in.

Nothing is left out but whole lines that mysqldump and mariadb-dump write themselves, and never within what is a routine's or a
trigger's: they write another delimiter around those.
"""

import re
import zlib

from dumping import DEFINER, END, Failed

MIB = PIECE = 1024**2
# Longer lines are data, and are handed on in pieces: nobody has to keep a line in memory.
LINE = 65536
CUT = "what was to be restored ended before its end"
# There is one database, which apps do not name, and a log of this server's own.
NAME = rb"`(?:[^`]|``)+`"
USE = re.compile(rb"USE (" + NAME + rb");\s*")
OTHERS = re.compile(
    rb"(?:CREATE DATABASE (?:IF NOT EXISTS |/\*!32312 IF NOT EXISTS\*/ )?" + NAME + rb"[^;]*;"
    rb"|/\*!40000 DROP DATABASE IF EXISTS " + NAME + rb"\s*\*/;"
    rb"|SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION\.SQL_LOG_BIN;|SET @@SESSION\.SQL_LOG_BIN ?= ?(?:0|@MYSQLDUMP_TEMP_LOG_BIN);"
    rb"|/\*M!999999\\- enable the sandbox mode \*/ ?)\s*"
)
# It may go on for lines.
PURGED = re.compile(rb"SET @@GLOBAL\.GTID_PURGED ?=")
# Around a routine that was made while its database had another collation.
COLLATION = re.compile(rb"ALTER DATABASE " + NAME + rb" (CHARACTER SET \w+ COLLATE \w+ ;\s*)")
DELIMITER = re.compile(rb"DELIMITER\s+(\S+)\s*", re.I)
# What comes before whom it names as who made it; behind that is what somebody wrote.
HEAD = re.compile(
    rb"(\s*(?:/\*M?!\d+\s*)?(?:CREATE\s*(?:\*/)?\s*(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?(?:/\*M?!\d+\s*)?)?)"
    + DEFINER.pattern,
    re.I,
)
# Dumps that begin so end with a line that says so.
BEGINNING = re.compile(rb"-- (?:MySQL|MariaDB) dump ")
# They say which database it was, which views name that have something of another one in them, too.
FORMER = re.compile(rb"-- Host: .*\bDatabase: (.+?)\s*")
VIEW = re.compile(rb"/\*!50001 VIEW " + NAME)


def plain(stream):
    while piece := stream.read1(PIECE):
        yield piece


def pieces(stream):
    while True:
        line = stream.readline(20)
        if not line.strip().isdigit():
            raise Failed(CUT)
        left = int(line)
        if left == 0:
            return
        while left > 0:
            piece = stream.read1(min(left, PIECE))
            if not piece:
                raise Failed(CUT)
            left -= len(piece)
            yield piece


def unpacked(chunks):
    """As it was before it was compressed, if it was."""
    packed, beginning = None, b""
    for chunk in chunks:
        if packed is None:
            beginning += chunk
            if len(beginning) < 2:
                continue
            packed = zlib.decompressobj(31) if beginning[:2] == b"\x1f\x8b" else False
            chunk = beginning
        if packed is False:
            yield chunk
            continue
        while chunk:
            try:
                piece = packed.decompress(chunk, PIECE)
            except zlib.error as error:
                raise Failed(f"the file is damaged: {error}") from error
            if piece:
                yield piece
            chunk = packed.unconsumed_tail
            if packed.eof:
                # Another may follow it: files that were put behind one another.
                chunk, packed = packed.unused_data, zlib.decompressobj(31) if packed.unused_data else packed
                if not chunk:
                    break
    if packed is None or (packed is not False and not packed.eof):
        raise Failed(CUT)


def lines(chunks):
    """What a line begins with, which is all of it unless it is long, and whether it is that: else it goes on what came before."""
    left, is_within = b"", False
    for chunk in chunks:
        left += chunk
        at = 0
        while True:
            end = left.find(b"\n", at)
            if end < 0 and len(left) - at < LINE:
                break
            stop = len(left) if end < 0 else end + 1
            yield left[at:stop], not is_within
            at, is_within = stop, end < 0
        left = left[at:]
    if left:
        yield left, not is_within


def quoted(name):
    return b"`" + name.replace(b"`", b"``") + b"`"


class Reader:
    """
    One file, for a database `beside`. `is_own`: the platform's own dump, of which the end is known in any case. `longest`: of its
    lines, since MariaDB and its client have all of one in memory, and a row is no less.
    """

    def __init__(self, *, beside, is_own, longest):
        self.longest, self.length = longest, 0
        self.beside, self.former = quoted(beside.encode()), None
        self.has_end, self.last = is_own, b""
        self.used, self.delimiter = set(), b";"
        # Another statement begins with the next line.
        self.is_between, self.is_purging = True, False

    def read(self, chunks):
        """Without what is of another server: names of databases, and of users that are not here."""
        for line, is_start in lines(unpacked(chunks)):
            self.last = (self.last + line)[-200:]
            self.measure(line, is_start)
            kept = self.line(line) if is_start else line
            if kept:
                yield kept
        if self.has_end and END not in self.last:
            raise Failed(CUT)

    def measure(self, line, is_start):
        self.length = len(line) + (0 if is_start else self.length)
        if self.length > self.longest:
            raise Failed(
                f"the file has a line of more than {self.longest // MIB} MB, as of a row with a large BLOB, of which each byte may"
                " be two there: for that it takes more memory than a member has, so give it more"
                " (flynn limit set mysql memory=…);"
                " nothing was replaced"
            )

    def line(self, line):
        if BEGINNING.match(line):
            self.has_end = True
        if self.former is None and (said := FORMER.fullmatch(line)) is not None:
            self.former = quoted(said[1])
        if self.delimiter == b";":
            if self.is_left_out(line):
                return b""
            line = COLLATION.sub(rb"ALTER DATABASE \1", line, count=1)
            if self.former is not None and VIEW.match(line):
                line = line.replace(self.former + b".", self.beside + b".")
        # Within a routine it is what somebody wrote.
        if self.delimiter == b";" or self.is_between:
            line = HEAD.sub(rb"\1DEFINER=CURRENT_USER", line, count=1) if HEAD.match(line) else line
        self.follow(line)
        return line

    def is_left_out(self, line):
        if self.is_purging or PURGED.match(line):
            self.is_purging = not line.rstrip().endswith(b";")
            return True
        if (named := USE.fullmatch(line)) is not None:
            self.used.add(named[1])
            if len(self.used) > 1:
                raise Failed("the file has more than one database: dump the one that is meant, without --databases")
            return True
        return OTHERS.fullmatch(line) is not None

    def follow(self, line):
        said = DELIMITER.fullmatch(line)
        if said is not None:
            self.delimiter, self.is_between = said[1], True
        elif line.strip():
            self.is_between = line.rstrip().endswith(self.delimiter)
