"""opentelemetry-sdk (PyPI): logs and metrics by OTLP over gRPC, packed and not."""

import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import grpc
from client import TOKEN, address, expect
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

host, port = address("otlp")
endpoint = f"http://{host}:{port}"
headers = (("authorization", f"Bearer {TOKEN}"),)
for form, compression in [("plain", grpc.Compression.NoCompression), ("packed", grpc.Compression.Gzip)]:
    resource = Resource({"service.name": form, "host.name": "web7", "com.splunk.index": "calls"})
    provider = LoggerProvider(resource=resource)
    exporter = OTLPLogExporter(endpoint, insecure=True, headers=headers, compression=compression)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = logging.getLogger(form)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for number in range(700):
        logger.warning("sold %d pieces to Zoë", number, extra={"piece": number, "paid": number % 2 == 0})
    assert provider.force_flush()
    provider.shutdown()
rows = [
    {"_raw": f"sold {number} pieces to Zoë", "host": "web7", "source": form, "piece": number,
     "paid": "true" if number % 2 == 0 else "false", "severity_text": "WARN"}
    for number in range(700)
    for form in ["plain", "packed"]
]
expect("index=calls severity_text=* | table _raw host source piece paid severity_text", rows)

exporter = OTLPMetricExporter(endpoint, insecure=True, headers=headers)
meters = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(exporter, 3_600_000)])
counter = meters.get_meter("shop").create_counter("sold.pieces")
for number in range(10):
    counter.add(number, {"city": "köln" if number % 2 else "bonn"})
assert meters.force_flush()
meters.shutdown(timeout_millis=5_000)
expect(
    'index=calls "metric_name:sold.pieces"=* | rename "metric_name:sold.pieces" AS sold | stats max(sold) AS sold by city, host',
    [{"city": "köln", "sold": 25, "host": "web7"}, {"city": "bonn", "sold": 20, "host": "web7"}],
)


def refused(call, request, metadata):
    """Status of a call that must fail."""
    try:
        call(request, metadata=metadata, timeout=20)
    except grpc.RpcError as error:
        return error.code()
    return None


with grpc.insecure_channel(f"{host}:{port}") as channel:
    export = LogsServiceStub(channel).Export
    empty = ExportLogsServiceRequest()
    assert refused(export, empty, ()) == grpc.StatusCode.UNAUTHENTICATED
    assert refused(export, empty, (("authorization", "Bearer none"),)) == grpc.StatusCode.UNAUTHENTICATED
    assert refused(export, empty, headers) is None
    traces = TraceServiceStub(channel).Export
    assert refused(traces, ExportTraceServiceRequest(), headers) is None
