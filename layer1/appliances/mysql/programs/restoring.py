"""
Puts SQL that somebody dumped in the place of what is in the database "app": all of it or nothing.

It is read into a database beside, with the rights that apps have. Once it was read whole its tables take the place of those that
are there, in one statement; views, triggers and routines are made anew before and behind that. Meanwhile there is a table that has
those of both, and is called by what is there: where this program is ended, who leads has it finished (finishing.py).
"""

import contextlib
import re
import secrets
import subprocess
import zlib

import accounts
import dumping
from dumping import DEFINER, END, Failed
from maria import Error, Maria

PIECE = 1024**2
CUT = "what was to be restored ended before its end"
BESIDE, BEFORE, LOGIN = "app_restoring", "app_before", "app_restoring"
LONG_S = 24 * 3600
# Tables: the former while what was there is there, the latter once what was restored is.
OLD, NEW = "restoring", "restored"
# Lines that say which database it is to be, or what only a superuser may: there is one database, and this server's log is its own.
SETTINGS = (rb"SET @@SESSION\.SQL_LOG_BIN", rb"SET @MYSQLDUMP_TEMP_LOG_BIN", rb"SET @@GLOBAL\.GTID_PURGED", rb"/\*M!999999")
LEFT_OUT = re.compile(rb"\s*(" + b"|".join([rb"CREATE DATABASE ", rb"USE ", *SETTINGS]) + b")", re.I)
USE = re.compile(rb"\s*USE\s+`?([^`;\s]+)", re.I)
OBJECT = re.compile(rb"\s*(/\*M?!\d+|CREATE\s)", re.I)


class Unknown(Exception):
    """Whether it was done is not known."""


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
    left = b""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if left:
        yield left


def readable(chunks):
    """Without what is of another server: names of databases, and of users that are not here."""
    names = set()
    for line in lines(chunks):
        if LEFT_OUT.match(line):
            named = USE.match(line)
            if named is not None:
                names.add(named[1])
            if len(names) > 1:
                raise Failed("the file has more than one database: dump the one that is meant, without --databases")
            continue
        yield DEFINER.sub(b"DEFINER=CURRENT_USER", line) if OBJECT.match(line) else line


def restore(host, password, chunks, *, is_own):
    maria = Maria(host, "flynn", password)
    if maria.one("SELECT GET_LOCK('flynn_restore', 0) AS mine")["mine"] != 1:
        raise Failed("another restore is under way")
    finish_other(host, password, maria)
    before = content(maria)
    try:
        read(host, maria, readable(unpacked(chunks)), is_own)
        replace(host, password, maria)
    finally:
        with contextlib.suppress(Error):
            clear(maria)
    return {"before": before, "after": content(maria)}


def finish(host, password):
    """What another began that was ended, if it was."""
    maria = Maria(host, "flynn", password)
    if maria.one("SELECT GET_LOCK('flynn_restore', 0) AS mine")["mine"] == 1:
        finish_other(host, password, maria)


def finish_other(host, password, maria):
    marks = [one["name"] for one in maria.rows("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'flynn'")]
    mark = next((one for one in (NEW, OLD) if one in marks), None)
    if mark is None:
        return
    kept = maria.one(f"SELECT new_objects, old_objects FROM flynn.{mark}", timeout=LONG_S)
    if kept is not None:
        drop_objects(maria, "app")
        make(host, password, kept["new_objects" if mark == NEW else "old_objects"])
    maria.rows(f"DROP TABLE flynn.{mark}")
    clear(maria)


def mark(maria, new, old):
    maria.rows(f"CREATE TABLE flynn.{OLD} (one INT PRIMARY KEY, new_objects LONGBLOB, old_objects LONGBLOB) ENGINE=InnoDB")
    maria.rows(f"INSERT INTO flynn.{OLD} VALUES (1, %s, %s)", new, old, timeout=LONG_S)


def clear(maria):
    for name in (BESIDE, BEFORE):
        maria.rows(f"DROP DATABASE IF EXISTS {name}", timeout=LONG_S)
    maria.rows(f"DROP USER IF EXISTS {LOGIN}@'%'")


def content(maria):
    said = maria.one(
        "SELECT COUNT(*) AS tables, COALESCE(SUM(data_length + index_length), 0) AS bytes FROM information_schema.tables"
        " WHERE table_schema = 'app' AND table_type <> 'VIEW'"
    )
    return {"tables": said["tables"], "sizeBytes": int(said["bytes"])}


