"""Who logs in to Valkey, and what they may do."""

import hashlib
import re

# Apps log in as one of these in turn.
APPS = ("app", "app_1", "app_2")
# All but what is the platform's: settings, roles of members, other users, the log of slow commands' length. What only reads stays.
APP_RULES = (
    "~* &* +@all -@admin -migrate -failover +acl|whoami +role +slowlog|get +slowlog|len +client|list +latency|latest"
).split()
LOGIN = re.compile(r"(app(?:_[12])?) ([0-9a-f]{64})")


def digest(password):
    """What Valkey keeps of a password: who sees it cannot log in with it."""
    return hashlib.sha256(password.encode()).hexdigest()


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


def fixed_users(superuser, replication):
    """Lines of Valkey's settings: those that no app logs in as. Apps are let in once the keyspace says who they are."""
    return [
        "user default reset off",
        f"user flynn reset on #{digest(superuser)} ~* &* +@all",
        f"user replication reset on #{digest(replication)} +psync +replconf +ping",
    ]


def admit(valkey, logins):
    """These log in, and no other app; connections of who is shut out end."""
    for name in APPS:
        if name in logins:
            valkey.ask("ACL", "SETUSER", name, "reset", "on", f"#{logins[name]}", *APP_RULES)
        else:
            valkey.ask("ACL", "DELUSER", name)


def disconnect_apps(valkey):
    """They connect again, to whoever leads by then."""
    known = set(valkey.ask("ACL", "USERS"))
    for name in APPS:
        if name in known:
            valkey.ask("CLIENT", "KILL", "USER", name)
