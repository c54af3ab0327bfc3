"""Sees to it that nothing is written once the lead may be another's, whatever else this program is at."""

import threading
import time

from clock import now

LOOK_S = 0.1
FENCE_S = 1


class Watch:
    """`until`: by clock.py. Closed at first. Its kind says how it is opened and closed, and what its server throws."""

    errors = ()

    def __init__(self, server):
        self.server = server
        self.lock = threading.RLock()
        self.until = 0.0
        # Writes are taken for sure; and they may be, since the server was told to, and has not answered yet that it does not.
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
            self.let_write()
            self.is_open = True
            return True

    def let_write(self):
        raise NotImplementedError

    def close(self):
        """None are once it returns. Where it throws, the watch does it again at once."""
        raise NotImplementedError

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
            except self.errors:
                if self.may_be_open:
                    # One that does not hear it has to go.
                    self.server.kill()
                    return False
            return True
