"""elasticsearch (PyPI, 7.x): the bulk helper, after its check of the product."""

import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, expect, hec
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

warnings.simplefilter("ignore")
host, port = hec()
client = Elasticsearch([f"http://{host}:{port}"], http_auth=("any", TOKEN), http_compress=True)
actions = [
    {
        "_index": "elastic" if number % 2 else "logs-2026.11.20",
        "_source": {"@timestamp": f"2026-11-20T10:{number // 60:02}:{number % 60:02}Z", "n": number, "city": "Köln"},
    }
    for number in range(400)
]
taken, errors = bulk(client, actions, chunk_size=150)
assert (taken, errors) == (400, []), (taken, errors)
assert client.cluster.health()["status"] == "green"
refused, errors = bulk(client, [{"_op_type": "delete", "_index": "elastic", "_id": "1"}], raise_on_error=False)
assert refused == 0 and errors[0]["delete"]["status"] == 400, errors
rows = [
    {"index": "elastic" if number % 2 else "main", "source": "elastic" if number % 2 else "logs-2026.11.20",
     "n": number, "city": "Köln", "time": 1795168800 + number}
    for number in range(400)
]
expect(
    "index=elastic OR (index=main source=logs-*) | spath | eval time=round(_time) | table index source n city time", rows
)
