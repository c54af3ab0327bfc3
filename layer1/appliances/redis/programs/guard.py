"""Has Valkey take writes while this member leads, and none once the lead may be another's."""

import logins
import valkey
from watch import FENCE_S, Watch


class Guard(Watch):
    errors = (valkey.Error,)

    def __init__(self, valkey_, server):
        super().__init__(server)
        self.valkey = valkey_

    def let_write(self):
        self.valkey.ask("REPLICAOF", "NO", "ONE", timeout=FENCE_S)

    def close(self, host=None, port=None):
        """None are once it returns: it follows that address, or nobody. Where it throws, the watch does it again at once."""
        with self.lock:
            was_open = self.may_be_open
            self.is_open, self.until = False, 0.0
            self.valkey.ask("REPLICAOF", host or "127.0.0.1", port or self.server.quay_port, timeout=FENCE_S)
            self.may_be_open = False
            if was_open:
                logins.disconnect_apps(self.valkey)

    def lend(self, port):
        """Writes end, and not because of the lead, which it keeps: it follows what is at that port of this machine."""
        with self.lock:
            self.is_open = False
            self.valkey.ask("REPLICAOF", "127.0.0.1", port, timeout=FENCE_S)
            self.may_be_open = False
            logins.disconnect_apps(self.valkey)
