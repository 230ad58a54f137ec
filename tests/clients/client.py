"""What scenarios share: where the server is, and how to say what it shall have."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import install

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 300
ROUND_SECONDS = 0.1
STOP_SECONDS = 20
# Status of a scenario whose client cannot be installed on this machine.
NOT_HERE = 77

SERVER = json.loads(os.environ["QUARRY_SERVER"])
TOKEN = "11111111-1111-1111-1111-111111111111"


def address(stanza):
    """Host and port of a stanza of inputs.conf."""
    host, port = SERVER["inputs"][stanza].rsplit(":", 1)
    return host, int(port)


def hec():
    """Host and port of the HTTP Event Collector."""
    host, port = SERVER["hec"].rsplit(":", 1)
    return host, int(port)


def expect(search, rows):
    """Says that a search must find the rows, in any order."""
    print("EXPECT " + json.dumps({"search": search, "rows": rows}), flush=True)


def installed(kind):
    """Where a kind of client is installed; ends the scenario where it cannot be."""
    try:
        return install.KINDS[kind]()
    except install.Missing as missing:
        print(missing)
        sys.exit(NOT_HERE)


def node(script):
    """Runs a script of node/ that sends to the collector."""
    environment = {**os.environ, "QUARRY_NODE": str(installed("node"))}
    command = ["node", HERE / "node" / script, *(str(part) for part in hec()), TOKEN]
    sent = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    if sent.returncode != 0 or sent.stderr:
        sys.exit(sent.stderr or "the client says nothing and fails")


def environment_of(root):
    """Environment in which programs below `root` find their libraries."""
    parts = ["usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib/syslog-ng", "usr/lib/syslog-ng/*"]
    folders = [folder for part in parts for folder in root.glob(part) if folder.is_dir()]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(str(folder) for folder in folders)}


@contextlib.contextmanager
def daemon(command, root):
    """A program below `root` that runs until the end of the block."""
    process = subprocess.Popen(
        command, env=environment_of(root), stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=STOP_SECONDS)


def wait_until(is_so, what):
    """Returns when something is so; fails after a while."""
    for _ in range(ROUNDS):
        if is_so():
            return
        time.sleep(ROUND_SECONDS)
    sys.exit(f"this does not happen: {what}")
