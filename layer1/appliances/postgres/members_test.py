"""Who is to lead: by a Patroni that is none, of members that are at addresses of this machine."""

import contextlib
import http.server
import json
import os
import subprocess
import threading
import unittest

PROGRAM = "/usr/lib/flynn/flynn-postgres-members"


def member(number, state="streaming", timeline=3):
    return {"name": f"m{number}", "host": f"127.0.0.{number}", "role": "replica", "state": state, "timeline": timeline}


def replica(timeline, received, replayed):
    return {"timeline": timeline, "xlog": {"received_location": received, "replayed_location": replayed}}


@contextlib.contextmanager
def patroni(members, told, looked=lambda: None):
    """Each member says of itself what is in `told`; whoever is made the primary is. What is asked for is in the list."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path == "/cluster":
                looked()
            said = told.get(self.server.server_address[0]) if self.path == "/patroni" else {"members": members}
            self.answer(503 if said is None else 200, said)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, body))
            for one in members:
                if one["name"] == body.get("leader"):
                    one.update(role="replica", state="running")
                if one["name"] == body.get("candidate"):
                    one.update(role="leader", state="running")
            self.answer(200, {})

        def do_PATCH(self):
            count = json.loads(self.rfile.read(int(self.headers["content-length"])))["synchronous_node_count"]
            # One is what there is anyway.
            if count != 1:
                asked.append((self.path, count))
            self.answer(200, {})

        def answer(self, code, said):
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

    with contextlib.ExitStack() as stack:
        for host in {one["host"] for one in members} | {"127.0.0.1"}:
            server = stack.enter_context(http.server.ThreadingHTTPServer((host, 8008), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield asked


def switchover(*words):
    env = {**os.environ, "PATRONI_RESTAPI_PASSWORD": "rest"}
    return subprocess.run([PROGRAM, "switchover", *words], env=env, capture_output=True, text=True, timeout=60)


class WithoutPrimary(unittest.TestCase):
    def test_the_member_that_has_most_leads_whatever_it_is_called(self):
        cases = {
            "m3": {2: replica(3, 100, 100), 3: replica(3, 900, 100)},
            "m2": {2: replica(4, 100, 100), 3: replica(3, 900, 900)},
            # One that has just begun receives nothing yet.
            "m4": {2: replica(3, 100, 100), 3: replica(3, 200, 100), 4: replica(None, None, 300)},
        }
        for name, positions in cases.items():
            told = {f"127.0.0.{number}": said for number, said in positions.items()}
            with self.subTest(name), patroni([member(number) for number in positions], told) as asked:
                ended = switchover()
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertEqual(asked, [("/failover", {"candidate": name})])

    def test_one_that_does_not_run_is_not_asked_and_one_that_does_not_tell_is_told_of(self):
        copying = member(3, state="creating replica")
        with patroni([copying, member(2)], {"127.0.0.2": replica(3, 100, 100)}) as asked:
            self.assertEqual(switchover().returncode, 0)
            self.assertEqual(asked, [("/failover", {"candidate": "m2"})])
        with patroni([member(2), member(3)], {"127.0.0.2": replica(3, 100, 100)}) as asked:
            ended = switchover()
            self.assertEqual((ended.returncode, asked), (1, []))
            self.assertRegex(ended.stderr, r"127\.0\.0\.3 does not tell how much it has .*--to HOST")
            # Somebody may know more.
            self.assertEqual(switchover("127.0.0.2").returncode, 0)
        with patroni([copying], {}) as asked:
            ended = switchover()
            self.assertEqual((ended.returncode, asked), (1, []))
            self.assertRegex(ended.stderr, r"no member runs that could take over: 127\.0\.0\.3 \(creating replica\)")


class WithPrimary(unittest.TestCase):
    def setUp(self):
        self.leader = {**member(2, state="running"), "role": "leader"}
        self.copy = member(3)
        self.other = {**member(4), "role": "sync_standby", "lag": 0}

    def test_what_one_said_that_has_just_begun_to_follow_is_not_held_against_it(self):
        for said in ({}, {"lag": "unknown"}, {"lag": 32 << 20}):
            looks = []
            copy = {**self.copy, **said}

            def looked(looks=looks, copy=copy):
                looks.append(len(looks))
                if len(looks) == 3:
                    copy["lag"] = 0
                elif len(looks) == 4:
                    copy["role"] = "sync_standby"

            with self.subTest(said), patroni([{**self.leader}, copy, self.other], {}, looked) as asked:
                ended = switchover("127.0.0.3")
                self.assertEqual((ended.returncode, ended.stderr), (0, ""))
                self.assertEqual(asked, [("/config", 2), ("/switchover", {"leader": "m2", "candidate": "m3"})])

    def test_one_that_stays_too_far_behind_is_refused_before_any_commit_waits_for_it(self):
        self.copy["lag"] = 2 << 20
        with patroni([self.leader, self.copy, self.other], {}) as asked:
            ended = switchover("127.0.0.3")
            self.assertEqual((ended.returncode, asked), (1, []))
            self.assertRegex(ended.stderr, r"127\.0\.0\.3 has yet to catch up")

    def test_one_that_does_not_run_is_not_waited_for(self):
        self.copy["state"] = "starting"
        looks = []
        with patroni([self.leader, self.copy, self.other], {}, lambda: looks.append(len(looks))) as asked:
            ended = switchover("127.0.0.3")
            self.assertEqual((ended.returncode, asked, len(looks)), (1, [], 1))
            self.assertRegex(ended.stderr, r"127\.0\.0\.3 does not run \(starting\)")


unittest.main()
