"""Docker's own splunk log driver (Go): it asks first whether there is a collector, then sends packed batches."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, expect, hec, installed

host, port = hec()
options = {
    "splunk-url": f"http://{host}:{port}", "splunk-token": TOKEN, "splunk-index": "docker", "splunk-source": "shop",
    "splunk-sourcetype": "_json", "splunk-gzip": "true", "tag": "{{.Name}}",
}
command = [installed("docker"), "250", *(f"{name}={value}" for name, value in options.items())]
sent = subprocess.run(command, text=True, capture_output=True, check=False)
if sent.returncode != 0 or sent.stderr:
    sys.exit(sent.stderr)
rows = [
    {"line": f"sold piece={number} to Zoë", "stream": "stdout", "tag": "shop", "time": f"{1795225000 + number}.5",
     "sourcetype": "_json", "source": "shop"}
    for number in range(250)
]
expect(
    "index=docker | rename source AS place | spath source output=stream | spath line | spath tag "
    "| rename place AS source | eval time=round(_time, 1) | table line stream tag time sourcetype source",
    rows,
)
