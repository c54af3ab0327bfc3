"""What a member keeps on its volume beside the data: how far that is."""

import json
import threading

from decision import Position
from peers import TOLD_S, UNTOLD_BYTES
from volume import FOLDER, write

# What is written gets to the disk within a second; it is told to be there once it surely is.
SETTLE_S = 3


class Noted:
    """
    The position of what is on the disk: never further than that is. Written in a thread of its own, since a disk may take long, and
    whoever looks after the lead has no time for that; what is late says less than there is.
    """

    def __init__(self, folder=FOLDER):
        self.file = folder / "position"
        self.data, self.position = None, Position()
        try:
            said = json.loads(self.file.read_text())
            self.data, self.position = said["data"], Position(said["term"], said["offset"])
        except (FileNotFoundError, ValueError, KeyError):
            # Who knows nothing of its data leads only if it led last, and else is copied anew.
            pass
        self.waiting = []
        # What is to be written, the newest alone; and what was last, and when.
        self.due, self.is_due = None, threading.Event()
        self.last, self.last_at, self.told = (self.data, self.position), float("-inf"), ""

    def note(self, data, position, now_s, is_whole):
        """`is_whole`: no file is being written anew. While one is, the disk may have what there was before a copy."""
        if not is_whole:
            self.waiting = []
            return
        self.waiting.append((now_s, data, position))
        settled = [one for one in self.waiting if one[0] <= now_s - SETTLE_S]
        if settled:
            _, data, position = settled[-1]
            self.waiting = self.waiting[len(settled) :]
            if self.is_news(data, position, now_s):
                self.last, self.last_at = (data, position), now_s
                self.due = self.last
                self.is_due.set()

    def is_news(self, data, position, now_s):
        last_data, last = self.last
        if (data, position) == self.last:
            return False
        has_moved = abs(position.offset - last.offset) >= UNTOLD_BYTES or now_s - self.last_at >= TOLD_S
        return has_moved or (data, position.term) != (last_data, last.term)

    def watch(self):
        while True:
            self.is_due.wait()
            self.write_due()

    def write_due(self):
        self.is_due.clear()
        if self.due in (None, (self.data, self.position)):
            return
        data, position = self.due
        try:
            write(self.file, json.dumps({"data": data, "term": position.term, "offset": position.offset}))
        except OSError as error:
            # What was noted before is true all the same.
            problem = f"how far its data is cannot be noted on the disk: {error}"
            if problem != self.told:
                print(problem, flush=True)
            self.told = problem
            return
        self.data, self.position, self.told = data, position, ""
