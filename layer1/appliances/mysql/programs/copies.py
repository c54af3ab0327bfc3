"""
Which copy counts: has all that is acknowledged, and may take over. One at a time, so that each commit waits for that very one.

A copy that is well is chosen, and told so. Once it acknowledges, commits wait for it; once it has received all that was committed
before, it is written down. One that is gone is written off first, and only then nobody waits for it any more.
"""

import leadership
import maria
from clock import now

# One that follows no more, or acknowledges nothing that is waited for, is given so long: it may have begun anew.
PATIENCE_S = 8
# One that said it would acknowledge, and did not, is not chosen again for so long; then for twice as long, up to the latter.
REST_S, LONGEST_REST_S = 60, 3600


class Copies:
    def __init__(self, member):
        self.member = member
        # Of such a one, until when, and how long it was.
        self.rests = {}
        self.begin()

    def begin(self):
        """A term: nobody counts, and nobody is waited for."""
        self.chosen = self.mark = None
        self.waits = False
        self.well_at, self.stuck_since, self.acknowledged = float("-inf"), None, None
        self.committed = self.acknowledged_before = None

    def close(self):
        """Those that have all that is acknowledged, as far as it is known now."""
        name = self.chosen
        return frozenset({name}) if name is not None and self.mark is not None and self.is_well(name) else frozenset()

    def is_well(self, name):
        member = self.member
        peer, counts = member.peers.named(name), member.info.get("counts")
        if peer is None or not counts or self.is_stuck(counts):
            return False
        is_acking = peer.said.get("acks") == member.name and peer.position.term == member.leads
        # Where two acknowledge, this one may lack what the other has: one that cannot read any more that another was chosen.
        return is_acking and int(counts["clients"]) == 1 and not self.is_off()

    def is_off(self):
        """MariaDB has given up waiting by itself, for want of memory say: what is acknowledged is here alone."""
        return self.waits and self.member.info["counts"]["status"] == "OFF"

    def is_stuck(self, counts):
        """Something waits, and nothing has been acknowledged for a while."""
        if int(counts["wait_sessions"]) == 0 or counts["yes_tx"] != self.acknowledged:
            self.acknowledged, self.stuck_since = counts["yes_tx"], now()
        return now() - self.stuck_since > PATIENCE_S

    def count(self):
        member = self.member
        if not member.info:
            return
        if self.chosen is None:
            # Of a term that it took without knowing it.
            self.chosen = next(iter(sorted(member.record.copies)), None) or self.candidate()
            self.well_at = now()
        elif self.is_well(self.chosen):
            self.well_at = now()
            self.go_on()
        elif member.peers.named(self.chosen) is None or self.is_off() or now() - self.well_at > PATIENCE_S:
            self.drop()

    def candidate(self):
        member = self.member
        fit = [
            peer.name
            for peer in member.peers.all()
            if peer.name != member.name and peer.state == "streaming" and peer.position.term == member.leads
            and now() >= self.rests.get(peer.name, (0, 0))[0]
        ]
        return min(fit, default=None)

    def go_on(self):
        member = self.member
        if not self.waits:
            member.maria.rows("SET GLOBAL rpl_semi_sync_master_enabled=1")
            self.waits = True
            # What is committed from here on waits for it; what was is up to there.
            self.mark = None
            self.committed, self.acknowledged_before = None, member.info["counts"]["yes_tx"]
            return
        if self.committed is None:
            if not maria.flows(member.maria, maria.counts_of(member.maria, 2), 2):
                return
            self.committed = maria.look(member.maria)["applied"]
        if member.info["counts"]["yes_tx"] != self.acknowledged_before:
            self.rests.pop(self.chosen, None)
        peer = member.peers.named(self.chosen)
        if self.mark is None and peer.position.order() >= self.committed.order():
            self.mark = self.committed
        if self.mark is not None:
            leadership.note_copies(member, frozenset({self.chosen}))

    def drop(self):
        member = self.member
        leadership.note_copies(member, frozenset())
        # What may be written down as one that counts is waited for.
        if member.record.copies or member.possible_copies:
            return
        member.maria.rows("SET GLOBAL rpl_semi_sync_master_enabled=0")
        peer, rest_s = member.peers.named(self.chosen), 0
        if peer is not None and peer.said.get("acks") == member.name:
            rest_s = self.rest(self.chosen)
        more = f", nor will for {rest_s} s: it acknowledges nothing, though it says that it would" if rest_s else ""
        member.tell(f"{self.chosen} does not have what is written any more: nobody waits for it{more}")
        self.begin()

    def rest(self, name):
        _, before = self.rests.get(name, (0, REST_S / 2))
        rest_s = int(min(LONGEST_REST_S, 2 * before))
        self.rests[name] = (now() + rest_s, rest_s)
        return rest_s
