"""Who logs in to MariaDB, and what they may do."""

import re

# Apps log in as one of these in turn. None is ever dropped, because what it made (views, routines, triggers) is done with its
# rights: one that is not to log in is locked.
APPS = ("app", "app_1", "app_2")
# All with their own database, and nothing with the server. No FILE, no SUPER, no SET USER. Events are not run (server.py).
APP_RULES = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES, "
    "EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, TRIGGER, DELETE HISTORY, SHOW CREATE ROUTINE"
)
# For restores, and for people: it may do all there is, but where this server takes writes at all. One that does not lead has none.
ADMIN = "admin"
LOGIN = re.compile(r"(app(?:_[12])?) (\*[0-9A-F]{40})")
# Nobody's: there is no password that comes to it.
NOBODY = "*" + "0" * 40
KILL_S = 10


def parse(text):
    """Lines of NAME DIGEST. Throws ValueError; nobody is shut out by an input that never came."""
    found = {}
    for line in text.splitlines():
        matched = LOGIN.fullmatch(line)
        if matched is None:
            raise ValueError("lines of NAME DIGEST are to be admitted")
        found[matched[1]] = matched[2]
    if not found:
        raise ValueError("nobody was to be admitted")
    return found


def beginning(secrets):
    """Statements for new data: the platform's accounts and the apps'. Passwords are letters and digits."""
    superuser, replication, app = (secrets[f"MYSQL_{one}"] for one in ("SUPERUSER_PASSWORD", "REPLICATION_PASSWORD", "PASSWORD"))
    return [
        "FLUSH PRIVILEGES",
        "DELETE FROM mysql.global_priv WHERE User NOT IN ('mariadb.sys', 'PUBLIC')",
        "DELETE FROM mysql.proxies_priv",
        "FLUSH PRIVILEGES",
        f"CREATE USER flynn@'%' IDENTIFIED BY '{superuser}'",
        "GRANT ALL PRIVILEGES ON *.* TO flynn@'%' WITH GRANT OPTION",
        f"CREATE USER {ADMIN}@'%' IDENTIFIED BY '{superuser}'",
        f"GRANT ALL PRIVILEGES ON *.* TO {ADMIN}@'%' WITH GRANT OPTION",
        f"REVOKE READ_ONLY ADMIN ON *.* FROM {ADMIN}@'%'",
        f"CREATE USER replication@'%' IDENTIFIED BY '{replication}'",
        "GRANT REPLICATION SLAVE ON *.* TO replication@'%'",
        "CREATE DATABASE app",
        "CREATE DATABASE flynn",
        "CREATE TABLE flynn.lead (one INT PRIMARY KEY, data VARCHAR(64), term BIGINT) ENGINE=InnoDB",
        *(f"CREATE USER {name}@'%' IDENTIFIED VIA mysql_native_password USING '{NOBODY}' ACCOUNT LOCK" for name in APPS),
        *(f"GRANT {APP_RULES} ON app.* TO {name}@'%'" for name in APPS),
        f"ALTER USER app@'%' IDENTIFIED BY '{app}' ACCOUNT UNLOCK",
    ]


def admit(maria, logins, alone):
    """On the primary: copies get it as they get everything. These log in, and, alone, no other app."""
    for name in APPS:
        if name in logins:
            how = "IDENTIFIED VIA mysql_native_password USING %s ACCOUNT UNLOCK"
            maria.rows(f"ALTER USER {name}@'%%' {how}", logins[name], timeout=KILL_S)
        elif alone:
            maria.rows(f"ALTER USER {name}@'%' ACCOUNT LOCK", timeout=KILL_S)


def locked(maria):
    found = maria.rows("SELECT User FROM mysql.global_priv WHERE JSON_VALUE(Priv, '$.account_locked') = 1")
    return {one["User"] for one in found} & set(APPS)


def disconnect(maria, names):
    """Connections of these end."""
    if not names:
        return
    found = maria.rows("SELECT id, user FROM information_schema.processlist")
    for one in found:
        if one["user"] in names:
            kill(maria, one["id"])


def disconnect_all(maria):
    """Whoever is connected to write: also who is about to be let in."""
    found = maria.rows("SELECT id, user FROM information_schema.processlist WHERE id <> CONNECTION_ID()")
    for one in found:
        if one["user"] in (*APPS, ADMIN, "unauthenticated user"):
            kill(maria, one["id"])


def kill(maria, number):
    try:
        maria.rows(f"KILL CONNECTION {int(number)}", timeout=KILL_S)
    except Exception as error:
        # It has gone by itself.
        if "nknown thread" not in str(error):
            raise
