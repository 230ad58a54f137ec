#!/usr/bin/env python3
"""Public clients send to a server of this build; every event they sent is compared with what a search finds.

    tests/clients/run.py QUARRY [NAME ...]

Clients are installed at pinned versions (install.py). Each file of scenarios/ is one client: a program that sends, and
prints what it expects behind EXPECT: {"search": SPL, "rows": [...]}. The server has the apps of apps/, and runs their
programs with the Python that has the clients. A scenario that ends with 77 has no client on this machine, and says why;
that is told, and is no failure. Only the loopback interface is used while clients send.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import install

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 150
ROUND_SECONDS = 0.2
# Docker's driver takes two minutes to build where nothing of it is cached.
CLIENT_SECONDS = 600
NOT_HERE = 77
MARK = "EXPECT "


class Server:
    """A server with a data folder of its own."""

    def __init__(self, quarry, folder, python):
        self.quarry, self.data = quarry, pathlib.Path(folder) / "data"
        local = self.data / "etc" / "system" / "local"
        local.mkdir(parents=True)
        (local / "inputs.conf").write_text((HERE / "inputs.conf").read_text())
        shutil.copytree(HERE / "apps", self.data / "etc" / "apps")
        environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
        self.log = open(pathlib.Path(folder) / "log", "w+", encoding="utf-8")
        ports = ["--mgmt", "127.0.0.1:0", "--hec", "127.0.0.1:0"]
        command = [quarry, "--data-dir", self.data, "serve", *ports]
        self.process = subprocess.Popen(command, stderr=self.log, env=environment)
        run_file = self.data / "run" / "server.json"
        for _ in range(ROUNDS):
            if run_file.exists():
                self.run_file = json.loads(run_file.read_text())
                return
            if self.process.poll() is not None:
                break
            time.sleep(ROUND_SECONDS)
        raise SystemExit(f"the server does not start:\n{self.told()}")

    def told(self):
        self.log.seek(0)
        return self.log.read()

    def search(self, text):
        command = [self.quarry, "--data-dir", self.data, "search", text, "-o", "json"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise SystemExit(f"{text}: {found.stderr}")
        return json.loads(found.stdout)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def in_order(rows):
    """Rows as comparable texts: what counts is how a value is written, not whether it is a JSON number."""
    texts = [{name: str(value) for name, value in row.items()} for row in rows]
    return sorted(json.dumps(row, sort_keys=True) for row in texts)


def compare(server, name, expected):
    """Whether a search finds exactly the rows, after a while."""
    found = []
    for _ in range(ROUNDS):
        found = server.search(expected["search"])
        if in_order(found) == in_order(expected["rows"]):
            print(f"ok {name}: {len(found)} rows: {expected['search']}")
            return True
        time.sleep(ROUND_SECONDS)
    missing = [row for row in in_order(expected["rows"]) if row not in in_order(found)]
    more = [row for row in in_order(found) if row not in in_order(expected["rows"])]
    print(f"FAILED {name}: {expected['search']}\n  missing: {missing[:5]}\n  not sent: {more[:5]}")
    return False


def main():
    quarry, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    python = install.python()
    scenarios = sorted(path for path in (HERE / "scenarios").glob("*.py") if not names or path.stem in names)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        server = Server(quarry, folder, python)
        try:
            environment = {**os.environ, "QUARRY_SERVER": json.dumps(server.run_file), "QUARRY": str(quarry), "NO_PROXY": "*"}
            environment["PATH"] = f"{python.parent}:{environment['PATH']}"
            for path in scenarios:
                command = [python, path]
                sent = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False
                )
                if sent.returncode == NOT_HERE:
                    print(f"NOT HERE {path.stem}: {sent.stdout.strip()}")
                    continue
                if sent.returncode != 0:
                    print(f"FAILED {path.stem}: the client ended with {sent.returncode}\n{sent.stdout}{sent.stderr}")
                    good = False
                    continue
                expected = [line[len(MARK) :] for line in sent.stdout.splitlines() if line.startswith(MARK)]
                if not expected:
                    print(f"FAILED {path.stem}: it expects nothing\n{sent.stdout}{sent.stderr}")
                    good = False
                for line in expected:
                    good = compare(server, path.stem, json.loads(line)) and good
        finally:
            server.stop()
        if not good:
            print(f"the server told:\n{server.told()}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
