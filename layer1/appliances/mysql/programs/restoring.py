"""
Puts SQL that somebody dumped in the place of what is in the database "app": all of it or nothing.

It is read into a database beside, with the rights that apps have. Once it was read whole its tables take the place of those that
are there, in one statement; views, triggers and routines are made anew before and behind that. Meanwhile there is a table that has
those of both, and is called by what is there: where this program is ended, who leads has it finished (finishing.py).
"""

import contextlib
import secrets
import subprocess
import threading

import accounts
import dumping
import objects
import server
from dumping import Failed
from maria import Error, Maria, Unanswered
from objects import names, quoted
from reading import Reader

BESIDE, BEFORE, LOGIN = "app_restoring", "app_before", "app_restoring"
LONG_S, WEEK_S = 24 * 3600, 7 * 24 * 3600
# What takes longer than this may wait for an app.
AGAIN_S = 5
# Tables: the former while what was there is there, the latter once what was restored is.
OLD, NEW = "restoring", "restored"
APP = b"`app`@`%`"


class Unknown(Exception):
    """Whether it was done is not known."""


def connected(host, password):
    return Maria(host, accounts.ADMIN, password)


def restore(host, password, chunks, *, is_own):
    maria = connected(host, password)
    if maria.one("SELECT GET_LOCK('flynn_restore', 0) AS mine")["mine"] != 1:
        raise Failed("another restore is under way")
    # It says nothing while a file is read, and what is read goes once the lock is nobody's.
    maria.rows(f"SET SESSION wait_timeout={WEEK_S}")
    finish_other(maria)
    before = content(maria)
    try:
        longest = server.longest_line(server.limit_bytes())
        read(host, maria, Reader(beside=BESIDE, is_own=is_own, longest=longest).read(chunks))
        replace(maria)
    finally:
        with contextlib.suppress(Error):
            clear(maria)
    return {"before": before, "after": content(maria)}


def finish(host, password):
    """What another began that was ended, if it was."""
    maria = connected(host, password)
    if maria.one("SELECT GET_LOCK('flynn_restore', 0) AS mine")["mine"] == 1:
        finish_other(maria)
        clear(maria)


def finish_other(maria):
    marks = names(maria, "flynn", "table_type <> 'VIEW'")
    mark = next((one for one in (NEW, OLD) if one in marks), None)
    if mark is None:
        return
    kept = maria.one(f"SELECT new_objects, old_objects FROM flynn.{mark}", timeout=LONG_S)
    if kept is not None:
        with without_apps(maria):
            objects.drop(maria, "app")
            objects.make(maria, "app", kept["new_objects" if mark == NEW else "old_objects"])
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


def read(host, maria, text):
    clear(maria)
    password = secrets.token_hex(16)
    maria.rows(f"CREATE DATABASE {BESIDE}")
    maria.rows(f"CREATE USER {LOGIN}@'%%' IDENTIFIED BY %s", password)
    maria.rows(f"GRANT {accounts.APP_RULES} ON {BESIDE}.* TO {LOGIN}@'%'")
    with larger_packets(maria), dumping.login(host, LOGIN, password) as how:
        plain = ["--binary-mode", "--local-infile=0", "--skip-reconnect", f"--max-allowed-packet={dumping.PACKET}"]
        words = ["mariadb", how, *plain, "--default-character-set=utf8mb4", BESIDE]
        reading = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            feed(reading, text)
        finally:
            # Where its input ended with a failure.
            reading.kill()
            with contextlib.suppress(OSError):
                reading.stdin.close()
            reading.wait()


@contextlib.contextmanager
def larger_packets(maria):
    """For who connects meanwhile: what apps could write is larger as a dump has it."""
    maria.rows(f"SET GLOBAL max_allowed_packet={dumping.PACKET}")
    try:
        yield
    finally:
        with contextlib.suppress(Error):
            maria.rows(f"SET GLOBAL max_allowed_packet={server.PACKET}")


def feed(reading, text):
    with contextlib.suppress(BrokenPipeError):
        # From here on it does nothing on this machine.
        reading.stdin.write(b"/*M!999999\\- enable the sandbox mode */\n")
        for piece in text:
            reading.stdin.write(piece)
        reading.stdin.close()
    said = reading.stderr.read().decode(errors="replace").strip()
    if reading.wait() != 0:
        raise Failed(f"the file cannot be restored: {said or 'its reader was ended'}; nothing was replaced")


def replace(maria):
    tables, old_tables = (names(maria, one, "table_type <> 'VIEW'") for one in (BESIDE, "app"))
    # Whoever read the file is nobody later. What is put back is whose it was.
    new, old = objects.read(maria, BESIDE, definer=APP), objects.read(maria, "app")
    maria.rows(f"CREATE DATABASE {BEFORE}")
    maria.rows("SET SESSION foreign_key_checks=0")
    mark(maria, new, old)
    with without_apps(maria):
        put_in_place(maria, (new, old), (old_tables, tables))


@contextlib.contextmanager
def without_apps(maria):
    """They come back at once, and what one has under way then would be waited for, for a day: they are sent away again."""
    other, is_over = connected(maria.place, maria.password), threading.Event()

    def send_away():
        while not is_over.wait(AGAIN_S):
            with contextlib.suppress(Error):
                accounts.disconnect(other, accounts.APPS)
        other.close()

    threading.Thread(target=send_away, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def put_in_place(maria, written, moved):
    """`written`: views, triggers and routines, and those that were there. `moved`: tables that were there, and the others."""
    (new, old), (old_tables, tables) = written, moved
    there = [f"app.{quoted(one)} TO {BEFORE}.{quoted(one)}" for one in old_tables]
    here = [f"{BESIDE}.{quoted(one)} TO app.{quoted(one)}" for one in tables]
    is_renamed = False
    try:
        accounts.disconnect(maria, accounts.APPS)
        objects.drop(maria, BESIDE)
        objects.drop(maria, "app")
        maria.rows(f"RENAME TABLE {', '.join([*there, *here, f'flynn.{OLD} TO flynn.{NEW}'])}", timeout=LONG_S)
        is_renamed = True
        objects.make(maria, "app", new)
        maria.rows(f"DROP TABLE flynn.{NEW}")
    except Unanswered as error:
        # Another may lead by now, and this lock is nobody's any more.
        raise Unknown(f"{error}; the primary finishes it, or takes it back, as soon as it can") from error
    except (Error, Failed) as error:
        try:
            undo(maria, old, is_renamed, moved)
        except (Error, Failed) as other:
            raise Unknown(f"{error}; what was there before could not be put back whole: {other}") from error
        raise Failed(f"{error}; nothing was replaced") from error


def undo(maria, old, is_renamed, tables):
    objects.drop(maria, "app")
    if is_renamed:
        back = [f"app.{quoted(one)} TO {BESIDE}.{quoted(one)}" for one in tables[1]]
        back += [f"{BEFORE}.{quoted(one)} TO app.{quoted(one)}" for one in tables[0]]
        maria.rows(f"RENAME TABLE {', '.join([*back, f'flynn.{NEW} TO flynn.{OLD}'])}", timeout=LONG_S)
    objects.make(maria, "app", old)
    maria.rows(f"DROP TABLE flynn.{OLD}")
