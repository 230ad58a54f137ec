"""splunk-sdk (PyPI): knowledge objects, confs, users, roles, apps, indexes and passwords."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import SERVER, expect
from splunklib import client, results
from splunklib.binding import HTTPError

host, port = SERVER["mgmt"].removeprefix("http://").rsplit(":", 1)
login = {"host": host, "port": int(port), "scheme": "http", "username": "admin", "password": "changeme"}
service = client.connect(**login, owner="admin", app="search")
WAITS, WAIT_SECONDS = 300, 0.1


def refused(status, call):
    try:
        call()
    except HTTPError as error:
        assert error.status == status, error
        return
    raise SystemExit(f"nothing was refused with {status}")


def rows(text):
    stream = service.jobs.oneshot(text, output_mode="json", count=0)
    return [row for row in results.JSONResultsReader(stream) if isinstance(row, dict)]


# Saved searches.
saved = service.saved_searches.create("pysdk search", "search index=none | stats count", description="one")
assert (saved.name, saved["search"], saved["description"]) == ("pysdk search", "search index=none | stats count", "one")
assert saved.access["sharing"] == "user" and "disabled" in saved.fields["optional"], (saved.access, saved.fields)
refused(409, lambda: service.saved_searches.create("pysdk search", "x"))
saved.update(description="two", **{"dispatch.buckets": 20}).refresh()
assert saved["description"] == "two" and "pysdk search" in service.saved_searches
job = saved.dispatch()
for _ in range(WAITS):
    if job.is_done():
        break
    time.sleep(WAIT_SECONDS)
assert [old.sid for old in saved.history()] == [job.sid]
saved.disable().refresh()
assert saved["disabled"] == "1"
saved.enable()
found = service.saved_searches.list(count=1, search="pysdk", sort_key="name", sort_dir="desc")
assert [entity.name for entity in found] == ["pysdk search"]
saved.acl_update(sharing="app", owner="admin", **{"perms.read": "admin, nobody"})
assert saved.access["sharing"] == "app" and saved.access["perms"]["read"] == ["admin", "nobody"], saved.access
saved.delete()
assert "pysdk search" not in service.saved_searches

# Macros and confs: the next search knows them.
service.macros.create("pysdk_macro", '"expanded"')
assert rows("| makeresults | eval x=`pysdk_macro` | table x") == [{"x": "expanded"}]
service.macros["pysdk_macro"].update(definition='"again"')
assert rows("| makeresults | eval x=`pysdk_macro` | table x") == [{"x": "again"}]
assert service.confs["macros"]["pysdk_macro"]["definition"] == '"again"'
service.macros.delete("pysdk_macro")
conf = service.confs.create("pysdk_conf")
stanza = conf.create("a stanza")
stanza.submit({"first": "1", "second": "two\nlines"})
stanza.refresh()
assert (stanza["first"], stanza["second"], len(conf)) == ("1", "two\nlines", 1), stanza.content
conf.delete("a stanza")

# Event types, indexes and what they take.
kind = service.event_types.create("pysdk_type", search="index=pysdk oh", tags="t", description="d", priority=3)
assert (kind["search"], kind["priority"]) == ("index=pysdk oh", "3")
index = service.indexes.create("pysdk")
index.refresh()
assert index["disabled"] == "0" and "pysdk" in service.indexes
index.submit("oh one\n", sourcetype="lines", host="h", source="s")
index.submit("oh two\n", sourcetype="lines")
index.disable()
index.refresh()
assert index["disabled"] == "1"
index.enable()
assert len(rows("search index=pysdk eventtype=pysdk_type | table _raw")) == 2
service.event_types.delete("pysdk_type")

# Passwords.
password = service.storage_passwords.create("secret: \\ /word", "a user", "arealm")
assert (password.clear_password, password.realm, password.username) == ("secret: \\ /word", "arealm", "a user")
assert password.name == "arealm:a user:", password.name
password.update(password="other").refresh()
assert password.clear_password == "other"
service.storage_passwords.delete("a user", "arealm")
assert "arealm:a user:" not in [kept.name for kept in service.storage_passwords]

# Users, roles, apps.
user = service.users.create("pysdk", password="long enough", roles=["user", "power"], realname="Py SDK")
assert sorted(user["roles"]) == ["power", "user"] and user["realname"] == "Py SDK", user.content
own = client.connect(**{**login, "username": "pysdk", "password": "long enough"}, owner="pysdk", app="search")
own.macros.create("pysdk_own", "1")
assert "pysdk_own" not in service.macros and "pysdk_own" in own.macros
refused(403, lambda: own.users.create("x", password="long enough", roles="user"))
refused(403, lambda: own.storage_passwords.list())
assert "admin" in service.roles and "search" in service.roles["user"]["capabilities"]
assert "indexes_edit" in service.capabilities
service.users.delete("pysdk")
app = service.apps.create("pysdk_app", label="An app", description="of the SDK")
assert (app["label"], app["version"]) == ("An app", "1.0.0")
app.update(version="1.2.0").refresh()
assert app["version"] == "1.2.0"
app.delete()
assert "pysdk_app" not in service.apps

# Sessions by cookie, the parser, collections in pages.
session = client.Service(**login)
session.login()
cookies = dict(session.http._cookies)
assert [name for name in cookies if name.startswith("splunkd_")], cookies
by_cookie = client.Service(host=host, port=int(port), scheme="http", cookie="; ".join(f"{k}={v}" for k, v in cookies.items()))
by_cookie.login()
assert "admin" in by_cookie.users
parsed = service.parse("search index=x | stats count by y", output_mode="json").body.read()
assert b'"stats"' in parsed and b'"reportsSearch":"stats count by y"' in parsed, parsed
refused(400, lambda: service.parse("xyzzy"))
names = [entity.name for entity in service.confs["props"].list(count=-1)] if hasattr(service.confs["props"], "list") else []
paged = [entity.name for at in range(0, len(names), 7) for entity in service.confs["props"].list(count=7, offset=at)]
assert names == paged, (names, paged)
expect("index=pysdk | stats count", [{"count": "2"}])
