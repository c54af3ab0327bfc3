"""What is in a database as SQL, which any MySQL reads."""

import contextlib
import gzip
import os
import re
import subprocess
import tempfile

PIECE = 1024**2
# As large as it may be: in a dump each byte of a BLOB is two digits, and a row may have several.
PACKET = 1024**3
END = b"-- Dump completed"
# Older clients take it for a command of theirs.
SANDBOX = b"/*M!999999"
# Quoted by modes as names are, or as people do.
WHO = rb"""(?:`(?:[^`]|``)*`|'[^']*'|"(?:[^"]|"")*"|[\w.%]+)"""
DEFINER = re.compile(rb"DEFINER\s*=\s*" + WHO + rb"\s*@\s*" + WHO)


class Failed(Exception):
    """In words for people: nothing has changed."""


@contextlib.contextmanager
def login(host, user, password):
    """A file for the clients of MariaDB: no password is in an argument."""
    with tempfile.NamedTemporaryFile("w", prefix="login-", suffix=".cnf") as file:
        file.write(f"[client]\nhost={host}\nport=3306\nuser={user}\npassword={password}\nskip-ssl\n")
        file.flush()
        os.chmod(file.name, 0o600)
        yield f"--defaults-file={file.name}"


def words(how):
    plain = ["--single-transaction", "--quick", "--skip-lock-tables", "--no-tablespaces", "--hex-blob", "--routines", "--triggers"]
    return ["mariadb-dump", how, *plain, f"--max-allowed-packet={PACKET}", "--default-character-set=utf8mb4", "app"]


def dump(host, password, output):
    with login(host, "flynn", password) as how:
        dumping = subprocess.Popen(words(how), stdout=subprocess.PIPE)
        last = b""
        with gzip.GzipFile(fileobj=output, mode="wb", compresslevel=6, mtime=0) as packed:
            first = dumping.stdout.readline()
            if not first.startswith(SANDBOX):
                packed.write(first)
            while piece := dumping.stdout.read(PIECE):
                packed.write(piece)
                last = (last + piece)[-200:]
            if dumping.wait() != 0 or END not in last:
                raise Failed("the dump was cut: see what is said before")
        output.flush()
