"""What the SDK scripts share: `script.py BASE_URL API_KEY` runs all cases of a table and prints a line for each."""

from __future__ import annotations

import json
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Case = Callable[["Server"], None]


@dataclass(frozen=True)
class Server:
    """The server under test."""

    base: str
    key: str

    def get(self, path: str) -> str:
        """The body of a GET."""
        request = urllib.request.Request(self.base + path, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            return str(reply.read().decode())

    def busy(self) -> int:
        """How many slots work."""
        return sum(slot["is_processing"] for slot in json.loads(self.get("/slots")))

    def metric(self, name: str) -> float:
        """One counter of /metrics."""
        lines = self.get("/metrics").splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"llamacpp:{name} ")))

    def wait_until_idle(self, seconds: float = 2.0) -> None:
        """Fails when a slot still works after `seconds`."""
        end = time.monotonic() + seconds
        while self.busy():
            assert time.monotonic() < end, f"a slot is busy after {seconds} s"
            time.sleep(0.02)


class Table:
    """Cases by name, in order."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.cases: dict[str, Case] = {}

    def case(self, name: str) -> Callable[[Case], Case]:
        """Enters a function under a name."""

        def enter(function: Case) -> Case:
            self.cases[name] = function
            return function

        return enter

    def main(self) -> None:
        """Runs everything and ends the process."""
        server = Server(sys.argv[1].rstrip("/"), sys.argv[2])
        failed = sum(not self._passes(name, function, server) for name, function in self.cases.items())
        print(f"{len(self.cases) - failed} passed, {failed} failed")
        sys.exit(1 if failed else 0)

    def _passes(self, name: str, function: Case, server: Server) -> bool:
        try:
            function(server)
        except Exception as error:  # a case may fail in any way
            where = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in reversed(where) if frame.filename == sys.argv[0]), 0)
            print(f"FAILED  {self.suite}: {name}: line {line}: {type(error).__name__}: {error}", flush=True)
            return False
        print(f"ok      {self.suite}: {name}", flush=True)
        return True


def equal(seen: Any, wanted: Any) -> None:
    """An assertion that shows both sides."""
    assert seen == wanted, f"{seen!r} instead of {wanted!r}"


def raised(kind: type[Exception], action: Callable[[], Any]) -> Any:
    """The exception that `action` has to raise."""
    try:
        result = action()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")
