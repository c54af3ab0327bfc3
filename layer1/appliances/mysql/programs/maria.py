"""Connections to a MariaDB, and what it says of how far it is."""

import time

import pymysql
import pymysql.cursors

from decision import Position

ANSWER_S = 5
# How long something waits before it is taken to wait for nothing.
LOOKS, LOOK_S = 8, 0.05
# Of numbers of servers: below are terms, which are those of who leads.
FIRST_OF_COPIES = 2**31
# As the server's settings have it (server.py).
LOG_BYTES = 64 * 1024**2


class Error(Exception):
    """What it answered, or that it did not."""


class Unanswered(Error):
    pass


class Maria:
    """One connection that is made anew when it has broken; one thread at a time. `place`: a socket's path, or a host."""

    def __init__(self, place, user, password, port=3306, **more):
        self.place, self.user, self.password, self.port, self.more = place, user, password, port, more
        self.connection = None

    def rows(self, text, *values, timeout=ANSWER_S):
        try:
            if self.connection is None:
                self.connect(timeout)
            # Of each question its own: pymysql has but one of the connection.
            self.connection._read_timeout = timeout
            with self.connection.cursor() as cursor:
                cursor.execute(text, values or None)
                return list(cursor.fetchall())
        except (pymysql.err.ProgrammingError, pymysql.err.IntegrityError, pymysql.err.NotSupportedError) as error:
            raise Error(words_of(error)) from error
        except pymysql.err.DataError as error:
            raise Error(words_of(error)) from error
        except (pymysql.err.OperationalError, pymysql.err.InternalError) as error:
            # Below 2000 it is the server that says no, and the connection goes on.
            if isinstance(error.args[0], int) and 0 < error.args[0] < 2000:
                raise Error(words_of(error)) from error
            self.close()
            raise Unanswered(f"MariaDB does not answer: {words_of(error)}") from error
        except (OSError, pymysql.err.MySQLError, ValueError) as error:
            self.close()
            raise Unanswered(f"MariaDB does not answer: {error or type(error).__name__}") from error

    def one(self, text, *values, timeout=ANSWER_S):
        """The first row, or None."""
        found = self.rows(text, *values, timeout=timeout)
        return found[0] if found else None

    def connect(self, timeout):
        at = {"unix_socket": self.place} if self.place.startswith("/") else {"host": self.place, "port": self.port}
        self.connection = pymysql.connect(
            user=self.user,
            password=self.password,
            connect_timeout=timeout,
            read_timeout=timeout,
            write_timeout=timeout,
            autocommit=True,
            charset="utf8mb4",
            cursorclass=pymysql.cursors.DictCursor,
            **at,
            **self.more,
        )

    def close(self):
        if self.connection is not None:
            self.connection._force_close()
        self.connection = None


def words_of(error):
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def position_of(gtid):
    """
    Of a place in the log, "0-TERM-NUMBER": who leads writes with its term as the server's number, so the data say themselves how
    far they are. None of what is empty, or not written by who led.
    """
    parts = [one.split("-") for one in gtid.split(",") if one.strip()]
    found = [Position(int(server) if int(server) < FIRST_OF_COPIES else 0, int(number)) for _, server, number in parts]
    return max(found, key=Position.order, default=Position())


def further(*positions):
    return max(positions, key=Position.order)


def look(maria, timeout=2, before=None):
    """
    How it is, in one go: what it has, what it copies, and how its copies are. Where commits wait for a copy that is gone MariaDB says
    nothing of its log, and to whoever asks for it nothing at all any more, to anybody: then that is as it was `before`.
    """
    counts = counts_of(maria, timeout)
    if before and before["following"] is None and not flows(maria, counts, timeout):
        return {**before, "counts": counts_of(maria, timeout)}
    at = maria.one("SELECT @@gtid_binlog_pos AS log, @@gtid_slave_pos AS copied, @@read_only AS closed", timeout=timeout)
    following = maria.one("SHOW SLAVE STATUS", timeout=timeout)
    applied = further(position_of(at["log"]), position_of(at["copied"]))
    received = position_of(following["Gtid_IO_Pos"] or "") if following else Position()
    # As it is to be told where copying goes on.
    gtid = max((at["log"], at["copied"]), key=lambda one: position_of(one).order())
    return {
        "applied": applied,
        "received": further(applied, received),
        "gtid": gtid,
        # Somebody wrote it here, where nobody led.
        "isStray": any(int(one.split("-")[1]) >= FIRST_OF_COPIES for one in at["log"].split(",") if one.strip()),
        "following": following,
        "takesWrites": at["closed"] in (0, "OFF"),
        "logBytes": place_of(maria, following, timeout),
        "counts": counts,
    }


def counts_of(maria, timeout):
    found = maria.rows("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master%'", timeout=timeout)
    return {one["Variable_name"].removeprefix("Rpl_semi_sync_master_"): one["Value"] for one in found}


def flows(maria, counts, timeout):
    """Nothing waits for a copy, or what does is acknowledged."""
    for _ in range(LOOKS):
        if int(counts["wait_sessions"]) == 0:
            return True
        time.sleep(LOOK_S)
        now = counts_of(maria, timeout)
        if now["yes_tx"] != counts["yes_tx"]:
            return True
        counts = now
    return False


def place_of(maria, following, timeout):
    """In the log of who leads, in bytes, about: a file is full at a size. For people, who see what a copy lacks."""
    if following is not None:
        file, place = following["Relay_Master_Log_File"], following["Exec_Master_Log_Pos"]
    else:
        said = maria.one("SHOW MASTER STATUS", timeout=timeout)
        file, place = (said["File"], said["Position"]) if said else ("", 0)
    number = file.rpartition(".")[2]
    return int(number) * LOG_BYTES + int(place) if number.isdigit() else None
