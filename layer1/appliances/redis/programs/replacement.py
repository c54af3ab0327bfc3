"""Puts a dump in the place of all that there is: on the primary, all of it or nothing.

The file is checked first, from its first byte to its last. Then Valkey copies it as if from a primary. Its log of changes,
which is what it begins with, stays that of before until all of the new one is on the disk.
"""

import contextlib
import os
import select
import socket
import subprocess
import threading
import time
from pathlib import Path

import logins
import valkey
from clock import now
from decision import LEASE_S, MARGIN_S, Record
from keyspace import Away, Refused

FOLDER = Path("/data/replacement")
CHECK_S = 3600
# What is in memory is written again, too.
LOAD_S = 4 * 3600
LOOK_S = 0.2
PIECE = 1024**2
NOT_KNOWN = "whether all was replaced is not known, and will be seen in a moment"


class Spoiled(Exception):
    """It failed when what was there had gone from memory already: Valkey has to begin anew, with what its disk has."""


class Unknown(Spoiled):
    """What that is, of before or anew, is not known."""


def clear():
    """What one has left that was cut."""
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.iterdir():
        file.unlink()


def receive(stream, most):
    """Pieces, each behind a line with its size, and the end, a line "0", without which it was cut."""
    clear()
    file, had = FOLDER / "dump.rdb", 0
    try:
        with open(file, "wb") as opened:
            while True:
                line = stream.readline(20)
                if not line.strip().isdigit():
                    raise Refused("what was to be restored ended before its end")
                left = int(line)
                if left == 0:
                    return file
                had += left
                if had > most:
                    # It would take the room of what is there.
                    raise Refused(f"the dump has more than {most} bytes, which is the room in memory: raise the limit first")
                while left > 0:
                    piece = stream.read(min(left, PIECE))
                    if not piece:
                        raise Refused("what was to be restored ended before its end")
                    opened.write(piece)
                    left -= len(piece)
    except OSError as error:
        raise Refused(f"what was to be restored is not to be kept: {error}") from error


