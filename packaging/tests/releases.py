"""A server of releases for install.sh, well-behaved or not: `releases.py FOLDER` prints its port.

FOLDER/vVERSION/FILE is what it serves. Below `/cut/` a connection ends in the middle of an archive, below `/slow/` an
archive never goes on after its first bytes.
"""

import functools
import http.server
import shutil
import sys
import time


class Releases(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and two ways not to get them."""

    manner = ""

    def do_GET(self) -> None:
        """Answers a request in the manner that its path begins with."""
        for manner in ("cut", "slow"):
            if self.path.startswith(f"/{manner}/"):
                self.manner, self.path = manner, self.path[len(manner) + 1 :]
        self.close_connection = True
        super().do_GET()

    def copyfile(self, source, outputfile) -> None:
        """Sends the body."""
        if self.manner and self.path.endswith(".gz"):
            outputfile.write(source.read(100_000))
            outputfile.flush()
            time.sleep(20 if self.manner == "slow" else 0)
        else:
            shutil.copyfileobj(source, outputfile)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


server = http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0), functools.partial(Releases, directory=sys.argv[1])
)
print(server.server_port, flush=True)
server.serve_forever()
