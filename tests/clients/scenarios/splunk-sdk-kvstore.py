"""splunk-sdk (PyPI): collections of the KV store, their documents, and the same as a lookup table."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import SERVER, expect
from splunklib import client
from splunklib.binding import HTTPError

host, port = SERVER["mgmt"].removeprefix("http://").rsplit(":", 1)
login = {"host": host, "port": int(port), "scheme": "http", "username": "admin", "password": "changeme"}
service = client.connect(**login, owner="nobody", app="search")


def refused(status, call):
    try:
        call()
    except HTTPError as error:
        assert error.status == status, error
        return
    raise SystemExit(f"nothing was refused with {status}")


# Collections.
collections = service.kvstore
collections.create("pysdk_kv", accelerated_fields={"by_num": {"num": 1}}, fields={"num": "number", "odd": "number1"})
assert "pysdk_kv" in collections
made = collections["pysdk_kv"]
assert (made["field.num"], made["field.odd"], made["accelerated_fields.by_num"]) == ("number", "number1", {"num": 1})
made.update_field("data", "string")
made.update_accelerated_field("by_num", {"num": -1})
made = collections["pysdk_kv"]
assert (made["field.data"], made["accelerated_fields.by_num"]) == ("string", {"num": -1}), made.content
refused(409, lambda: collections.create("pysdk_kv"))
own = client.connect(**login, owner="admin", app="search")
own.kvstore_owner = "admin"
refused(400, lambda: own.kvstore.list())

# Documents, one by one.
data = made.data
for number in range(50):
    assert data.insert(json.dumps({"_key": str(number), "data": f"#{number}", "num": str(number)})) == {"_key": str(number)}
assert len(data.query()) == 50
assert data.query(query='{"num": 10}') == [{"_key": "10", "_user": "nobody", "data": "#10", "num": 10}]
assert data.query(query={"num": {"$gt": 47}}, sort="num:-1", fields="num,_id:0") == [{"num": 49}, {"num": 48}]
assert [found["num"] for found in data.query(sort="data:-1", skip=48)] == [1, 0]
assert data.query_by_id("7")["data"] == "#7"
refused(409, lambda: data.insert({"_key": "7"}))
refused(400, lambda: data.insert("NOT VALID DATA"))
assert data.update("49", {"data": "#50", "num": 50}) == {"_key": "49"}
assert data.query(query='{"num": 49}') == []
refused(400, lambda: data.update("49", "NOT VALID DATA"))
refused(404, lambda: data.update("none", {}))
data.delete_by_id("49")
refused(404, lambda: data.query_by_id("49"))
data.delete(json.dumps({"num": {"$gt": 39}}))
assert len(data.query()) == 40
data.delete()
assert data.query() == []
made_key = data.insert({"a key/with": "a slash"})["_key"]
assert data.query_by_id(made_key)["a key/with"] == "a slash"
data.insert({"_key": "odd/key +%"})
assert data.query_by_id("odd/key +%")["_key"] == "odd/key +%"
data.delete()

# Many at once.
saved = data.batch_save(*[{"_key": str(number), "data": f"#{number}", "num": number} for number in range(1000)])
assert saved == [str(number) for number in range(1000)], saved
data.batch_save(*[{"_key": str(number), "data": f"#{number + 1}", "num": number + 1} for number in range(1000)])
assert [found["num"] for found in data.query(sort="num")] == list(range(1, 1001))
found = data.batch_find(*[{"query": {"num": number + 1}} for number in range(100)])
assert [one[0]["_key"] for one in found] == [str(number) for number in range(100)], found
found = data.batch_find({"query": {"num": {"$lte": 3}}, "sort": {"num": -1}, "limit": 2, "fields": {"num": 1, "_key": 0}})
assert found == [[{"num": 3}, {"num": 2}]], found
refused(400, lambda: data.batch_save(*[{}] * 1001))

# Searches see the same.
transform = service.confs["transforms"].create("pysdk_kv_table")
transform.submit({"external_type": "kvstore", "collection": "pysdk_kv", "fields_list": "_key,data,num"})
service.jobs.oneshot('| makeresults | eval _key="of a search", num=7777 | outputlookup append=t key_field=_key pysdk_kv_table')
assert data.query(query={"num": 7777}) == [{"_key": "of a search", "_user": "nobody", "num": 7777}]

# A collection of another app.
service.namespace["app"] = "system"
service.kvstore.create("pysdk_kv")
assert service.kvstore["pysdk_kv"]["eai:appName"] == "system"
assert service.kvstore["pysdk_kv"].data.query() == []
service.kvstore["pysdk_kv"].delete()
service.namespace["app"] = "search"
assert service.kvstore["pysdk_kv"]["eai:appName"] == "search"
expect("| inputlookup pysdk_kv_table where num>=1000 | sort num | table _key data num", [
    {"_key": "999", "data": "#1000", "num": "1000"},
    {"_key": "of a search", "num": "7777"},
])
