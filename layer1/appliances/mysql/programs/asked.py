"""
What a MariaDB's member answers beside what every kind does.

GET /data        all that there is, as files: for a member that copies it (copying.py)
POST /logins     who of the apps logs in
"""

import threading

import accounts
import answers
import copying

LOGINS_S = 30


class Own(answers.Own):
    def __init__(self, member):
        self.member, self.one_at_a_time = member, threading.Lock()
        self.posts = {"/logins": lambda said: member.run(lambda: change_logins(member, **said), LOGINS_S)}

    def get_data(self, handler):
        if not self.member.serves():
            handler.say(409, "this member is not the primary any more")
        elif not self.one_at_a_time.acquire(blocking=False):
            handler.say(409, "another copy is being made")
        else:
            try:
                copying.send(handler)
            finally:
                self.one_at_a_time.release()


def change_logins(member, lines, alone):
    answers.expect_serving(member)
    accounts.admit(member.maria, accounts.parse(lines), alone)
    accounts.disconnect(member.maria, accounts.locked(member.maria))
