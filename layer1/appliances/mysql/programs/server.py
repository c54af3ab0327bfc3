"""MariaDB itself, as the child of this program: how it is set, how its data begin, and that it ends with it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import accounts

PORT = 3306
SOCKET = "/tmp/mariadb.sock"
SETTINGS = Path("/tmp/mariadb.cnf")
# What programs beside it log in with: no password is in an argument.
OWN_LOGIN = Path("/tmp/own.cnf")
DATA = Path("/data/mysql")
MAKING = Path("/data/making")
# Names of time zones: statements for the database "mysql", made with the image.
ZONES = Path(__file__).with_name("zones.sql")
MIB = 1024**2
# What an app may send as one statement.
PACKET = 64 * MIB
MAKE_S = 60
# It ends on its own once what it has is on the disk; its host gives a member two minutes.
STOP_S = 60
# Connections that no app may take: of members, who watch it and copy it, of dumps and restores, and of admins.
RESERVED = 20
# What a member takes whatever it does, beside the data in its buffer pool.
AT_REST = 110 * MIB
# As often a line of a restored file is in memory: five to six times in the server, twice in its client.
TIMES_IN_MEMORY = 8


class Wrong(Exception):
    """In words for people."""


def limit_bytes():
    """What the job may take: of cgroups v2, else v1, else of the host."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return min(int(text), host)
    return host


