"""What the member does that leads: takes the lead, counts its copies, and goes on without the store while these wait."""

import secrets

from clock import now
from decision import LEASE_S, MARGIN_S, PROMISE_S, Lead, Record
from peers import ask_copies


def take(member, record):
    with member.taking:
        if now() < member.promised_until:
            # It was given while this was decided.
            return
        asked_at = now()
        if not member.store.keep(member.lease):
            return
        expected = {key: member.revision(key) for key in ("lead", "record")}
        lead = {"name": member.name, "address": member.address, "term": record.term}
        member.may_have_taken = True
        has_taken = member.store.commit(expected, [("lead", lead, member.lease), ("record", record.written(), None)])
        member.may_have_taken = False
        if not has_taken:
            return
        member.record, member.leads, member.is_told = record, record.term, False
        member.lead, member.lead_lease = lead_of(lead, is_mine=True), member.lease
        member.data, member.is_cold, member.possible_copies = record.data, False, frozenset()
        member.begin_term()
        member.guard.extend(asked_at + LEASE_S - MARGIN_S)
    member.prepare()
    # A restore goes on in the term that is now: what it reads is not to be broken off.
    if not member.is_replacing and member.open():
        member.tell(f"it leads, in term {record.term}")
        member.state = "running"
    member.wake.set()


def renewed(member):
    """The record of the next term, which is this member's; of a database that there was none of, of the first."""
    before = member.record or Record(member.data or secrets.token_hex(8), 0, member.name)
    term = max(member.position.term, before.term) + 1
    return Record(data=before.data, term=term, leader=member.name)


def serve(member):
    if member.leads != member.lead.term:
        # It was taken by a request that got no answer.
        member.leads, member.is_told = member.lead.term, False
        member.data, member.is_cold, member.possible_copies = member.record.data, False, frozenset()
        member.begin_term()
        member.guard.extend(now() + 1)
    if member.is_replacing:
        member.state = "restoring"
        return
    if not member.guard.is_open and not member.open():
        return
    member.state = "running"
    member.count_copies()


def note_copies(member, copies):
    """Who may take over: written down before anything else relies on it."""
    if copies == member.record.copies and member.possible_copies <= copies:
        return
    record = Record(member.record.data, member.leads, member.name, copies)
    expected = {key: member.revision(key) for key in ("lead", "record")}
    member.possible_copies |= member.record.copies | copies
    member.possible_at = expected["record"]
    if member.store.commit(expected, [("record", record.written(), None)]):
        member.record, member.possible_copies = record, copies
        # Its revision is another.
        member.entries = member.store.read()


def stay(member, why):
    """The store is away: who leads goes on if all copies that may take over are close behind, and wait."""
    member.tell(str(why))
    member.measure()
    if member.leads is None:
        return
    asked_at = now()
    heirs = member.possible_copies | member.record.copies
    if not heirs <= member.close_copies():
        return
    copies = [peer for peer in member.peers.all() if peer.name in heirs]
    if not ask_copies(copies, member.name, member.leads, member.password["members"]):
        return
    member.guard.extend(asked_at + PROMISE_S - 1)
    if not member.guard.is_open and not member.is_replacing:
        member.open()


def lead_of(said, is_mine):
    return Lead(said["name"], said["address"], said["term"], is_mine)
