"""Gives the lead to a copy that has all that was acknowledged: by hand, because of a drain, or because the primary is stopped."""

import contextlib
import time

import accounts
import maria
from clock import now
from decision import LEASE_S, MARGIN_S, Record
from keyspace import Refused
from peers import Unwilling, ask

# Less than the lead lasts without being renewed: who writes is refused for as long at most.
CATCH_UP_S = 4
LOOK_S = 0.02


def hand_over(member, address):
    """To the member at that address, else to the copy that counts. Where that does not catch up it goes on as it is."""
    candidate = candidate_of(member, address)
    asked_at = now()
    if member.lease != member.lead_lease or not member.store.keep(member.lease):
        raise Refused("its lead has just ended")
    member.guard.extend(asked_at + LEASE_S - MARGIN_S)
    if member.is_stopping:
        # Their connections end anyway, and what is long under way would be waited for.
        accounts.disconnect_all(member.maria)
    member.maria.rows("SET SESSION lock_wait_timeout=2")
    member.maria.rows("SET GLOBAL read_only=1")
    try:
        written = maria.look(member.maria)["applied"]
        until_it_has(member, candidate, written)
    except Exception:
        member.maria.rows("SET GLOBAL read_only=0")
        raise
    member.guard.close()
    record = Record(member.record.data, member.leads, member.name, frozenset({candidate.name}), candidate.name)
    expected = {key: member.revision(key) for key in ("lead", "record")}
    if not member.store.commit(expected, [("record", record.written(), None)], ["lead"]):
        raise Refused("who leads has changed meanwhile")
    member.leads, member.lead, member.record = None, None, record
    member.free_s, member.read_at = 0.0, now()
    accounts.disconnect_all(member.maria)
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
