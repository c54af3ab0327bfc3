"""Gives the lead to a copy that has all that was acknowledged: by hand, because of a drain, or because the primary is stopped."""

import time

import accounts
import maria
from clock import now
from keyspace import Refused
from succession import candidate_of, keep_lead, let_go, wake

# Less than the lead lasts without being renewed: who writes is refused for as long at most.
CATCH_UP_S = 4
LOOK_S = 0.02


def hand_over(member, address):
    """To the member at that address, else to the copy that counts. Where that does not catch up it goes on as it is."""
    candidate = candidate_of(member, address)
    keep_lead(member)
    if member.is_stopping:
        # Their connections end anyway, and what is long under way would be waited for.
        accounts.disconnect_all(member.maria)
    member.maria.rows("SET SESSION lock_wait_timeout=2")
    member.maria.rows("SET GLOBAL read_only=1")
    try:
        written = maria.look(member.maria)["applied"]
        until_it_has(member, candidate, written)
    except Exception:
        # While the lead lasts: the watch may have ended writes meanwhile, and would not look at it again.
        member.guard.open()
        raise
    member.guard.close()
    let_go(member, candidate)
    accounts.disconnect_all(member.maria)
    wake(member, candidate)
    return {"from": member.address, "to": candidate.address}


def until_it_has(member, candidate, written):
    until = now() + CATCH_UP_S
    copy = maria.Maria(candidate.address, "flynn", member.password["superuser"])
    try:
        while now() < until:
            has = maria.look(copy)["received"]
            # An answer that took long may be of a time at which the lead is over.
            if has.order() >= written.order() and now() < until:
                return
            time.sleep(LOOK_S)
    finally:
        copy.close()
    raise Refused(f"the member at {candidate.address} has yet to catch up with what was written")
