"""All that who leads has, copied anew: as files, by mariadb-backup, beside what there is, whose place it takes once it is whole."""

import http.client
import os
import select
import shutil
import subprocess
import threading
from pathlib import Path

from clock import now
from peers import PORT, keep_alive
from server import DATA, OWN_LOGIN

COPY = Path("/data/copy")
FORMER = Path("/data/former")
PIECE = 1024**2
# One that was just made and cannot follow would not the next time.
AGAIN_S = 600
# One that failed is tried again after so long, then after twice as long, up to the latter: each reads all that who leads has.
REST_S, LONGEST_REST_S = 4, 120
CONNECT_S = 10
# Who leads and sends nothing for so long has gone.
STALLED_S = 120
# How much it is, said before it begins.
SIZE = "x-data-bytes"
# Beside data that are whole, until their MariaDB knows it: how far they are.
NOTE = "flynn-position"


class Failed(Exception):
    """In words for people."""


def clear():
    """What one has left that was cut."""
    # Between taking the old away and putting the new there.
    if not DATA.exists() and FORMER.exists():
        os.rename(COPY if is_whole(COPY) else FORMER, DATA)
    for folder in (COPY, FORMER):
        shutil.rmtree(folder, ignore_errors=True)


def is_whole(folder):
    return (folder / NOTE).exists()


class Copying(threading.Thread):
    def __init__(self, lead, password, *, had_data):
        super().__init__(daemon=True)
        self.had_data = had_data
        self.lead, self.password = lead, password
        self.problem, self.is_given_up = None, False

    def is_under_way(self):
        return self.is_alive()

    def give_up(self):
        self.is_given_up = True

    def run(self):
        try:
            shutil.rmtree(COPY, ignore_errors=True)
            COPY.mkdir()
            self.fetch()
            self.prepare()
        except (Failed, OSError, http.client.HTTPException, ValueError) as error:
            self.problem = str(error) or type(error).__name__
            shutil.rmtree(COPY, ignore_errors=True)

    def fetch(self):
        connection = http.client.HTTPConnection(self.lead.address, PORT, timeout=CONNECT_S)
        try:
            connection.connect()
            keep_alive(connection.sock)
            connection.sock.settimeout(STALLED_S)
            connection.request("GET", "/data", headers={"authorization": f"Bearer {self.password}"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise Failed(answer.read().decode(errors="replace"))
            need, free = int(answer.getheader(SIZE)), shutil.disk_usage(COPY).free
            if need > free:
                raise Failed(
                    f"it takes {need} bytes, and the volume has room for {free} beside what is there:"
                    " give it more room, or remove the volume, and it is copied onto an empty one"
                )
            self.unpack(answer)
        finally:
            connection.close()

    def unpack(self, answer):
        unpacking = subprocess.Popen(["mbstream", "-x", "-C", str(COPY)], stdin=subprocess.PIPE)
        try:
            while piece := answer.read(PIECE):
                if self.is_given_up:
                    raise Failed("another leads by now")
                unpacking.stdin.write(piece)
            unpacking.stdin.close()
        except BaseException:
            unpacking.kill()
            raise
        finally:
            unpacking.wait()
        if unpacking.returncode != 0:
            raise Failed("what was sent cannot be unpacked")

    def prepare(self):
        words = ["mariadb-backup", "--no-defaults", "--prepare", f"--target-dir={COPY}", "--use-memory=64M"]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise Failed(f"it cannot be made ready: {' '.join(done.stderr.splitlines()[-3:])}")
        # FILE, PLACE and GTID of the log.
        noted = (COPY / "mariadb_backup_binlog_info").read_text().split()
        (COPY / NOTE).write_text(noted[2])
        os.sync()

    def take_its_place(self):
        shutil.rmtree(FORMER, ignore_errors=True)
        if DATA.exists():
            os.rename(DATA, FORMER)
        os.rename(COPY, DATA)
        shutil.rmtree(FORMER, ignore_errors=True)


class Rest:
    """Between tries that fail, from the same member."""

    def __init__(self):
        self.address, self.seconds, self.until = None, 0, float("-inf")

    def begin(self, address):
        """How long it is."""
        before = self.seconds if address == self.address else 0
        self.address, self.seconds = address, min(LONGEST_REST_S, max(REST_S, 2 * before))
        self.until = now() + self.seconds
        return self.seconds

    def is_over(self, address):
        return address != self.address or now() >= self.until


def settle(local):
    """
    How far copied data are is told to their MariaDB first: they do not say so themselves before it has followed. Its own log begins
    behind that, so that others can follow it.
    """
    noted = DATA / NOTE
    if noted.exists():
        gtid = noted.read_text()
        local.rows("RESET MASTER", timeout=10)
        local.rows("SET GLOBAL gtid_binlog_state=%s", gtid)
        local.rows("SET GLOBAL gtid_slave_pos=%s", gtid)
        noted.unlink()


def size_of(folder):
    """What is copied: without the logs of what was written."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files if not file.name.startswith(("bin.", "relay", "ib_logfile")))


def next_of(stream):
    """It may wait for a lock that is never given: who copies has gone by then, and another is to have its turn."""
    if not select.select([stream], [], [], STALLED_S)[0]:
        raise TimeoutError(f"nothing came for {STALLED_S} s")
    return stream.read(PIECE)


def send(handler):
    """To another member: who leads goes on meanwhile. Its end is only there if all of it is."""
    words = ["mariadb-backup", f"--defaults-file={OWN_LOGIN}", "--backup", "--stream=mbstream", f"--datadir={DATA}"]
    log = Path("/tmp/backup.log")
    with open(log, "w") as said:
        sending = subprocess.Popen([*words, "--target-dir=/tmp/backup"], stdout=subprocess.PIPE, stderr=said, bufsize=0)
    try:
        handler.send_response(200)
        handler.send_header("content-type", "application/octet-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.send_header(SIZE, str(size_of(DATA)))
        handler.end_headers()
        while piece := next_of(sending.stdout):
            handler.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
        if sending.wait() == 0:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            print(f"a copy of the data failed: {' '.join(log.read_text().splitlines()[-3:])}", flush=True)
    except OSError as error:
        print(f"a copy of the data broke off: {error}", flush=True)
    finally:
        sending.kill()
        sending.wait()
