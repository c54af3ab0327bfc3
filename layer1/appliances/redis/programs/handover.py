"""Gives the lead to a copy that has all that was acknowledged: by hand, because of a drain, or because the primary is stopped."""

import contextlib
import time

import valkey
from clock import now
from decision import LEASE_S, MARGIN_S, Record
from keyspace import Refused
from peers import Unwilling, ask
from server import PORT

# Less than the lead lasts without being renewed: clients wait for as long at most.
CATCH_UP_S = 4
LOOK_S = 0.02


def hand_over(member, address):
    """To the member at that address, else to the copy that has most. Where that does not catch up it goes on as it is."""
    candidate = candidate_of(member, address)
    asked_at = now()
    if member.lease != member.lead_lease or not member.store.keep(member.lease):
        raise Refused("its lead has just ended")
    member.guard.extend(asked_at + LEASE_S - MARGIN_S)
    member.valkey.ask("CLIENT", "PAUSE", CATCH_UP_S * 1000 + 1000, "WRITE")
    try:
        written = int(member.valkey.info("replication")["master_repl_offset"])
        until_it_has(member, candidate, written)
        # Who waited with a write is told that it is no primary any more: nothing was acknowledged that the other lacks.
        member.guard.close(candidate.address, PORT)
    finally:
        with contextlib.suppress(valkey.Error):
            member.valkey.ask("CLIENT", "UNPAUSE")
    record = Record(member.record.data, member.leads, member.name, frozenset({candidate.name}), candidate.name)
    expected = {key: member.revision(key) for key in ("lead", "record")}
    if not member.store.commit(expected, [("record", record.written(), None)], ["lead"]):
        raise Refused("who leads has changed meanwhile")
    member.leads, member.lead, member.record = None, None, record
    member.free_s, member.read_at = 0.0, now()
    with contextlib.suppress(Unwilling):
        ask(candidate.address, "/wake", {}, member.password["members"], 1)
    return {"from": member.address, "to": candidate.address}


def candidate_of(member, address):
    others = [peer for peer in member.peers.all() if peer.name != member.name]
    if not others:
        raise Refused("it has one member: there is no other that could take over")
    if address == member.address:
        raise Refused("that member is the primary already")
    if address is not None:
        others = [peer for peer in others if peer.address == address]
        if not others:
            raise Refused(f"no member is at {address}")
    fit = [peer for peer in others if peer.name in member.record.copies]
    if not fit:
        who = "no other member has" if address is None else f"the member at {address} has not"
        raise Refused(f"{who} caught up with what was written")
    return max(fit, key=lambda peer: (peer.position.order(), peer.name))


def until_it_has(member, candidate, written):
    until = now() + CATCH_UP_S
    while now() < until:
        known = valkey.copies_of(member.valkey.info("replication")).get(candidate.address)
        # An answer that took long may be of a time at which clients do not wait any more.
        if known is not None and known[0] >= written and now() < until:
            return
        time.sleep(LOOK_S)
    raise Refused(f"the member at {candidate.address} has yet to catch up with what was written")
