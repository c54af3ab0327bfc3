"""
What a copy had received and not done when it ended. Who leads has told apps that a copy has it, and may be gone for good; MariaDB
throws it away as it goes on from who leads. So it is done before anything else, as the files have it that it was received into.
"""

import os
import re
import subprocess
from pathlib import Path

from maria import position_of
from server import DATA

INDEX = DATA / "relay.index"
AT = re.compile(rb"# at (\d+)$")
GTID = re.compile(rb"#.*\tGTID (\d+-\d+-\d+)\b")


def begin(local, applied):
    """Has MariaDB do it; whether there is any."""
    place = first_beyond(applied)
    if place is None:
        return False
    file, at = place
    print(f"it does what it had received before it was started: from {file}, {at}", flush=True)
    # Its place among these files is kept only where it is told one, and where it counts by them.
    local.rows("CHANGE MASTER TO MASTER_USE_GTID=no, RELAY_LOG_FILE=%s, RELAY_LOG_POS=%s", file, at, timeout=10)
    local.rows("START SLAVE SQL_THREAD", timeout=10)
    return True


def is_done(local, following):
    """What cannot be done was never received whole: it ends there."""
    is_through = following["Slave_SQL_Running_State"].startswith("Slave has read all relay log")
    if following["Slave_SQL_Running"] == "Yes" and not is_through:
        return False
    if following["Slave_SQL_Running"] == "No":
        print(f"what it had received ends with: {following['Last_SQL_Error'][:200]}", flush=True)
    local.rows("STOP SLAVE", timeout=10)
    return True


def first_beyond(applied):
    """The file, and the place in it, where the first transaction begins that is further than that."""
    for file in files():
        asking = ["mariadb-binlog", "--no-defaults", "--base64-output=decode-rows", "--force-read", str(file)]
        with subprocess.Popen(asking, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as said:
            try:
                at = place_beyond(said.stdout, applied)
            finally:
                said.kill()
        if at is not None:
            return file.name, at
    return None


def files():
    if not INDEX.exists():
        return []
    found = [DATA / Path(line).name for line in INDEX.read_text().split()]
    return [file for file in found if os.path.exists(file)]


def place_beyond(lines, applied):
    at = None
    for line in lines:
        if matched := AT.match(line.rstrip()):
            at = int(matched[1])
        elif (matched := GTID.match(line)) and position_of(matched[1].decode()).order() > applied.order():
            return at
    return None
