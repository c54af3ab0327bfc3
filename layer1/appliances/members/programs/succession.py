"""Giving the lead to another: to whom, and how it is let go of. What is between, that one's catching up, is its kind's own."""

import contextlib

from clock import now
from decision import LEASE_S, MARGIN_S, Record
from keyspace import Refused
from peers import Unwilling, ask


def candidate_of(member, address):
    """The member at that address, else the copy that has most."""
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


def keep_lead(member):
    """For as long as a lead lasts from now on: the copy has to have all before it is over."""
    asked_at = now()
    if member.lease != member.lead_lease or not member.store.keep(member.lease):
        raise Refused("its lead has just ended")
    member.guard.extend(asked_at + LEASE_S - MARGIN_S)


def let_go(member, candidate):
    """Of the lead, of which that one is the next. Nothing is written any more by then."""
    record = Record(member.record.data, member.leads, member.name, frozenset({candidate.name}), candidate.name)
    expected = {key: member.revision(key) for key in ("lead", "record")}
    if not member.store.commit(expected, [("record", record.written(), None)], ["lead"]):
        raise Refused("who leads has changed meanwhile")
    member.leads, member.lead, member.record = None, None, record
    member.free_s, member.read_at = 0.0, now()


def wake(member, candidate):
    """It looks at the keyspace every two seconds by itself."""
    with contextlib.suppress(Unwilling):
        ask(candidate.address, "/wake", {}, member.password["members"], 1)
