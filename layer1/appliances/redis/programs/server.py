"""Valkey itself, as the child of this program: how it is set, and that it ends with it."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import logins

PORT = 6379
SOCKET = "/tmp/valkey.sock"
SETTINGS = Path("/tmp/valkey.conf")
FOLDER = Path("/data/valkey")
MIB = 1024**2
EVICTIONS = (
    "noeviction allkeys-lru allkeys-lfu allkeys-random volatile-lru volatile-lfu volatile-random volatile-ttl"
).split()
# It ends on its own once copies have what it took; its host gives a member two minutes.
STOP_S = 60


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
    """Half of the limit is for data; the rest for writes while a copy of it is made, connections, replication, this program."""
    return {
        "maxmemory": limit // 2,
        "repl-backlog-size": max(MIB, limit // 16),
        "client-output-buffer-limit": f"replica {limit // 4} {limit // 8} 60",
        "maxmemory-clients": limit // 8,
    }


def settings(secrets, limit, eviction, quay):
    if eviction not in EVICTIONS:
        raise Wrong(f"MAXMEMORY_POLICY={eviction} is none that Valkey knows: {', '.join(EVICTIONS)}")
    lines = {
        "bind": "* -::*",
        "port": PORT,
        "protected-mode": "no",
        "unixsocket": SOCKET,
        "unixsocketperm": "700",
        "dir": FOLDER,
        "daemonize": "no",
        "loglevel": "warning",
        "databases": 16,
        "maxclients": 1000,
        "tcp-keepalive": 30,
        # It takes nothing before it leads: until then it follows a place where nobody answers.
        "replicaof": f"127.0.0.1 {quay}",
        "masteruser": "replication",
        "masterauth": secrets["REDIS_REPLICATION_PASSWORD"],
        "repl-timeout": 15,
        "repl-ping-replica-period": 2,
        "repl-diskless-sync-delay": 0,
        "replica-read-only": "yes",
        "appendonly": "yes",
        "appendfsync": "everysec",
        # The log of changes has it all. Dumps are made when somebody wants one.
        "save": '""',
        "maxmemory-policy": eviction,
        "latency-monitor-threshold": 100,
        "shutdown-timeout": 10,
        "shutdown-on-sigterm": "nosave",
        **shares(limit),
    }
    users = logins.fixed_users(secrets["REDIS_SUPERUSER_PASSWORD"], secrets["REDIS_REPLICATION_PASSWORD"])
    return "\n".join([*(f"{name} {value}" for name, value in lines.items()), *users, ""])


class Server:
    def __init__(self, secrets, eviction):
        # Who connects here waits, and costs nothing: this is followed while nobody else is.
        self.quay = socket.create_server(("127.0.0.1", 0))
        self.quay_port = self.quay.getsockname()[1]
        FOLDER.mkdir(exist_ok=True)
        SETTINGS.write_text(settings(secrets, limit_bytes(), eviction, self.quay_port))
        # By the thread that lasts as long as this program: with it the child ends.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "valkey-server", str(SETTINGS)])

    def has_ended(self):
        return self.process.poll() is not None

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
