import os
import signal
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import greeting


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{greeting.hello()} from Python {sys.version_info.major}.{sys.version_info.minor}, SQLite {sqlite3.sqlite_version}\n"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
