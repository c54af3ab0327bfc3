"""All that there is as a dump: a file on the volume, which whoever wants it reads as slowly as it likes, and writes go on."""

import shutil
import time

from clock import now
from keyspace import Refused
from server import FOLDER
from valkey import Error

FILE = FOLDER / "dump.rdb"
# Of several gigabytes, after another such file or the log of changes, which is written anew from time to time.
SAVE_S = 3600
LOOK_S = 0.1


def take(local):
    """The file, open: a later one takes its place in the folder and not under who reads."""
    until = now() + SAVE_S
    need, free = int(local.info("memory")["used_memory_dataset"]), shutil.disk_usage(FOLDER).free
    if free < need:
        raise Refused(f"a dump may take {need} bytes, and the volume has room for {free}")
    saves = begin(local, until)
    while now() < until:
        time.sleep(LOOK_S)
        info = local.info("persistence")
        if info["rdb_bgsave_in_progress"] != "0" or int(info["rdb_saves"]) <= saves:
            continue
        if info["rdb_last_bgsave_status"] != "ok":
            raise Refused("Valkey cannot save a dump: see what it says in the app's log")
        return open(FILE, "rb")
    raise Refused(f"Valkey has not saved a dump within {SAVE_S} s")


def begin(local, until):
    """One of what there is from now on; how many there were before. Where it is at something else it is done after that."""
    while now() < until:
        info = local.info("persistence")
        try:
            if info["rdb_bgsave_in_progress"] == "0":
                local.ask("BGSAVE", "SCHEDULE")
                return int(info["rdb_saves"])
        except Error as error:
            if "in progress" not in str(error):
                raise
        time.sleep(LOOK_S)
    raise Refused(f"Valkey is busy writing for {SAVE_S} s")
