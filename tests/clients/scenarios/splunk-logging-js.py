"""splunk-logging (npm): objects over the HTTP Event Collector, in batches."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import expect, node

node("splunk-logging.js")
rows = [
    {"piece": number, "city": "Köln", "severity": "warn", "time": 1795225000 + number, "host": "web1",
     "source": "shop", "sourcetype": "_json"}
    for number in range(200)
]
expect(
    'index=splunklogging | rename "message.*" AS * | eval time=round(_time) '
    "| table piece city severity time host source sourcetype",
    rows,
)