def shares(limit):
    """Three eighths are for data, less what the server takes at rest; the rest for connections, and for this program."""
    most = min(1000, max(50, limit // (4 * MIB)))
    return {
        "innodb-buffer-pool-size": max(32 * MIB, limit * 3 // 8 - 32 * MIB),
        "innodb-log-file-size": min(512 * MIB, max(32 * MIB, limit // 8)),
        "max-connections": most + RESERVED,
        # Of each login. An app that keeps too many open is refused alone: members still reach it, and whoever is to look.
        "max-user-connections": most,
        # Of one table that a query makes for itself; larger ones are on the disk.
        "tmp-memory-table-size": min(16 * MIB, max(MIB, limit // 128)),
    }


def longest_line(limit):
    """Of a file that is restored. With more of it MariaDB would be killed by the system, whoever leads."""
    return (limit - shares(limit)["innodb-buffer-pool-size"] - AT_REST) // TIMES_IN_MEMORY


def settings(limit):
    lines = {
        "datadir": DATA,
        "socket": SOCKET,
        "pid-file": "/tmp/mariadb.pid",
        "port": PORT,
        "bind-address": "*",
        "skip-name-resolve": 1,
        "skip-ssl": 1,
        "character-set-server": "utf8mb4",
        # Those that any MySQL knows: a dump goes there.
        "collation-server": "utf8mb4_unicode_ci",
        "character-set-collations": "utf8mb4=utf8mb4_unicode_ci",
        "performance-schema": 0,
        "log-warnings": 1,
        "local-infile": 0,
        "secure-file-priv": "/usr/lib/flynn/",
        # One that has become the primary would have to be told of each event again.
        "event-scheduler": "OFF",
        # What is neither written nor copied in transactions could not be kept.
        "enforce-storage-engine": "InnoDB",
        # One that asks for another kind gets this one.
        "sql-mode": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER",
        # Rows are copied and not statements: functions and triggers may do what they like.
        "log-bin-trust-function-creators": 1,
        # As with MySQL: else a transaction that changes what another has changed since it first read is refused (error 1020), which
        # apps that are made for MySQL do not try again.
        "innodb-snapshot-isolation": 0,
        "innodb-flush-log-at-trx-commit": 1,
        "innodb-log-buffer-size": 8 * MIB,
        "key-buffer-size": 8 * MIB,
        "aria-pagecache-buffer-size": 16 * MIB,
        "table-open-cache": 400,
        "table-definition-cache": 400,
        "max-allowed-packet": PACKET,
        "log-bin": DATA / "bin",
        "relay-log": "relay",
        # What a copy acknowledges is on its disk.
        "sync-relay-log": 1,
        "log-slave-updates": 1,
        "binlog-format": "ROW",
        # A copy's disk is waited for with each event (sync-relay-log): the fewer the better.
        "binlog-row-event-max-size": 262144,
        "binlog-annotate-row-events": 0,
        "sync-binlog": 1,
        "max-binlog-size": 64 * MIB,
        "max-binlog-total-size": 1024 * MIB,
        "slave-connections-needed-for-purge": 0,
        "binlog-expire-logs-seconds": 3 * 24 * 3600,
        "gtid-domain-id": 0,
        "gtid-strict-mode": 1,
        # It takes nothing before it leads.
        "read-only": 1,
        "skip-slave-start": 1,
        "slave-net-timeout": 3,
        # One that is stopped would tell a host that is gone, for so long.
        "rpl-semi-sync-slave-kill-conn-timeout": 1,
        # As good as for ever: what a copy is not to have any more is the record's to say.
        "rpl-semi-sync-master-timeout": 4294967295,
        "rpl-semi-sync-master-wait-point": "AFTER_SYNC",
        "rpl-semi-sync-master-wait-no-slave": 1,
        **shares(limit),
    }
    return "\n".join(["[mariadbd]", *(f"{name}={value}" for name, value in lines.items()), ""])


class Server:
    def __init__(self, secrets):
        self.secrets, self.process, self.is_killed = secrets, None, False
        SETTINGS.write_text(settings(limit_bytes()))
        OWN_LOGIN.write_text(f"[client]\nuser=flynn\npassword={secrets['MYSQL_SUPERUSER_PASSWORD']}\nsocket={SOCKET}\nskip-ssl\n")
        shutil.rmtree(MAKING, ignore_errors=True)

    def has_data(self):
        return DATA.exists()

    def is_started(self):
        return self.process is not None

    def make(self):
        """Data that there were none of: they are there once they are whole."""
        shutil.rmtree(MAKING, ignore_errors=True)
        how = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin"]
        run(["mariadb-install-db", "--no-defaults", f"--datadir={MAKING}", *how])
        zones = f"USE mysql;\n{ZONES.read_text()}"
        statements = zones + ";\n".join([*accounts.beginning(self.secrets), ""])
        plain = ["--no-defaults", "--bootstrap", f"--datadir={MAKING}", "--skip-log-bin", "--character-set-server=utf8mb4"]
        run(["mariadbd", *plain, "--collation-server=utf8mb4_unicode_ci"], statements)
        os.rename(MAKING, DATA)

    def start(self, *, is_copy, number):
        """
        `is_copy`: another led since it did. What it had written and no copy acknowledged it takes back then, where it can; else
        that stays, for a copy may have it.
        """
        role = ["--init-rpl-role=SLAVE", "--rpl-semi-sync-slave-enabled=1"] if is_copy else ["--init-rpl-role=MASTER"]
        words = ["mariadbd", f"--defaults-file={SETTINGS}", f"--server-id={number}", *role]
        # By the thread that lasts as long as this program: with it the child ends.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words])

    def end(self):
        """How it ended, in words for people; None where it has not."""
        code = None if self.process is None else self.process.poll()
        return None if code is None else words_of_end(code, is_on_purpose=self.is_killed)

    def kill(self):
        self.is_killed = True
        if self.process is not None:
            self.process.kill()

    def forget(self):
        """Ends it, and begins anew with other data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()


def words_of_end(code, *, is_on_purpose):
    if code == -signal.SIGKILL and is_on_purpose:
        return "MariaDB was killed"
    if code == -signal.SIGKILL:
        return "MariaDB was killed by the system, as what takes more memory than it may: give it more (flynn limit set mysql memory=…)"
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
    return f"MariaDB has ended {how}: its log says why"


def run(words, text=None):
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, errors="replace", timeout=MAKE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"{words[0]} is not through within {MAKE_S} s") from error
    if done.returncode != 0:
        raise Wrong(f"{words[0]} failed: {' '.join((done.stderr or done.stdout).splitlines()[-5:])}")
