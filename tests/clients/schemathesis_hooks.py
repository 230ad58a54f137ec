"""Gives Schemathesis objects that exist.

Names are drawn at random, and almost no such object exists: most requests would only ask for what is not there. Every other
request to a path with names is therefore sent to an object that is made anew before, by the collection above it, or to one
that is listed there. The rest keeps what was drawn.
"""

import collections
import json
import os
import urllib.error
import urllib.parse
import urllib.request

import schemathesis

SERVER = os.environ.get("QUARRY_TRIED", "")
AUTHORIZATION = os.environ.get("QUARRY_TRIED_AUTHORIZATION", "")
NAME = "tried"
SECONDS = 30
# What an object of a collection needs; `name` is added where it is not said.
NEEDS = {
    "admin/macros": {"definition": "index=main"},
    "admin/passwords": {"password": "secret"},
    # The roles of the node stay as they are: without them, further requests would be refused.
    "admin/roles": {},
    "alerts/alert_actions": {},
    "alerts/metric_alerts": {"condition": "'avg(a)' > 1", "metric_indexes": "main"},
    "apps/local": {},
    "authorization/roles": {},
    "authorization/tokens": {"name": "admin", "audience": "tests"},
    "data/indexes": {},
    "data/inputs/http": {},
    "data/inputs/monitor": {"name": "/tmp/tried.log"},
    "data/inputs/script": {"name": "/tmp/tried.sh"},
    "data/inputs/tcp/cooked": {"name": "15997"},
    "data/inputs/tcp/raw": {"name": "15140"},
    "data/inputs/tcp/splunktcptoken": {"token": "7c1f3a52-0d7e-4b0c-9d7c-2f5a6b8c9d10"},
    "data/inputs/udp": {"name": "15141"},
    "data/lookup-table-files": {},
    "data/outputs/tcp/default": {"name": "tcpout"},
    "data/outputs/tcp/group": {},
    "data/outputs/tcp/server": {"name": "10.0.0.5:9997"},
    "data/outputs/tcp/syslog": {"server": "10.0.0.5:514"},
    "data/props/calcfields": {"stanza": "kv", "value": "1+1"},
    "data/props/extractions": {"stanza": "kv", "type": "EXTRACT", "value": "user=(?<u>\\w+)"},
    "data/props/fieldaliases": {"stanza": "kv", "alias.user": "who"},
    "data/props/sourcetype-rename": {"value": "kv"},
    "data/transforms/extractions": {"REGEX": "user=(\\w+)"},
    "data/transforms/lookups": {"filename": "tried.csv"},
    "data/transforms/metric-schema": {"METRIC-SCHEMA-MEASURES": "a"},
    "data/transforms/statsdextractions": {"REGEX": "(?<app>\\w+)"},
    "data/ui/workflow-actions": {"label": "Find"},
    "datamodel/model": {},
    "messages": {"value": "hello"},
    "saved/bookmarks/monitoring_console": {"url": "https://a.example"},
    "saved/eventtypes": {"search": "level=info"},
    "saved/searches": {"search": "| makeresults"},
    "saved/sourcetypes": {},
    "storage/collections/config": {},
    "storage/passwords": {"password": "secret"},
}
# Other names in paths.
PARTS = {"key": "k1", "id": "x"}
FILES = {"admin": "conf-tried", "configs": "conf-tried", "data/ui": "views", "properties": "macros"}
# Collections with a second path.
ALIASES = {
    "admin/alert_actions": "alerts/alert_actions",
    "admin/cooked": "data/inputs/tcp/cooked",
    "admin/datamodel-files": "datamodel/model",
    "admin/eventtypes": "saved/eventtypes",
    "admin/http": "data/inputs/http",
    "admin/indexes": "data/indexes",
    "admin/localapps": "apps/local",
    "admin/lookup-table-files": "data/lookup-table-files",
    "admin/messages": "messages",
    "admin/metric-schema-reg": "data/transforms/metric-schema",
    "admin/monitor": "data/inputs/monitor",
    "admin/props-eval": "data/props/calcfields",
    "admin/props-extract": "data/props/extractions",
    "admin/props-fieldalias": "data/props/fieldaliases",
    "admin/raw": "data/inputs/tcp/raw",
    "admin/savedsearch": "saved/searches",
    "admin/script": "data/inputs/script",
    "admin/sourcetype-rename": "data/props/sourcetype-rename",
    "admin/sourcetypes": "saved/sourcetypes",
    "admin/splunktcptoken": "data/inputs/tcp/splunktcptoken",
    "admin/tcpout-default": "data/outputs/tcp/default",
    "admin/tcpout-group": "data/outputs/tcp/group",
    "admin/tcpout-server": "data/outputs/tcp/server",
    "admin/transforms-extract": "data/transforms/extractions",
    "admin/transforms-lookup": "data/transforms/lookups",
    "admin/udp": "data/inputs/udp",
    "admin/workflow-actions": "data/ui/workflow-actions",
    "search/eventtypes": "saved/eventtypes",
}
asked = collections.Counter()


