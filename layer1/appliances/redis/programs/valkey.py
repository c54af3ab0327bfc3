"""Valkey's protocol, as much of it as is asked here."""

import socket

ANSWER_S = 5


class Error(Exception):
    """What it answered, or that it did not."""


class Unanswered(Error):
    pass


class Valkey:
    """One connection that is made anew when it has broken; one thread at a time. `place`: a socket's path, or (host, port)."""

    def __init__(self, place, user, password):
        self.place, self.user, self.password = place, user, password
        self.socket = self.reader = None

    def ask(self, *words, timeout=ANSWER_S):
        try:
            if self.socket is None:
                self.connect(timeout)
            self.socket.settimeout(timeout)
            self.send(words)
            return self.receive()
        except (OSError, ValueError, EOFError) as error:
            self.close()
            raise Unanswered(f"Valkey does not answer: {error or type(error).__name__}") from error

    def info(self, *sections, timeout=ANSWER_S):
        text = self.ask("INFO", *sections, timeout=timeout)
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def connect(self, timeout):
        if isinstance(self.place, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            self.socket.connect(self.place)
        else:
            self.socket = socket.create_connection(self.place, timeout=timeout)
        self.reader = self.socket.makefile("rb")
        self.send(("AUTH", self.user, self.password))
        try:
            self.receive()
        except Error as error:
            # All connections are taken.
            raise EOFError(str(error)) from error

    def close(self):
        for one in (self.reader, self.socket):
            if one is not None:
                one.close()
        self.socket = self.reader = None

    def send(self, words):
        encoded = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(parts))

    def receive(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("it has hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Error(rest.decode(errors="replace"))
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.exactly(size + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return [self.receive() for _ in range(int(rest))]
        raise ValueError(f"it says {line[:50]!r}")

    def exactly(self, size):
        found = self.reader.read(size)
        if len(found) < size:
            raise EOFError("it has hung up")
        return found


def copies_of(info):
    """Of a primary's `INFO replication`: by address, those that follow it, with the bytes that they have acknowledged."""
    found = {}
    for key, text in info.items():
        if not key.startswith("slave") or not key[5:].isdigit():
            continue
        fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if fields.get("state") != "online":
            continue
        known = found.get(fields["ip"])
        one = (int(fields["offset"]), int(fields["lag"]))
        # Somebody may be fetching a dump from the same address.
        if known is None or known < one:
            found[fields["ip"]] = one
    return found
