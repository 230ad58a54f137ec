"""What scenarios share: where the server is, and how to say what it shall have."""

import json
import os

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
