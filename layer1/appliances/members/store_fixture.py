"""A store that has what is put into it, and fails as it is told. For tests."""

from keyspace import Away, Entry


class FakeStore:
    """One lease and keys; `away`: the calls that it does not answer."""

    def __init__(self):
        self.entries, self.leases, self.count, self.away, self.puts = {}, set(), 0, set(), []

    def allow(self, seconds):
        pass

    def reach(self, call):
        if call in self.away:
            raise Away(f"the store does not answer to {call}")

    def keep(self, lease):
        self.reach("keep")
        return lease in self.leases

    def grant(self, _):
        self.reach("grant")
        self.count += 1
        self.leases.add(f"L{self.count}")
        return f"L{self.count}"

    def read(self):
        self.reach("read")
        return dict(self.entries)

    def put(self, key, value, lease):
        self.reach("put")
        self.puts.append(key)
        self.set(key, value, lease)

    def set(self, key, value, lease=None):
        self.count += 1
        self.entries[key] = Entry(value, self.count, lease)

    def commit(self, expected, puts, deletes=()):
        self.reach("commit")
        if any((self.entries[key].revision if key in self.entries else None) != at for key, at in expected.items()):
            return False
        for one in puts:
            self.set(*one)
        for key in deletes:
            self.entries.pop(key, None)
        return True

    def end(self, lease):
        self.leases.discard(lease)
        self.entries = {key: entry for key, entry in self.entries.items() if entry.lease != lease}
