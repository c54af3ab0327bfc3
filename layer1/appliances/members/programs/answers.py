"""
What a member answers over HTTP: how it is, to its host and the others; what these, and programs beside members, ask of it.

GET /primary /replica /readiness /liveness     200 is yes
GET /cluster                                   all members, as this one knows them
POST /promise /wake /switchover /lead          of members, with their password
What its kind answers beside it, for members as well, is that kind's (`Own`).
"""

import contextlib
import hmac
import http.server
import json
import socketserver
import threading

import decision
import keyspace
from clock import now
from decision import LEASE_S
from peers import PORT, keep_alive

# Longer than handing over takes, or anything else that a member does between two looks.
ALIVE_S = 60
HAND_OVER_S = 15


class Server(socketserver.ThreadingTCPServer):
    """As http.server's own, which asks a resolver for its name before it listens."""

    allow_reuse_address = True
    daemon_threads = True


class Own:
    """What a kind answers beside it: nothing. `handler`: of one request, by a member."""

    posts = {}

    def get_data(self, handler):
        handler.say(404, "there is nothing here")

    def put_data(self, handler):
        handler.say(404, "there is nothing here")

    def failed(self, handler, error):
        """Says what kind of failure it is; whether it knows."""
        return False


def start(member, own):
    def switch_over_to(said):
        return member.run(lambda: switch_over(member, said.get("to")), HAND_OVER_S)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Of a client that stands still.
        timeout = 600

        def log_message(self, *_):
            pass

        def do_GET(self):
            checks = {
                "/primary": member.serves,
                "/replica": member.follows,
                "/readiness": lambda: member.serves() or member.follows(),
                "/liveness": lambda: now() - member.looked_at < ALIVE_S,
            }
            if self.path == "/data":
                if self.is_known():
                    self.close_connection = True
                    own.get_data(self)
            elif self.path == "/cluster":
                self.say(200, json.dumps(cluster(member)))
            elif self.path in checks:
                self.say(200 if checks[self.path]() else 503, json.dumps({"state": member.state}))
            else:
                self.say(404, "there is nothing here")

        def do_POST(self):
            asked = {
                "/promise": lambda said: promised(member, said),
                "/wake": lambda _: member.wake.set(),
                "/switchover": switch_over_to,
                "/lead": lambda _: told_to_lead(member),
                **own.posts,
            }.get(self.path)
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(min(size, 65536))
            if asked is None:
                self.say(404, "there is nothing here")
            elif self.is_known():
                self.answer(lambda: asked(json.loads(body or b"{}")))

        def do_PUT(self):
            self.close_connection = True
            keep_alive(self.connection)
            if self.path != "/data":
                self.say(404, "there is nothing here")
            elif self.is_known():
                own.put_data(self)

        def is_known(self):
            shown = self.headers.get("authorization", "").removeprefix("Bearer ")
            known = hmac.compare_digest(shown.encode(), member.password["members"].encode())
            if not known:
                self.close_connection = True
                self.say(401, "this is for members")
            return known

        def answer(self, ask):
            try:
                self.say(200, json.dumps(ask() or {}))
            except (keyspace.Refused, keyspace.Away, ValueError, *member.errors) as error:
                self.say(409, str(error))
            except Exception as error:
                if not own.failed(self, error):
                    raise

        def say(self, status, text):
            encoded = text.encode()
            self.send_response(status)
            self.send_header("content-type", "application/json" if status == 200 else "text/plain")
            self.send_header("content-length", str(len(encoded)))
            # Who is gone hears nothing; what is to be done then is done all the same.
            with contextlib.suppress(OSError):
                self.end_headers()
                self.wfile.write(encoded)

    server = Server(("", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def cluster(member):
    lead, record = member.knows_lead(), member.record
    leader = None if lead is None else member.peers.named(lead.name)
    return {
        "members": [
            {
                "name": peer.name,
                "address": peer.address,
                "isPrimary": lead is not None and peer.name == lead.name,
                "isSynchronous": record is not None and lead is not None and peer.name in record.copies,
                "state": peer.state,
                "lagBytes": member.lag(leader, peer),
                "rank": rank(peer, record),
            }
            for peer in member.peers.all()
        ]
    }


def rank(peer, record):
    """For who is to lead because somebody says so: one that has none of the data comes last."""
    if record is None:
        return peer.position.order()
    return (decision.has_some(peer.member(), record), *decision.rank(peer.member(), record))


def promised(member, said):
    if not member.promise(said["name"], said["term"]):
        raise keyspace.Refused("it promises nothing to that one")


def expect_serving(member):
    if member.is_replacing:
        raise keyspace.Refused("a restore is under way: wait until it is through")
    if not member.serves():
        raise keyspace.Refused("this member is not the primary any more")


def switch_over(member, address):
    expect_serving(member)
    return member.hand_over(address)


def told_to_lead(member):
    if member.is_replacing:
        raise keyspace.Refused("a restore is under way: wait until it is through")
    if member.lead is not None:
        raise keyspace.Refused(f"{member.lead.name} leads, for {LEASE_S} s more at most if it is gone")
    if not member.is_ready():
        raise keyspace.Refused("it reads its data: wait until it has, or say --to another, which may lack more")
    if member.record is not None and not decision.has_some(member.me(), member.record):
        if any(decision.has_some(other, member.record) for other in member.peers.others(member.name)):
            raise keyspace.Refused("it has none of the data, and another member has: say --to that")
        raise keyspace.Refused(
            "no member that is there has any of the data: wait for the host of one that has."
            " If all of them are gone for good, download a backup before you remove the resource, since its backups go with it;"
            " then add it anew, and restore that file"
        )
    member.is_told = True
    member.wake.set()
