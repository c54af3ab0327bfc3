"""How the members of a datastore are, and giving the lead to another: asked of the members, in the container of any of them."""

import json
import sys
import time

import peers

ASK_S = 5
SWITCHOVER_S = 22


def known():
    return peers.ask("127.0.0.1", "/cluster", None, "", ASK_S, "GET")["members"]


def primary_of(members):
    return next((member for member in members if member["isPrimary"]), None)


def status(database, errors):
    """`database`: what the primary at an address says of what is in it."""
    members, found, problem = known(), None, None
    primary = primary_of(members)
    try:
        if primary is None:
            problem = "no member leads"
        else:
            found = database(primary["address"])
    except errors as error:
        problem = str(error)
    for member in members:
        del member["rank"]
    return {"members": members, "database": found, "problem": problem}


def switchover(address, password):
    until = time.monotonic() + SWITCHOVER_S
    members = known()
    former = primary_of(members)
    if former is not None:
        body = {} if address is None else {"to": address}
        peers.ask(former["address"], "/switchover", body, password, SWITCHOVER_S)
    else:
        fit = [member for member in members if address in (None, member["address"])]
        if not fit:
            raise peers.Unwilling("no member is there" if address is None else f"no member is at {address}")
        # Nobody leads: then it has to be said who is to.
        peers.ask(max(fit, key=lambda one: one["rank"])["address"], "/lead", {}, password, ASK_S)
    while time.monotonic() < until:
        now = primary_of(known())
        if now is not None and (former is None or now["name"] != former["name"]) and now["state"] == "running":
            return {"from": None if former is None else former["address"], "to": now["address"]}
        time.sleep(0.3)
    raise peers.Unwilling(f"no other member is the primary after {SWITCHOVER_S} s; it may go on by itself")


def run(words, *, database, errors, password):
    """What goes wrong is one line on standard error, and an exit code that is not 0."""
    try:
        if words == ["status"]:
            said = status(database, errors)
        elif words[:1] == ["switchover"] and len(words) <= 2:
            said = switchover(words[1] if len(words) == 2 else None, password)
        else:
            raise peers.Unwilling("status, or switchover [ADDRESS]")
        print(json.dumps(said))
    except (peers.Unwilling, *errors) as refused:
        sys.exit(str(refused))
