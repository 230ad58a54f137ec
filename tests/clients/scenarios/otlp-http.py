"""opentelemetry-sdk (PyPI): logs and metrics by OTLP over HTTP."""

import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, expect, hec
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

host, port = hec()
headers = {"Authorization": f"Bearer {TOKEN}"}
resource = Resource({"service.name": "shop", "host.name": "web7", "com.splunk.index": "otel"})
provider = LoggerProvider(resource=resource)
exporter = OTLPLogExporter(f"http://{host}:{port}/v1/logs", headers=headers, compression=Compression.Gzip)
provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
logger = logging.getLogger("shop")
logger.setLevel(logging.INFO)
logger.propagate = False
logger.addHandler(LoggingHandler(logger_provider=provider))
for number in range(200):
    logger.warning("sold %d pieces to Zoë", number, extra={"piece": number, "paid": number % 2 == 0})
assert provider.force_flush()
provider.shutdown()
rows = [
    {"_raw": f"sold {number} pieces to Zoë", "host": "web7", "source": "shop", "piece": number,
     "paid": "true" if number % 2 == 0 else "false", "severity_text": "WARN"}
    for number in range(200)
]
expect("index=otel severity_text=* | table _raw host source piece paid severity_text", rows)

exporter = OTLPMetricExporter(f"http://{host}:{port}/v1/metrics", headers=headers)
meters = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(exporter, 3_600_000)])
meter = meters.get_meter("shop")
counter, histogram = meter.create_counter("sold.pieces"), meter.create_histogram("price")
for number in range(10):
    counter.add(number, {"city": "köln" if number % 2 else "bonn"})
    histogram.record(number * 10.0)
assert meters.force_flush()
meters.shutdown(timeout_millis=5_000)
expect(
    'index=otel "metric_name:sold.pieces"=* | rename "metric_name:sold.pieces" AS sold | stats max(sold) AS sold by city, host',
    [{"city": "köln", "sold": 25, "host": "web7"}, {"city": "bonn", "sold": 20, "host": "web7"}],
)
expect(
    'index=otel "metric_name:price_sum"=* | rename "metric_name:price_*" AS * '
    "| stats max(sum) AS sum max(count) AS count | eval sum=round(sum)",
    [{"sum": 450, "count": 10}],
)
