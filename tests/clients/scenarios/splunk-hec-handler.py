"""splunk-hec-handler (PyPI): logging of dictionaries and texts over the HTTP Event Collector."""

import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, expect, hec
from splunk_hec_handler import SplunkHecHandler

host, port = hec()
handler = SplunkHecHandler(
    host, TOKEN, port=port, proto="http", ssl_verify=False, index="hechandler", source="shop", sourcetype="_json",
    hostname="app2",
)
logger = logging.getLogger("hec")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(handler)
for number in range(100):
    logger.info({"number": number, "place": {"city": "Köln"}, "tags": ["a", "b"]})
expect(
    "index=hechandler | spath number | spath place.city output=city | table number city",
    [{"number": str(number), "city": "Köln"} for number in range(100)],
)
