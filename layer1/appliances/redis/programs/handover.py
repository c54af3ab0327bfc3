"""Gives the lead to a copy that has all that was acknowledged: by hand, because of a drain, or because the primary is stopped."""

import contextlib
import time

import valkey
from clock import now
from keyspace import Refused
from server import PORT
from succession import candidate_of, keep_lead, let_go, wake

# Less than the lead lasts without being renewed: clients wait for as long at most.
CATCH_UP_S = 4
LOOK_S = 0.02


def hand_over(member, address):
    """To the member at that address, else to the copy that has most. Where that does not catch up it goes on as it is."""
    candidate = candidate_of(member, address)
    keep_lead(member)
    member.valkey.ask("CLIENT", "PAUSE", CATCH_UP_S * 1000 + 1000, "WRITE")
    try:
        written = int(member.valkey.info("replication")["master_repl_offset"])
        until_it_has(member, candidate, written)
        # Who waited with a write is told that it is no primary any more: nothing was acknowledged that the other lacks.
        member.guard.close(candidate.address, PORT)
    finally:
        with contextlib.suppress(valkey.Error):
            member.valkey.ask("CLIENT", "UNPAUSE")
    let_go(member, candidate)
    wake(member, candidate)
    return {"from": member.address, "to": candidate.address}


def until_it_has(member, candidate, written):
    until = now() + CATCH_UP_S
    while now() < until:
        known = valkey.copies_of(member.valkey.info("replication")).get(candidate.address)
        # An answer that took long may be of a time at which clients do not wait any more.
        if known is not None and known[0] >= written and now() < until:
            return
        time.sleep(LOOK_S)
    raise Refused(f"the member at {candidate.address} has yet to catch up with what was written")
