"""The members that are there, as they say of themselves in the keyspace, and what they are asked directly."""

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clock import now
from decision import ASK_S, Member, Position

PORT = 8008
PREFIX = "members/"
# A member tells how far it is, and notes it, once that has changed by so much, else from time to time: a position may
# move where nobody writes, too.
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
    state: str
    # All that it says of itself: its kind's own is in there, too.
    said: dict

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
    return Peer(name, said["address"], position, said["isReady"], said["data"], said["isCold"], said["state"], said)


def tell(member, own):
    """Puts it into the keyspace, if it says anything new; under the lease that ends with the member."""
    if is_news(member, own):
        member.store.put(PREFIX + member.name, own, member.lease)
        member.published, member.published_at = (own, member.lease), now()


def is_news(member, own):
    if member.published is None or member.lead is None or now() - member.published_at >= TOLD_S:
        return True
    before, lease = member.published
    has_moved = abs(own["offset"] - before["offset"]) >= member.untold
    return has_moved or lease != member.lease or {**own, "offset": 0} != {**before, "offset": 0}


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
