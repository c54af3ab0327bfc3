"""
What a Valkey's member answers beside what every kind does.

POST /logins     who of the apps logs in
GET /data        all that there is, as a dump (snapshot.py)
PUT /data        a dump in the place of all that there is, in pieces (replacement.py)
"""

import contextlib
import os
import threading

import answers
import keyspace
import logins
import replacement
import snapshot
import valkey
from peers import UNKNOWN, Unwilling, ask

LOGINS_S = 30


class Own(answers.Own):
    """`local`: makes a connection to its Valkey."""

    def __init__(self, member, local):
        self.member, self.local, self.one_at_a_time = member, local, threading.Lock()
        self.posts = {"/logins": lambda said: member.run(lambda: change_logins(member, **said), LOGINS_S)}

    def get_data(self, handler):
        try:
            file = snapshot.take(self.local())
        except (keyspace.Refused, valkey.Error, OSError) as error:
            handler.say(409, str(error))
            return
        with file, contextlib.suppress(OSError):
            handler.send_response(200)
            handler.send_header("content-type", "application/octet-stream")
            handler.send_header("content-length", str(os.fstat(file.fileno()).st_size))
            handler.end_headers()
            handler.wfile.flush()
            handler.connection.sendfile(file)

    def put_data(self, handler):
        handler.answer(lambda: self.replace(handler))

    def replace(self, handler):
        if not self.one_at_a_time.acquire(blocking=False):
            raise keyspace.Refused("another restore is under way")
        try:
            is_wanted = lambda: not replacement.is_gone(handler.connection)
            return replacement.replace(self.member, self.local(), handler.rfile, is_wanted)
        finally:
            replacement.clear()
            self.one_at_a_time.release()

    def failed(self, handler, error):
        if not isinstance(error, replacement.Spoiled):
            return False
        handler.say(UNKNOWN if isinstance(error, replacement.Unknown) else 409, str(error))
        # Its host starts it again, with what its disk has.
        self.member.server.kill()
        return True


def change_logins(member, lines, alone):
    """They are in the keyspace first: whoever leads next lets in the same."""
    answers.expect_serving(member)
    wanted = logins.parse(lines)
    if not alone:
        wanted = {**member.known_logins(), **wanted}
    expected = {"lead": member.revision("lead"), "logins": member.revision("logins")}
    if not member.store.commit(expected, [("logins", wanted, None)]):
        raise keyspace.Refused("who leads, or who logs in, has changed meanwhile")
    logins.admit(member.valkey, wanted)
    member.admitted = wanted
    for peer in member.peers.all():
        # One that is away reads them when it is back, before it is asked for anything.
        with contextlib.suppress(Unwilling):
            if peer.name != member.name:
                ask(peer.address, "/wake", {}, member.password["members"], 1)
