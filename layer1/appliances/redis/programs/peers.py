"""The members that are there, as they say of themselves in the keyspace, and what they are asked directly."""

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from decision import ASK_S, Member, Position

PORT = 8008
PREFIX = "members/"
# A member tells how far it is, and notes it, once that has changed by so much, else from time to time: Valkey counts on where
# nothing is written, too.
UNTOLD_BYTES = 1024
TOLD_S = 10


@dataclass(frozen=True)
class Peer:
    name: str
    address: str
    position: Position
    is_ready: bool
    data: str | None
    is_cold: bool
    # All that it has copied since it follows is on its disk, too.
    is_kept: bool
    # Of its Valkey as it is now: another each time that it becomes a primary.
    replid: str
    state: str

    def member(self):
        return Member(self.name, self.position, self.is_ready, self.data, self.is_cold)


class Peers:
    def __init__(self):
        self.found = {}

    def update(self, entries):
        self.found = {
            key[len(PREFIX) :]: peer_of(key[len(PREFIX) :], entry.value)
            for key, entry in entries.items()
            if key.startswith(PREFIX)
        }

    def all(self):
        return list(self.found.values())

    def named(self, name):
        return self.found.get(name)

    def others(self, name):
        return tuple(peer.member() for peer in self.all() if peer.name != name)


def peer_of(name, said):
    position = Position(said["term"], said["offset"])
    how = (said["isReady"], said["data"], said["isCold"], said["isKept"])
    return Peer(name, said["address"], position, *how, said["replid"], said["state"])


# The status of what may have been done, and may not.
UNKNOWN = 504


def keep_alive(connection):
    """A host that is gone is noticed within a minute, also while nobody says anything."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    # What is under way to it counts, too.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 35_000)


class Unwilling(Exception):
    """What a member answered that is not a yes, or that it did not answer."""


def ask(address, path, body, password, timeout, method="POST"):
    connection = http.client.HTTPConnection(address, PORT, timeout=timeout)
    try:
        headers = {"authorization": f"Bearer {password}", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace")
        if answer.status != 200:
            raise Unwilling(said.strip() or f"it answers with {answer.status}")
        return json.loads(said or "{}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unwilling(f"the member at {address} does not answer: {error}") from error
    finally:
        connection.close()


def ask_copies(copies, name, term, password):
    """Whether all of them wait; at once where there are none."""
    if not copies:
        return True

    def is_willing(peer):
        try:
            ask(peer.address, "/promise", {"name": name, "term": term}, password, ASK_S)
            return True
        except Unwilling:
            return False

    with ThreadPoolExecutor(len(copies)) as pool:
        return all(pool.map(is_willing, copies))