def read(host, maria, text, is_own):
    clear(maria)
    password = secrets.token_hex(16)
    maria.rows(f"CREATE DATABASE {BESIDE}")
    maria.rows(f"CREATE USER {LOGIN}@'%%' IDENTIFIED BY %s", password)
    maria.rows(f"GRANT {accounts.APP_RULES} ON {BESIDE}.* TO {LOGIN}@'%'")
    with dumping.login(host, LOGIN, password) as how:
        plain = ["--binary-mode", "--local-infile=0", "--skip-reconnect", "--max-allowed-packet=64M"]
        words = ["mariadb", how, *plain, "--default-character-set=utf8mb4", BESIDE]
        reading = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            last = feed(reading, text)
        finally:
            # Where its input ended with a failure.
            reading.kill()
            with contextlib.suppress(OSError):
                reading.stdin.close()
            reading.wait()
    if is_own and END not in last:
        raise Failed(CUT)


def feed(reading, text):
    """The end of what it was told."""
    last = b""
    with contextlib.suppress(BrokenPipeError):
        # From here on it does nothing on this machine.
        reading.stdin.write(b"/*M!999999\\- enable the sandbox mode */\n")
        for line in text:
            reading.stdin.write(line)
            last = (last + line)[-200:]
        reading.stdin.close()
    said = reading.stderr.read().decode(errors="replace").strip()
    if reading.wait() != 0:
        raise Failed(f"the file cannot be restored: {said or 'its reader was ended'}; nothing was replaced")
    return last


def names(maria, database, condition):
    tables = "SELECT table_name AS name FROM information_schema.tables"
    found = maria.rows(f"{tables} WHERE table_schema = '{database}' AND {condition}")
    return [one["name"] for one in found]


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def replace(host, password, maria):
    views, old_views = (names(maria, one, "table_type = 'VIEW'") for one in (BESIDE, "app"))
    tables, old_tables = (names(maria, one, "table_type <> 'VIEW'") for one in (BESIDE, "app"))
    new = dumping.objects(host, password, BESIDE, views)
    old = dumping.objects(host, password, "app", old_views)
    maria.rows(f"CREATE DATABASE {BEFORE}")
    maria.rows("SET SESSION foreign_key_checks=0")
    mark(maria, new, old)
    there = [f"app.{quoted(one)} TO {BEFORE}.{quoted(one)}" for one in old_tables]
    here = [f"{BESIDE}.{quoted(one)} TO app.{quoted(one)}" for one in tables]
    is_renamed = False
    try:
        accounts.disconnect(maria, accounts.APPS)
        drop_objects(maria, BESIDE)
        drop_objects(maria, "app")
        maria.rows(f"RENAME TABLE {', '.join([*there, *here, f'flynn.{OLD} TO flynn.{NEW}'])}", timeout=LONG_S)
        is_renamed = True
        make(host, password, new)
        maria.rows(f"DROP TABLE flynn.{NEW}")
    except (Error, Failed) as error:
        try:
            undo(host, password, maria, old, is_renamed, (old_tables, tables))
        except (Error, Failed) as other:
            raise Unknown(f"{error}; what was there before could not be put back whole: {other}") from error
        raise Failed(f"{error}; nothing was replaced") from error


def undo(host, password, maria, old, is_renamed, tables):
    drop_objects(maria, "app")
    if is_renamed:
        back = [f"app.{quoted(one)} TO {BESIDE}.{quoted(one)}" for one in tables[1]]
        back += [f"{BEFORE}.{quoted(one)} TO app.{quoted(one)}" for one in tables[0]]
        maria.rows(f"RENAME TABLE {', '.join([*back, f'flynn.{NEW} TO flynn.{OLD}'])}", timeout=LONG_S)
    make(host, password, old)
    maria.rows(f"DROP TABLE flynn.{OLD}")


def drop_objects(maria, database):
    """A table with triggers cannot be moved to another database, and views and routines cannot be moved at all."""
    for one in maria.rows(f"SELECT trigger_name AS name FROM information_schema.triggers WHERE trigger_schema = '{database}'"):
        maria.rows(f"DROP TRIGGER IF EXISTS {database}.{quoted(one['name'])}")
    for name in names(maria, database, "table_type = 'VIEW'"):
        maria.rows(f"DROP VIEW IF EXISTS {database}.{quoted(name)}")
    routines = "SELECT routine_name AS name, routine_type AS kind FROM information_schema.routines"
    for one in maria.rows(f"{routines} WHERE routine_schema = '{database}'"):
        maria.rows(f"DROP {one['kind']} IF EXISTS {database}.{quoted(one['name'])}")


def make(host, password, text):
    with dumping.login(host, "flynn", password) as how:
        words = ["mariadb", how, "--default-character-set=utf8mb4", "app"]
        made = subprocess.run(words, input=text, capture_output=True, check=False)
    if made.returncode != 0:
        raise Failed(made.stderr.decode(errors="replace").strip())
