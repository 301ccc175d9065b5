"""nginx.conf with a real nginx in front of two real replicas: `proxy.py BLOOMERY_SERVE NGINX FOLDER`.

Streams begin before they end, both replicas work, a client that leaves ends its generation, and requests are answered
while a replica is full, or gone.
"""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

SERVE, NGINX, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
CONF = Path(__file__).parent.parent / "compose/nginx.conf"
STORY = {"prompt": "Once upon a time", "n_predict": 48, "seed": 1}
# More than sockets hold: as long as nobody reads it, it does not end.
ENDLESS = STORY | {"n_predict": 4096, "ignore_eos": True, "stream": True, "n_probs": 2000}
running: list[subprocess.Popen] = []


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what: str, seconds: float, condition) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def post(port: int, body: dict, timeout: float = 60) -> http.client.HTTPResponse:
    """A completion, not read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", "/completion", json.dumps(body))
    return connection.getresponse()


def answered(port: int) -> bool:
    """Whether a request gets a story."""
    response = post(port, STORY)
    body = response.read().decode()
    if response.status == 200 and len(json.loads(body)["content"].split()) > 10:
        return True
    print(f"{response.status}: {body}", file=sys.stderr)
    return False


class Replica:
    """A server with the model inside the program, for one request at a time and one that waits."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        log = (FOLDER / f"replica-{self.port}.log").open("a")
        flags = ["--port", str(self.port), "-np", "1", "-c", "8192", "--queue-depth", "1", "--metrics", "-t", "1"]
        self.process = subprocess.Popen([SERVE, *flags], env={}, stdout=log, stderr=log)
        running.append(self.process)
        until("a replica is ready", 30, lambda: self.get("/health") is not None)

    def get(self, path: str) -> str | None:
        """A page, if it is to be had."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
                return reply.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return None

    def busy(self) -> bool:
        """Whether its slot works."""
        return json.loads(self.get("/slots") or "[]")[0]["is_processing"]

    def metric(self, name: str) -> int:
        """One of its numbers."""
        found = re.search(rf"^llamacpp:{name} (\d+)", self.get("/metrics") or "", re.MULTILINE)
        assert found, f"there is no {name}"
        return int(found[1])

    def jobs(self) -> int:
        """Requests so far."""
        return self.metric("jobs_total")

    def fill(self) -> list[http.client.HTTPConnection]:
        """Requests that take its slot and its place to wait, until they are closed."""
        connections = []
        for name in ("requests_processing", "requests_deferred"):
            connections.append(http.client.HTTPConnection("127.0.0.1", self.port))
            connections[-1].request("POST", "/completion", json.dumps(ENDLESS))
            until(name, 5, lambda: self.metric(name) == 1)
        return connections

    def stop(self) -> None:
        """Ends it in order."""
        self.process.terminate()
        assert self.process.wait(10) == 0


def idle(replicas: list[Replica]) -> None:
    """Waits until no slot works."""
    until("all slots are free", 5, lambda: not any(replica.busy() for replica in replicas))


def start_nginx(port: int, replicas: list[int]) -> None:
    """The configuration as it is, but for addresses and places of files."""
    text = CONF.read_text()
    for index, replica in enumerate(replicas):
        text, count = re.subn(rf"bloomery-{index}:8080", f"127.0.0.1:{replica}", text)
        assert count == 1
    text, count = re.subn(r"listen 8080;", f"listen 127.0.0.1:{port};", text)
    assert count == 1
    kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    places = "".join(f"{kind}_temp_path {FOLDER}/{kind};" for kind in kinds)
    text = text.replace("http {", f"http {{ {places}", 1)
    conf = FOLDER / f"nginx-{port}.conf"
    conf.write_text(f"daemon off; pid {FOLDER}/nginx-{port}.pid; error_log {FOLDER}/error.log;\n{text}")
    command = [NGINX, "-e", f"{FOLDER}/error.log", "-p", str(FOLDER), "-c", str(conf)]
    subprocess.run([*command, "-t", "-q"], check=True)
    running.append(subprocess.Popen(command))
    until("nginx listens", 10, lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)


def streams(port: int, replicas: list[Replica]) -> None:
    """The first events are there while the generation still runs, and all of them come."""
    response = post(port, ENDLESS)
    response.readline()
    assert any(replica.busy() for replica in replicas)
    response.close()
    response = post(port, STORY | {"n_predict": 128, "ignore_eos": True, "stream": True})
    assert response.getheader("Content-Type", "").startswith("text/event-stream")
    events = [json.loads(line[5:]) for line in response if line.startswith(b"data:")]
    assert len(events) > 64 and events[-1]["stop"], events[-1]


def both_work(port: int, replicas: list[Replica]) -> None:
    """Two at a time."""
    before = [replica.jobs() for replica in replicas]
    results: list[bool] = []
    for _ in range(4):
        threads = [threading.Thread(target=lambda: results.append(answered(port))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 8, results
    after = [replica.jobs() for replica in replicas]
    assert all(new > old for old, new in zip(before, after)), (before, after)


def leaving_ends_it(port: int, replicas: list[Replica]) -> None:
    """A client that closes its connection in the middle of a stream."""
    response = post(port, ENDLESS)
    response.readline()
    assert any(replica.busy() for replica in replicas)
    response.close()
    idle(replicas)


def full_is_passed_over(port: int, replicas: list[Replica]) -> None:
    """A replica that others keep busy answers 503; then all are full, and that is what clients see."""
    held = replicas[0].fill()
    assert post(replicas[0].port, STORY).status == 503
    assert all(answered(port) for _ in range(6))
    held += replicas[1].fill()
    refused = post(port, STORY)
    assert (refused.status, refused.getheader("Retry-After")) == (503, "1"), refused.status
    for connection in held:
        connection.close()
    idle(replicas)


def gone_is_passed_over(port: int, replicas: list[Replica]) -> None:
    """One replica stops and comes back; then none is there."""
    replicas[0].stop()
    assert all(answered(port) for _ in range(6))
    replicas[0].start()
    before = replicas[0].jobs()
    assert all(answered(port) for _ in range(6))
    assert replicas[0].jobs() > before, "nothing goes to the replica that came back"
    for replica in replicas:
        replica.stop()
    assert post(port, STORY).status == 502


def main() -> None:
    """All cases, on one nginx."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    replicas = [Replica(), Replica()]
    port = free_port()
    start_nginx(port, [replica.port for replica in replicas])
    streams(port, replicas)
    both_work(port, replicas)
    leaving_ends_it(port, replicas)
    full_is_passed_over(port, replicas)
    gone_is_passed_over(port, replicas)


try:
    main()
finally:
    for process in running:
        process.terminate()
