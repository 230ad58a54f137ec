"""python-logging-loki (PyPI): logging to Loki's push endpoint."""

import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import logging_loki
from client import TOKEN, expect, hec

host, port = hec()
handler = logging_loki.LokiHandler(
    url=f"http://{host}:{port}/loki/api/v1/push",
    tags={"index": "loki", "application": "shop", "host": "web8"},
    auth=("any", TOKEN),
    version="1",
)
logger = logging.getLogger("loki")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(handler)
for number in range(60):
    logger.error("lost piece=%d of Zoë", number, extra={"tags": {"city": "Köln"}})
rows = [
    {"_raw": f"lost piece={number} of Zoë", "host": "web8", "application": "shop", "city": "Köln", "severity": "error"}
    for number in range(60)
]
expect("index=loki | table _raw host application city severity", rows)
