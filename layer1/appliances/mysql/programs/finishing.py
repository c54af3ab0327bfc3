"""A restore whose program was ended is finished, or taken back, by who leads."""

import os
import subprocess
from pathlib import Path

from clock import now

PROGRAM = Path(__file__).with_name("flynn-mysql-client")
# One that failed says why, and is tried again.
AGAIN_S = 30
# The marks of one whose program has gone (restoring.py), or what it had read.
LEFT = (
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'flynn'"
    " AND table_name IN ('restoring', 'restored') AND IS_FREE_LOCK('flynn_restore')"
    " UNION SELECT schema_name FROM information_schema.schemata"
    " WHERE schema_name IN ('app_restoring', 'app_before') AND IS_FREE_LOCK('flynn_restore')"
)


class Finishing:
    def __init__(self, member):
        self.member, self.process, self.began_at = member, None, float("-inf")

    def look(self):
        ended = 0 if self.process is None else self.process.poll()
        has_failed_now = ended != 0 and now() < self.began_at + AGAIN_S
        if ended is None or has_failed_now or not self.member.maria.rows(LEFT):
            return
        print("a restore was ended before its end: it is finished, or what it left is taken away", flush=True)
        self.began_at = now()
        self.process = subprocess.Popen([PROGRAM, "finish"], env={**os.environ, "MYSQL_HOST": self.member.address})
