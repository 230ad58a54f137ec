"""s2s-forwarder (PyPI): S2S version 4, plain and TLS. It ends each channel with a line of its own."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import address, expect

for stanza, more in [("splunktcp://0", []), ("splunktcp-ssl:0", ["--tls", "--no-verify"])]:
    host, port = address(stanza)
    index = "forwarded" + str(len(more))
    lines = [f"2026-11-20T10:00:{at % 60:02} forwarded={at} text of a line" for at in range(500)]
    command = ["s2s-fwd", "--host", f"{host}:{port}", "--index", index, "--source", "/var/log/app", *more]
    command += ["--sourcetype", "generic_single_line", "--event-host", "edge"]
    sent = subprocess.run(command, input="\n".join(lines) + "\n", text=True, capture_output=True, check=False)
    if sent.returncode != 0:
        sys.exit(sent.stderr)
    rows = [{"_raw": line, "host": "edge", "source": "/var/log/app", "sourcetype": "generic_single_line"} for line in lines]
    expect(f"index={index} forwarded=* | table _raw host source sourcetype", rows)
