#!/usr/bin/env python3
"""Public clients send to a server of this build; every event they sent is compared with what a search finds.

    tests/clients/run.py QUARRY [NAME ...]

Clients are installed at pinned versions into a folder of their own (QUARRY_CLIENTS_DIR, by default
~/.cache/quarry/clients), which is used again as long as requirements.txt does not change. Each file of scenarios/ is one
client: a program that sends, and prints what it expects behind EXPECT: {"search": SPL, "rows": [...]}. Only the loopback
interface is used while clients send.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 150
ROUND_SECONDS = 0.2
CLIENT_SECONDS = 120
MARK = "EXPECT "


def installed():
    """Python of a folder that holds the clients."""
    wanted = (HERE / "requirements.txt").read_bytes()
    name = f"python-{sys.version_info[0]}.{sys.version_info[1]}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    root = pathlib.Path(os.environ.get("QUARRY_CLIENTS_DIR", "~/.cache/quarry/clients")).expanduser()
    folder = root / name
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]
        subprocess.run([*install, HERE / "requirements.txt"], check=True)
        (folder / "complete").touch()
    return python


class Server:
    """A server with a data folder of its own."""

    def __init__(self, quarry, folder):
        self.quarry, self.data = quarry, pathlib.Path(folder) / "data"
        local = self.data / "etc" / "system" / "local"
        local.mkdir(parents=True)
        (local / "inputs.conf").write_text((HERE / "inputs.conf").read_text())
        self.log = open(pathlib.Path(folder) / "log", "w+", encoding="utf-8")
        ports = ["--mgmt", "127.0.0.1:0", "--hec", "127.0.0.1:0"]
        self.process = subprocess.Popen([quarry, "--data-dir", self.data, "serve", *ports], stderr=self.log)
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
    python = installed()
    scenarios = sorted(path for path in (HERE / "scenarios").glob("*.py") if not names or path.stem in names)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        server = Server(quarry, folder)
        try:
            environment = {**os.environ, "QUARRY_SERVER": json.dumps(server.run_file), "NO_PROXY": "*"}
            environment["PATH"] = f"{python.parent}:{environment['PATH']}"
            for path in scenarios:
                command = [python, path]
                sent = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False
                )
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
