"""Has MariaDB take writes while this member leads, and none once the lead may be another's."""

import maria
from watch import FENCE_S, Watch


class Guard(Watch):
    """Where writes cannot be ended, because one waits for a copy that is gone, the server is killed: what waits has no answer."""

    errors = (maria.Error,)

    def __init__(self, maria_, server):
        super().__init__(server)
        self.maria = maria_

    def let_write(self):
        self.maria.rows("SET GLOBAL read_only=0", timeout=FENCE_S)

    def close(self):
        with self.lock:
            self.is_open, self.until = False, 0.0
            if not self.may_be_open:
                return
            # It waits for what is being written, and it is not known how long that waits.
            self.maria.rows("SET SESSION lock_wait_timeout=1", timeout=FENCE_S)
            self.maria.rows("SET GLOBAL read_only=1", timeout=FENCE_S)
            self.may_be_open = False
