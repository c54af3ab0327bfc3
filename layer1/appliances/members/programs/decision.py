"""What is a member to do? Pure: what it sees goes in, one action comes out.

In the keyspace there are the lead, a key that ends by itself unless its holder renews it; the record, which stays: whose the
data is, the term, who led in it and which copies were close behind; and one key for each member that is there.

Invariants
 1. Nobody serves writes but who has the lead, or, while the store is away, who has the promise of every copy that may take over.
 2. The lead is taken only when it is free, and with it comes a higher term: in one transaction, which of several succeeds once.
 3. By itself only that one leads again who may have the newest data: who led last, or a copy of its present term.
    Of several that are there the furthest along does, however long that takes. Those that are not there are waited for a while
    by one that has its data from its disk, or could not see for long who leads: theirs may be newer.
 4. Who handed over named the next one: the others wait for as long as a lead lasts.
 5. Who has promised to wait does so, for longer than a lead lasts.
 6. Data of one database is never replaced by that of another.
"""

from dataclasses import dataclass

# A lead that is not renewed for so long is another's.
LEASE_S = 8
# Its holder stops so much before: clocks differ, and stopping takes its time.
MARGIN_S = 1.5
# It is renewed as often.
LOOP_S = 2
# A store that says nothing for so long is away. Then the copies are asked, for ASK_S more: all of it is over before the lead is.
STORE_S = 3
ASK_S = 1
# For so long a copy that was asked does not take over, and for a second less its primary relies on it.
PROMISE_S = 10
# A member that may have newer data is waited for, where nobody leads and the store answers; longer if it is there, and reads it.
PATIENCE_S = 60
LOADING_S = 600


@dataclass(frozen=True)
class Position:
    """How far data is. A term begins with each primary, and each time that one begins anew; within it there is what grows."""

    term: int = 0
    offset: int = 0

    def order(self):
        return (self.term, self.offset)


@dataclass(frozen=True)
class Lead:
    name: str
    address: str
    term: int
    # By this very process.
    is_mine: bool = False


@dataclass(frozen=True)
class Record:
    # Whose data it is: as random as a name.
    data: str
    term: int
    leader: str
    # Those that lacked a few seconds at most when the leader last looked.
    copies: frozenset = frozenset()
    # Whom the leader handed over to.
    next: str | None = None

    def written(self):
        return {**self.__dict__, "copies": sorted(self.copies)}

    @staticmethod
    def read(said):
        """What a later version has beside it is none of this one's."""
        copies = frozenset(said["copies"])
        return Record(said["data"], said["term"], said["leader"], copies, said.get("next"))


@dataclass(frozen=True)
class Member:
    name: str
    position: Position = Position()
    # It answers, and has read all that it has.
    is_ready: bool = True
    # None of one that never had any.
    data: str | None = None
    # What it has it read from its disk, and has neither led nor followed since.
    is_cold: bool = False


@dataclass(frozen=True)
class Seen:
    me: Member
    lead: Lead | None = None
    record: Record | None = None
    # The others that are there.
    others: tuple = ()
    # The store was away, for longer than a lead lasts, before nobody led.
    is_late: bool = False
    # So long it has seen that nobody leads. What passes while the store is away is no part of it.
    free_s: float = 0
    has_promised: bool = False
    # Somebody says that it is to lead, whatever it lacks.
    is_told: bool = False


@dataclass(frozen=True)
class Serve:
    """It leads: it takes writes."""


@dataclass(frozen=True)
class Take:
    """The lead, if it is still as it was seen."""


@dataclass(frozen=True)
class Begin:
    """A database that there was none of."""


@dataclass(frozen=True)
class Follow:
    lead: Lead


@dataclass(frozen=True)
class Wait:
    """As it is, without writes; `why` is for people."""

    why: str


def decide(seen):
    me, record, lead = seen.me, seen.record, seen.lead
    if record is None:
        return begin(seen) if lead is None else Wait("the keyspace has a primary and no record of it")
    if me.data is not None and me.data != record.data:
        return Wait("its volume has the data of another database: remove the volume, and it is copied anew")
    if lead is not None and lead.is_mine:
        return Serve()
    if lead is not None and lead.name != me.name:
        return Follow(lead)
    if not me.is_ready:
        return Wait("it reads its data")
    # Its own, of before it was started anew.
    if lead is not None:
        return Take()
    if seen.has_promised:
        return Wait("it has promised a primary without the store to wait")
    if seen.is_told and has_some(me, record):
        return Take()
    return succeed(seen)


def begin(seen):
    me = seen.me
    if not me.is_ready:
        return Wait("it reads its data")
    ahead = [other for other in seen.others if other.position.order() > me.position.order()]
    if ahead:
        return Wait(f"{ahead[0].name} has newer data")
    # With data, and without a record of it, somebody who has newer data may be on the way.
    if me.data is not None and seen.free_s < PATIENCE_S:
        return Wait("there is no record of who led: others may have newer data")
    return Begin()


def succeed(seen):
    me, record = seen.me, seen.record
    if record.next == me.name:
        return Take()
    if record.next is not None and seen.free_s < LEASE_S:
        return Wait(f"{record.next} is to take over")
    if not may_lead(me, record):
        return Wait("it may lack what was written last: a failover makes it the primary all the same")
    heirs = [other for other in seen.others if may_lead(other, record)]
    for other in heirs:
        if rank(other, record) > rank(me, record) and (other.is_ready or seen.free_s < loading_s(seen, other)):
            return Wait(f"{other.name} is further along")
    # How far they are is said anew once nobody leads.
    if me.name != record.leader and seen.free_s < LOOP_S and any(not other.is_cold for other in heirs):
        return Wait("the others are to say how far they are")
    # Who led last has what any copy has.
    if me.name != record.leader and seen.free_s < patience_s(seen):
        there = {other.name for other in heirs}
        away = sorted(({record.leader} | record.copies) - there - {me.name})
        if away:
            return Wait(f"{away[0]} may have newer data")
    return Take()


def patience_s(seen):
    """One that has just followed, and whose primary is gone, waits for nobody."""
    if seen.me.is_cold:
        return PATIENCE_S
    return LEASE_S if seen.is_late else 0


def loading_s(seen, other):
    return LOADING_S if seen.me.is_cold and other.is_cold else LEASE_S


def may_lead(member, record):
    if member.data not in (None, record.data):
        return False
    return member.name == record.leader or (member.name in record.copies and member.position.term == record.term)


def has_some(member, record):
    """Of the data; who led last may not have noted yet that it has."""
    return member.data == record.data or member.name == record.leader


def rank(member, record):
    """Of what is on a disk the position is known only as it was some seconds before: there, who led last has most."""
    is_leader, position = member.name == record.leader, member.position
    if member.is_cold:
        return (position.term, False, is_leader, position.offset, member.name)
    return (position.term, True, position.offset, is_leader, member.name)


def may_promise(record, asking, term, is_leading):
    """Does a copy wait for a primary that cannot reach the store?"""
    return not is_leading and record is not None and record.leader == asking and record.term == term


def lacks(own, now_s, acknowledged, within_s):
    """Does a copy lack more than the last few seconds? `own`: moments, and the bytes that had been written by then."""
    past = [offset for at, offset in own if at <= now_s - within_s]
    return bool(past) and acknowledged < past[-1]
