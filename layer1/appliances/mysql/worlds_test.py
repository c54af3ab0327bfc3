"""Three members whose hosts stop and are cut off at random, with the copy that counts: who leads has all that was acknowledged."""

import unittest
from types import SimpleNamespace
from unittest import mock

import decision_test
from copies import Copies
from decision import Position, Record


class Leading:
    """What Copies asks of the member that leads, of one node of a world."""

    def __init__(self, world, node):
        self.world, self.node, self.name, self.leads = world, node, node.name, node.leads
        self.maria, self.store, self.peers = self, self, self
        self.possible_copies, self.possible_at, self.entries = frozenset(), None, {}

    @property
    def record(self):
        return self.node.record

    @record.setter
    def record(self, record):
        self.node.record = record

    @property
    def info(self):
        acking = [one for one in self.world.copies_of(self.node) if one.acks == self.name]
        waiting = int(self.node.waits and self.node.waiting != [])
        counts = {"clients": len(acking), "wait_sessions": waiting, "yes_tx": self.node.yes, "status": "ON"}
        return {"applied": self.node.position, "counts": counts}

    def rows(self, text):
        self.node.waits = text.endswith("=1")
        if not self.node.waits:
            self.world.answer(self.node)

    def revision(self, _):
        return None

    def commit(self, _, puts):
        self.world.record = Record.read(puts[0][1])
        return True

    def read(self):
        return {}

    def tell(self, _):
        pass

    def named(self, name):
        return next((peer for peer in self.all() if peer.name == name), None)

    def all(self):
        away = self.world.store_cut | self.world.cut
        there = [one for one in self.world.nodes if one.name in self.world.up - away]
        return [SimpleNamespace(name=one.name, position=one.position, **self.said(one)) for one in there]

    def said(self, one):
        return {"state": "streaming" if one.linked == one.position.term else "syncing", "said": {"acks": one.acks}}


class World(decision_test.World):
    def __init__(self, seed):
        super().__init__(seed)
        self.acknowledged = set()
        for node in self.nodes:
            node.log = []
            self.forget(node)

    def forget(self, node):
        node.linked = node.acks = node.leading = None
        node.waits, node.waiting, node.yes = False, [], 0

    def step(self):
        super().step()
        for node in self.nodes:
            if node.name not in self.up or (node.leads is None and node.leading is not None):
                self.forget(node)

    def copies_of(self, node):
        return [one for one in self.nodes if one is not node and one.linked == node.leads and self.reaches(one, node)]

    def take(self, node):
        before = node.leads
        super().take(node)
        if node.leads in (None, before):
            return
        self.forget(node)
        node.log = [*node.log, (node.leads, 0)]
        node.position = Position(node.leads, len(node.log))
        node.leading = Copies(Leading(self, node))
        missing = self.acknowledged - set(node.log)
        assert not missing, f"{node.name} leads without {len(missing)} at {self.now}"

    def replicate(self, node):
        leader = next((one for one in self.nodes if one.leads == self.lead.term), None)
        if leader is None or leader is node or not self.reaches(node, leader):
            return
        chosen = leader.leading.chosen if leader.leading is not None else None
        self.fetch(node, leader)
        node.data, node.is_cold = "d", False
        node.linked, node.acks = leader.leads, leader.name if chosen == node.name else None

    def count_copies(self, node):
        answers = {"look": lambda member: member.info, "flows": lambda *_: True, "counts_of": lambda *_: {}}
        with mock.patch("copies.now", lambda: self.now), mock.patch.multiple("copies.maria", **answers):
            node.leading.count()

    def stay(self, node):
        if node.leads is None:
            return
        with mock.patch("copies.now", lambda: self.now):
            if not node.record.copies | node.leading.member.possible_copies <= node.leading.close():
                return
        super().stay(node)

    def answer(self, node):
        self.acknowledged |= set(node.waiting)
        node.yes += len(node.waiting)
        node.waiting = []

    def write(self):
        for node in self.open_nodes():
            if not node.waiting:
                commit = (node.leads, len(node.log))
                node.log, node.waiting = [*node.log, commit], [commit]
                node.position = Position(node.leads, len(node.log))
            for copy in self.copies_of(node):
                self.fetch(copy, node)
            acking = [one for one in self.copies_of(node) if one.acks == node.name]
            if not node.waits or any(node.waiting[0] in one.log for one in acking):
                self.answer(node)

    def fetch(self, copy, leader):
        """A few more, behind what both have. What only the copy has nobody was told of."""
        both = 0
        while both < min(len(copy.log), len(leader.log)) and copy.log[both] == leader.log[both]:
            both += 1
        copy.log = leader.log[: both + self.random.randint(0, 3)]
        copy.position = Position(copy.log[-1][0], len(copy.log)) if copy.log else Position()


class Worlds(unittest.TestCase):
    def test_whoever_leads_has_all_that_was_acknowledged(self):
        written, terms = 0, 0
        for seed in range(40):
            world = World(seed)
            for _ in range(600):
                world.step()
                self.assertLessEqual(len(world.open_nodes()), 1, f"seed {seed} at {world.now}")
            written += len(world.acknowledged)
            terms += len(world.terms)
        # They would be safe, too, if nobody ever led.
        self.assertGreater(written, 40 * 600 * 0.3)
        self.assertGreater(terms, 40 * 3)


if __name__ == "__main__":
    unittest.main()