def check(file):
    with open(file, "rb") as opened:
        beginning = opened.read(9)
    if beginning[:5] not in (b"REDIS", b"VALKE"):
        raise Refused("this is no dump of Redis or Valkey (RDB)")
    try:
        checked = subprocess.run(
            ["valkey-check-rdb", str(file)], capture_output=True, text=True, errors="replace", timeout=CHECK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(f"the dump could not be read through within {CHECK_S} s: nothing was replaced") from error
    if checked.returncode != 0:
        lines = [line for line in checked.stdout.splitlines() if "ERROR" not in line and not line.startswith("[offset 0]")]
        raise Refused(f"the dump is damaged, or of a later version than this: {' '.join(lines[:2])}")


def content(local):
    databases = local.info("keyspace")
    keys = sum(int(text.split(",")[0].removeprefix("keys=")) for text in databases.values() if text.startswith("keys="))
    return {"sizeBytes": int(local.info("memory")["used_memory"]), "keys": keys}


def is_gone(connection):
    """Has who asked for it hung up? It says nothing more, and waits."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def replace(member, local, stream, is_wanted):
    """
    In a thread of its own; `local` is a connection of its own. Once it returns the new data is what lasts. `is_wanted`: who asked for
    it waits; once nobody does it ends, and what was there before stays.
    """
    most = int(local.info("memory")["maxmemory"])
    file = receive(stream, most)
    check(file)
    before = content(local)
    try:
        member.run(lambda: begin(member, is_wanted), 10)
        with open(file, "rb") as opened, Source(opened) as source:
            offset = int(local.info("replication")["master_repl_offset"])
            source.serve(offset + 1)
            load(member, local, source, most, is_wanted)
    except (Refused, Unknown):
        raise
    except Exception as error:
        raise Spoiled(f"{error}; what was there before is read from the disk") from error
    try:
        member.run(lambda: settle(member), 20)
    except (Away, Refused, valkey.Error) as error:
        raise Unknown(f"{error}; {NOT_KNOWN}") from error
    with contextlib.suppress(OSError):
        file.unlink()
    return {"before": before, "after": content(local)}


def begin(member, is_wanted):
    """In the member's own thread. From now on nothing is written, and no copy leads by itself: it may have some of the new data."""
    if not member.serves():
        raise Refused("this member is not the primary any more")
    if not is_wanted():
        raise Refused("who asked for it is gone: nothing was replaced")
    record = Record(member.record.data, member.leads, member.name)
    expected = {key: member.revision(key) for key in ("lead", "record")}
    try:
        if not member.store.commit(expected, [("record", record.written(), None)]):
            raise Refused("who leads has changed meanwhile")
        # With the revision that the record has now.
        member.entries = member.store.read()
    except Away as error:
        raise Refused(f"{error}; nothing has changed") from error
    member.record, member.possible_copies, member.is_replacing = record, frozenset(), True
    member.state = "restoring"
    # What is written from here on would be in no file.
    member.guard.lend(member.server.quay_port)


def load(member, local, source, most, is_wanted):
    """Once it returns all of it is on the disk, in the place of what was there."""
    # What is on the disk stays as it is until it is told to be what is in memory.
    local.ask("CONFIG", "SET", "appendonly", "no")
    local.ask("CONFIG", "SET", "sanitize-dump-payload", "yes")
    try:
        member.guard.lend(source.port)
        until_loaded(member, local, source, is_wanted)
        memory = local.info("memory")
        used = int(memory["used_memory"])
        # What was full, and makes room for itself, takes a little more than it may at times: keys of it go with the next write.
        if used > (most if memory.get("maxmemory_policy", "noeviction") == "noeviction" else most + most // 10):
            raise Spoiled(f"it takes {used} bytes of memory, and may take {most}: raise the limit first")
    finally:
        local.ask("CONFIG", "SET", "sanitize-dump-payload", "clients")
    if not is_wanted():
        raise Spoiled("who asked for it is gone")
    try:
        keep(local)
    except valkey.Error as error:
        raise Unknown(f"{error}; {NOT_KNOWN}") from error


def keep(local):
    """On the disk, from where nobody takes it back."""
    local.ask("CONFIG", "SET", "appendonly", "yes")
    until = now() + LOAD_S
    while now() < until:
        info = local.info("persistence")
        if (info["aof_rewrite_in_progress"], info["aof_rewrite_scheduled"]) == ("0", "0"):
            if info["aof_last_bgrewrite_status"] == "ok" and info["aof_enabled"] == "1":
                return
            raise Spoiled("what was restored cannot be written to the disk")
        time.sleep(LOOK_S)
    raise Spoiled("what was restored does not get to the disk")


def until_loaded(member, local, source, is_wanted):
    until = now() + LOAD_S
    while now() < until:
        if source.asked > 1:
            raise Spoiled("Valkey could not read the dump")
        if member.leads is None or member.is_ending:
            raise Spoiled("this member is not the primary any more")
        if not is_wanted():
            raise Spoiled("who asked for it is gone")
        with contextlib.suppress(valkey.Error):
            info = local.info("replication", "persistence")
            if info.get("role") == "master":
                raise Spoiled("Valkey was told to read no further")
            if source.sent and info.get("master_link_status") == "up" and info.get("loading") == "0":
                return
        time.sleep(LOOK_S)
    raise Spoiled("Valkey does not read the dump to its end")


def settle(member):
    """In the member's own thread: copies of before are none of this, and it serves again."""
    if member.leads is None:
        raise Spoiled("another member leads by now, with what was there before")
    asked_at = now()
    if member.lease is None or not member.store.keep(member.lease):
        raise Refused("its lead has just ended")
    record = Record(member.record.data, member.leads + 1, member.name)
    lead = {"name": member.name, "address": member.address, "term": record.term}
    expected = {key: member.revision(key) for key in ("lead", "record")}
    if not member.store.commit(expected, [("lead", lead, member.lease), ("record", record.written(), None)]):
        raise Spoiled("another member leads by now, with what was there before")
    member.leads, member.record, member.possible_copies = record.term, record, frozenset()
    member.lead_lease = member.lease
    member.own_offsets.clear()
    member.is_replacing, member.state = False, "running"
    member.guard.extend(asked_at + LEASE_S - MARGIN_S)
    if not member.guard.open():
        raise Unknown(f"the lead was not renewed in time; {NOT_KNOWN}")
    logins.disconnect_apps(member.valkey)
    member.wake.set()


class Source:
    """A primary that has a dump and nothing else, for one copy on this machine."""

    def __init__(self, file):
        self.file = file
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.asked, self.sent = 0, False
        self.connections = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in [self.listening, *self.connections]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def serve(self, offset):
        threading.Thread(target=self.accept, args=(offset,), daemon=True).start()

    def accept(self, offset):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                self.connections.append(connection)
                threading.Thread(target=self.talk, args=(connection, offset), daemon=True).start()

    def talk(self, connection, offset):
        reader = connection.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while words := read_command(reader):
                if words[0].upper() == b"PING":
                    connection.sendall(b"+PONG\r\n")
                elif words[0].upper() == b"PSYNC":
                    self.send_all(connection, offset)
                elif words[:2] != [b"REPLCONF", b"ACK"]:
                    connection.sendall(b"+OK\r\n")

    def send_all(self, connection, offset):
        self.asked += 1
        if self.asked > 1:
            connection.close()
            return
        size = os.fstat(self.file.fileno()).st_size
        connection.sendall(b"+FULLRESYNC %s %d\r\n$%d\r\n" % (os.urandom(20).hex().encode(), offset, size))
        self.file.seek(0)
        connection.sendfile(self.file)
        self.sent = True
        # A primary that says nothing for long is taken for dead.
        threading.Thread(target=keep_up, args=(connection,), daemon=True).start()


def keep_up(connection):
    with contextlib.suppress(OSError):
        while True:
            time.sleep(2)
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")


def read_command(reader):
    line = reader.readline()
    if not line:
        return None
    if not line.startswith(b"*"):
        return line.split() or [b""]
    words = []
    for _ in range(int(line[1:])):
        size = int(reader.readline()[1:])
        words.append(reader.read(size + 2)[:-2])
    return words
