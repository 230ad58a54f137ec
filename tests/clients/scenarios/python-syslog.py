"""logging.handlers.SysLogHandler (Python): datagrams that end with a zero byte."""

import logging
import logging.handlers
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import address, expect

handler = logging.handlers.SysLogHandler(address("udp://127.0.0.1:0"))
handler.setFormatter(logging.Formatter("Nov 20 10:00:00 web9 shop[7]: %(message)s"))
logger = logging.getLogger("syslog")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(handler)
for number in range(200):
    logger.info("sold piece=%d to Zoë", number)
rows = [
    {"_raw": f"Nov 20 10:00:00 web9 shop[7]: sold piece={number} to Zoë", "host": "web9", "process": "shop"}
    for number in range(200)
]
expect("index=syslog web9 | table _raw host process", rows)
