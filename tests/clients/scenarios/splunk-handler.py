"""splunk-handler (PyPI): logging over the HTTP Event Collector."""

import json
import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, expect, hec
from splunk_handler import SplunkHandler

host, port = hec()
handler = SplunkHandler(
    host=host, port=port, token=TOKEN, index="handler", hostname="app1", source="shop", sourcetype="shop_log",
    protocol="http", flush_interval=0.2,
)
logger = logging.getLogger("shop")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(handler)
for number in range(300):
    logger.info("sold item=%d to \"Zoë\"", number)
handler.force_flush()
handler.shutdown()
rows = [{"n": str(number), "host": "app1", "source": "shop", "sourcetype": "shop_log"} for number in range(300)]
expect('index=handler Zoë | rex "item=(?<n>\\d+)" | table n host source sourcetype', rows)
