"""winston with winston-splunk-httplogger (npm): one request for each event."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import expect, node

node("winston.js")
rows = [
    {"msg": f"sold piece={number}", "piece": number, "city": "Köln", "severity": "info", "source": "shop",
     "sourcetype": "winston-splunk-logger"}
    for number in range(60)
]
expect(
    'index=winston | spath message.msg output=msg | spath message.meta.piece output=piece '
    "| spath message.meta.city output=city | spath severity | table msg piece city severity source sourcetype",
    rows,
)