def sent(method, path, form=None):
    """The answer as JSON; what is refused has none. A form is a dict, a document a text."""
    url = f"{SERVER}/services/{path}"
    headers = {"Authorization": AUTHORIZATION}
    data = None
    if isinstance(form, str):
        data, headers["Content-Type"] = form.encode(), "application/json"
    elif form is not None:
        data = urllib.parse.urlencode({"output_mode": "json", **form}).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data=data, headers=headers, method=method), timeout=SECONDS
        ) as answer:
            return json.loads(answer.read() or b"{}")
    except (urllib.error.HTTPError, json.JSONDecodeError):
        return {}


def job():
    """A finished search."""
    made = sent("POST", "search/jobs", {"search": "| makeresults count=3", "exec_mode": "blocking"})
    return made.get("sid")


def listed(collection, search="*"):
    """The name of something that is listed in a collection."""
    entries = sent("GET", f"{collection}?output_mode=json&count=1&search={search}").get("entry") or [{}]
    return entries[0].get("name")


def object_of(collection):
    """The name of an object in a collection, made if it can be."""
    collection = ALIASES.get(collection, collection)
    if collection not in NEEDS:
        return listed(collection)
    form = {"name": NAME, **NEEDS[collection]}
    made = sent("POST", collection, form).get("entry")
    # One that is there already may be listed by a longer name, as passwords and parts of props.conf are.
    return made[0]["name"] if made else listed(collection, NAME) or form["name"]


def names_of(path):
    """Names for the placeholders of a path; empty if something has none."""
    names = {}
    parts = path.removeprefix("/services/").split("/")
    for at, part in enumerate(parts):
        if not part.startswith("{"):
            continue
        above = "/".join(names.get(one[1:-1], one) if one.startswith("{") else one for one in parts[:at])
        key = part[1:-1]
        if key == "sid":
            found = job()
        elif key == "file":
            found = FILES.get(above)
        elif key == "collection":
            sent("POST", "storage/collections/config", {"name": NAME})
            found = NAME
        elif key == "key":
            document = json.dumps([{"_key": PARTS[key], "a": 1}])
            sent("POST", f"{above}/batch_save", document)
            found = PARTS[key]
        elif key in PARTS:
            found = PARTS[key]
        elif above.startswith("configs/"):
            sent("POST", above, {"name": NAME})
            found = NAME
        elif above == "data/ui/views":
            sent("POST", above, {"name": NAME, "eai:data": "<dashboard/>"})
            found = NAME
        else:
            found = object_of(above)
        if not found:
            return {}
        names[key] = found
    return names


@schemathesis.hook
def before_call(context, case, kwargs):
    """Puts names of existing objects into every other request."""
    label = f"{case.method} {case.operation.path}"
    if not SERVER or "{" not in case.operation.path or not case.path_parameters:
        return
    asked[label] += 1
    if asked[label] % 2:
        case.path_parameters.update(names_of(case.operation.path))
