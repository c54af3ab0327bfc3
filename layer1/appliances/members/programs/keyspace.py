"""The members' keys in the store, through the door of their host: as etcd's JSON gateway has them."""

import base64
import http.client
import json
import socket
import urllib.parse
from dataclasses import dataclass

from clock import now
from decision import STORE_S


class Away(Exception):
    """Whether what was asked for was done is not known."""


class Refused(Exception):
    """It was not done, and would not be the next time."""


@dataclass(frozen=True)
class Entry:
    value: dict
    revision: int
    lease: str | None


class Keyspace:
    """One thread at a time."""

    def __init__(self, url, name, password):
        self.address = urllib.parse.urlsplit(url).netloc
        self.name, self.password = name, password
        self.prefix = f"/flynn/keyspaces/{name}/"
        self.token = None
        self.left_s = float(STORE_S)

    def allow(self, seconds):
        """All that is asked from now on takes no longer together."""
        self.left_s = float(seconds)

    def read(self):
        """All that there is, by its name behind the prefix, as of one moment."""
        # The end is what comes behind the slash.
        found = self.ask("kv/range", {"key": encoded(self.prefix), "range_end": encoded(self.prefix[:-1] + "0")})
        entries = {}
        for one in found.get("kvs", []):
            key = base64.b64decode(one["key"]).decode()[len(self.prefix) :]
            lease = one.get("lease", "0")
            value = json.loads(base64.b64decode(one.get("value", "")) or "{}")
            entries[key] = Entry(value, int(one["mod_revision"]), None if lease == "0" else lease)
        return entries

    def commit(self, expected, puts, deletes=()):
        """`expected`: revisions, None of what is not to be there. `puts`: (key, value, lease). False where something is another."""
        compare = [self.expecting(key, revision) for key, revision in expected.items()]
        operations = [{"request_put": self.putting(*one)} for one in puts]
        operations += [{"request_delete_range": {"key": encoded(self.prefix + key)}} for key in deletes]
        return self.ask("kv/txn", {"compare": compare, "success": operations}).get("succeeded", False)

    def put(self, key, value, lease):
        self.ask("kv/put", self.putting(key, value, lease))

    def grant(self, seconds):
        return self.ask("lease/grant", {"TTL": seconds})["ID"]

    def keep(self, lease):
        """Whether it is still there, for its whole length from now on."""
        return int(self.ask("lease/keepalive", {"ID": lease}).get("result", {}).get("TTL", 0)) > 0

    def expecting(self, key, revision):
        at = {"key": encoded(self.prefix + key), "result": "EQUAL"}
        if revision is None:
            return {**at, "target": "VERSION", "version": 0}
        return {**at, "target": "MOD", "mod_revision": str(revision)}

    def putting(self, key, value, lease):
        leased = {} if lease is None else {"lease": lease}
        return {"key": encoded(self.prefix + key), "value": encoded(json.dumps(value)), **leased}

    def ask(self, path, body):
        status, said = self.post(path, body) if self.token is not None else (401, {})
        # A token is one host agent's, and it may be another by now.
        if status in (400, 401):
            self.token = None
            known, answer = self.post("auth/authenticate", {"name": self.name, "password": self.password})
            if known != 200:
                raise (Away if known >= 500 else Refused)(f"the keyspace says: {words_of(answer)}")
            self.token = answer["token"]
            status, said = self.post(path, body)
        if status == 200:
            return said
        raise (Away if status >= 500 or status == 429 else Refused)(f"the keyspace says: {words_of(said)}")

    def post(self, path, body):
        if self.left_s <= 0:
            raise Away("the store takes too long")
        began = now()
        connection = http.client.HTTPConnection(self.address, timeout=self.left_s)
        headers = {"content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = self.token
        try:
            connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Away(f"the store does not answer: {error}") from error
        finally:
            self.left_s -= now() - began
            connection.close()


def words_of(said):
    return said.get("message") or said.get("error") or "nothing"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def address_towards(url):
    """Of this machine, the address that others reach it by."""
    place = urllib.parse.urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((place.hostname, place.port))
        return asking.getsockname()[0]
