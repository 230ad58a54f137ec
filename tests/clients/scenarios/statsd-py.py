"""statsd (PyPI): counters, gauges and timers over UDP."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import statsd
from client import address, expect

host, port = address("udp://0")
client = statsd.StatsClient(host, port, prefix="shop")
for number in range(50):
    client.incr("sold", number)
with client.pipeline() as pipe:
    pipe.gauge("stock", 7)
    pipe.timing("answer", 320)
expect(
    'index=statsd | rename "metric_name:shop.*" AS * | stats max(sold) AS sold count(eval(metric_type="c")) AS counters '
    "max(stock) AS stock max(answer) AS answer count by sourcetype",
    [{"sourcetype": "statsd", "sold": 49, "counters": 50, "stock": 7, "answer": 320, "count": 52}],
)
