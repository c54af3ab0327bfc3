"""Sees to it that nothing is written once the lead may be another's, whatever else this program is at."""

import threading
import time

import logins
import valkey
from clock import now

LOOK_S = 0.1
FENCE_S = 1


class Guard:
    """`until`: by clock.py. Closed at first."""

    def __init__(self, valkey_, server):
        self.valkey, self.server = valkey_, server
        self.lock = threading.RLock()
        self.until = 0.0
        # Writes are taken for sure; and they may be, since Valkey was told to, and has not answered yet that it does not any more.
        # What is not answered in time may still be done, so whoever may take writes is watched.
        self.is_open = self.may_be_open = False

    def extend(self, until):
        with self.lock:
            self.until = max(self.until, until)

    def open(self):
        """Writes are taken from now on, while there is time; whether they are."""
        with self.lock:
            # If this is not answered there is time to end it again.
            if now() >= self.until - FENCE_S:
                return False
            self.may_be_open = True
            self.valkey.ask("REPLICAOF", "NO", "ONE", timeout=FENCE_S)
            self.is_open = True
            return True

    def close(self, host=None, port=None):
        """None are once it returns: it follows that address, or nobody. Where it throws, the watch does it again at once."""
        with self.lock:
            was_open = self.may_be_open
            self.is_open, self.until = False, 0.0
            self.valkey.ask("REPLICAOF", host or "127.0.0.1", port or self.server.quay_port, timeout=FENCE_S)
            self.may_be_open = False
            if was_open:
                logins.disconnect_apps(self.valkey)

    def watch(self):
        while self.look():
            time.sleep(LOOK_S)

    def look(self):
        """Whether there is anything left to watch."""
        with self.lock:
            if not self.may_be_open or now() < self.until:
                return True
            print("the lead was not renewed in time: nothing is written any more", flush=True)
            try:
                self.close()
            except valkey.Error:
                if self.may_be_open:
                    # One that does not hear it has to go.
                    self.server.kill()
                    return False
            return True

    def lend(self, port):
        """Writes end, and not because of the lead, which it keeps: it follows what is at that port of this machine."""
        with self.lock:
            self.is_open = False
            self.valkey.ask("REPLICAOF", "127.0.0.1", port, timeout=FENCE_S)
            self.may_be_open = False
            logins.disconnect_apps(self.valkey)
