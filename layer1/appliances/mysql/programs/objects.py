"""
Views, triggers and routines: what cannot be moved to another database. Each is made again by the one statement that the server has
for it, in the bytes it was written in and with the modes, charsets and collations that it was made with: whoever wrote what is in
it, no client reads it for commands of its own.
"""

import base64
import json
import re

import maria
from dumping import DEFINER, Failed

LONG_S = 600
# What a statement says before what somebody wrote.
HEAD = re.compile(rb"(CREATE\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?)" + DEFINER.pattern, re.I)
# In which they are made: who calls another is made later, or does not look.
ROUTINES = ("FUNCTION", "PROCEDURE", "PACKAGE", "PACKAGE BODY")


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def names(local, database, condition):
    tables = "SELECT table_name AS name FROM information_schema.tables"
    found = local.rows(f"{tables} WHERE table_schema = '{database}' AND {condition}")
    return [one["name"] for one in found]


def views(local, database):
    return [("VIEW", one) for one in names(local, database, "table_type = 'VIEW'")]


def routines(local, database):
    text = "SELECT routine_name AS name, routine_type AS kind FROM information_schema.routines"
    found = [(one["kind"], one["name"]) for one in local.rows(f"{text} WHERE routine_schema = '{database}' ORDER BY routine_name")]
    return sorted((one for one in found if one[0] in ROUTINES), key=lambda one: ROUTINES.index(one[0]))


def triggers(local, database):
    text = "SELECT trigger_name AS name FROM information_schema.triggers"
    order = "event_object_table, action_timing, event_manipulation, action_order"
    return [("TRIGGER", one["name"]) for one in local.rows(f"{text} WHERE trigger_schema = '{database}' ORDER BY {order}")]


def raw(local, database):
    """A connection that hands on bytes as they are."""
    return maria.Maria(local.place, local.user, local.password, local.port, database=database, use_unicode=False)


def read(local, database, definer=None):
    """All of them, so that `make` makes them. `definer`: whose they are then, else whose they were."""
    found = [*routines(local, database), *views(local, database), *triggers(local, database)]
    asking = raw(local, database)
    try:
        # As they were written, whatever that was.
        asking.rows("SET SESSION character_set_results=NULL")
        return json.dumps([described(asking, database, (kind, name), definer) for kind, name in found]).encode()
    finally:
        asking.close()


def described(asking, database, what, definer):
    kind, name = what
    said = asking.one(f"SHOW CREATE {kind} {quoted(name)}", timeout=LONG_S)
    titles = {"VIEW": "Create View", "TRIGGER": "SQL Original Statement"}
    statement = said[titles.get(kind, f"Create {kind.title()}")]
    if statement is None:
        raise Failed(f"the {kind.lower()} {name} cannot be read")
    if kind == "VIEW" and database != "app":
        # Its names have the database before them where it is of another one, too (information_schema).
        statement = statement.replace(f"`{database}`.".encode(), b"`app`.")
    if definer is not None:
        statement, count = HEAD.subn(lambda head: head[1] + b"DEFINER=" + definer, statement, count=1)
        if count == 0:
            raise Failed(f"the {kind.lower()} {name} does not say whose it is")
    text = lambda key: (said.get(key) or b"").decode("ascii")
    return {
        "what": f"{kind.lower()} {name}",
        "isView": kind == "VIEW",
        "statement": base64.b64encode(statement).decode(),
        "sqlMode": text("sql_mode") if "sql_mode" in said else None,
        "client": text("character_set_client"),
        "connection": text("collation_connection"),
        "database": text("Database Collation"),
    }


def make(local, database, written):
    """What `read` has read. Views may be of views: those that cannot be made yet come again."""
    making = raw(local, database)
    try:
        usual = making.one("SELECT @@collation_database AS own, @@sql_mode AS mode")
        own, mode = usual["own"].decode(), usual["mode"].decode()
        left = json.loads(written)
        while left:
            failed = [(one, error) for one in left if (error := failure(making, one, own, mode)) is not None]
            if len(failed) == len(left) or not all(one["isView"] for one, _ in failed):
                one, error = next((each for each in failed if not each[0]["isView"]), failed[0])
                raise Failed(f"the {one['what']} cannot be made again: {error}")
            left = [one for one, _ in failed]
    finally:
        making.close()


def failure(making, one, own, mode):
    """What the server says against it; None where it is made."""
    making.rows("SET SESSION sql_mode=%s", mode if one["sqlMode"] is None else one["sqlMode"])
    making.rows(f"SET SESSION character_set_client={one['client']}, collation_connection={one['connection']}")
    is_other = one["database"] not in ("", own)
    try:
        if is_other:
            making.rows(f"ALTER DATABASE COLLATE {one['database']}")
        making.rows(base64.b64decode(one["statement"]), timeout=LONG_S)
    except maria.Unanswered:
        raise
    except maria.Error as error:
        return error
    finally:
        if is_other and making.connection is not None:
            making.rows(f"ALTER DATABASE COLLATE {own}")
    return None


def drop(local, database):
    """A table with triggers cannot be moved to another database."""
    for kind, name in [*triggers(local, database), *views(local, database), *routines(local, database)]:
        local.rows(f"DROP {kind} IF EXISTS {database}.{quoted(name)}", timeout=LONG_S)
