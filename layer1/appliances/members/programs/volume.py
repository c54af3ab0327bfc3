"""What a member keeps on its volume beside the data: what it is called."""

import os
import secrets
from pathlib import Path

FOLDER = Path("/data")


def member_name(folder=FOLDER):
    """The name goes with the data: a member that finds its volume again is who it was, whatever its job is called by now."""
    file = folder / "member"
    if not file.exists():
        write(file, f"m{secrets.token_hex(4)}")
    return file.read_text()


def write(file, text):
    beside = file.with_suffix(".new")
    with open(beside, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    os.rename(beside, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
