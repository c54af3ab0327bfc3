"""How far a member's data is: in memory, on its disk, and as it tells the others."""

import valkey
from clock import now
from decision import LOOP_S, Position, lacks
from peers import tell

# A copy that lacks what was written so long ago takes over only when somebody says so.
BEHIND_S = 3


def is_linked(member):
    """Its Valkey follows that of the member that leads, as that one is now, and has all that it sent."""
    leader = None if member.lead is None else member.peers.named(member.lead.name)
    return (
        leader is not None
        and member.info.get("master_link_status") == "up"
        and member.info.get("master_host") == member.lead.address
        and member.info.get("master_replid") == leader.said["replid"]
        and leader.position.term == member.lead.term
    )


def measure(member):
    """How far its data is, and what of that is on its disk."""
    if not member.is_ready():
        member.is_kept = member.is_kept and member.info == {}
        return
    if member.leads is not None and member.guard.is_open and not member.is_replacing:
        member.position = Position(member.leads, int(member.info["master_repl_offset"]))
        count_written(member)
    elif member.leads is None and is_linked(member):
        member.position = Position(member.lead.term, int(member.info["slave_repl_offset"]))
        member.data, member.is_cold = member.record.data, False
    else:
        member.is_kept = False
        return
    rewrites = (member.info["aof_rewrite_in_progress"], member.info["aof_rewrite_scheduled"])
    is_whole = member.info["aof_enabled"] == "1" and rewrites == ("0", "0") and member.info["aof_last_bgrewrite_status"] == "ok"
    member.is_kept = member.is_kept or is_whole
    member.noted.note(member.data, member.position, now(), is_whole)


def count_written(member):
    passed = now() - member.measured_at
    member.written_s += min(passed, LOOP_S) if member.has_stalled else passed
    member.measured_at, member.has_stalled = now(), False
    member.own_offsets.append((member.written_s, member.position.offset))


def publish(member):
    own = {
        "address": member.address,
        "term": member.position.term,
        "offset": member.position.offset,
        "data": member.data,
        "isReady": member.is_ready(),
        "isCold": member.is_cold,
        "isKept": member.is_kept,
        "replid": member.replid,
        "state": member.state,
    }
    tell(member, own)


def close_copies(member):
    """Those that have, in memory and on the disk, what was written some seconds ago. One that is gone lacks the last PING, too."""
    acknowledged = valkey.copies_of(member.info)
    return frozenset(
        peer.name
        for peer in member.peers.all()
        if peer.address in acknowledged
        and peer.position.term == member.leads
        and peer.said["isKept"]
        and not lacks(member.own_offsets, member.written_s, acknowledged[peer.address][0], BEHIND_S)
    )
