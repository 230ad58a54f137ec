"""splunk-sdk (PyPI): roles, users and authentication tokens (`splunkToken`)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import SERVER, expect
from splunklib import client, results
from splunklib.binding import AuthenticationError, HTTPError
import json

host, port = SERVER["mgmt"].removeprefix("http://").rsplit(":", 1)
place = {"host": host, "port": int(port), "scheme": "https"}
service = client.connect(**place, username="admin", password="changeme")

# A role is made, changed and given.
role = service.roles.create("sdkteam", capabilities=["search"], srchIndexesAllowed=["sdkroles"], srchIndexesDefault=["sdkroles"])
assert role["capabilities"] == ["search"] and role["srchIndexesAllowed"] == ["sdkroles"], role.content
role.grant("rtsearch", "run_msearch").refresh()
assert {"rtsearch", "run_msearch"} <= set(role["capabilities"]), role.content
role.revoke("rtsearch").refresh()
assert "rtsearch" not in role["capabilities"] and "run_msearch" in role["capabilities"], role.content
user = service.users.create("sdkuser", password="long enough", roles=["sdkteam"])
assert [entity.name for entity in user.role_entities] == ["sdkteam"]
made = "| makeresults count=3 | eval _raw=\"x\" | collect index=%s sourcetype=sdkroles"
for index in ("sdkroles", "sdkother"):
    service.jobs.oneshot(made % index, output_mode="json")


def token_of(name, **more):
    answer = service.post("authorization/tokens", name=name, audience="sdk", output_mode="json", **more)
    content = json.loads(answer.body.read())["entry"][0]["content"]
    return content["id"], content["token"]


def count(connected, index):
    stream = connected.jobs.oneshot(f"search index={index} | stats count", output_mode="json")
    return [row["count"] for row in results.JSONResultsReader(stream) if isinstance(row, dict)]


# A token stands for its user, without a login.
id, token = token_of("sdkuser")
by_token = client.connect(**place, splunkToken=token)
assert count(by_token, "sdkroles") == ["3"] and count(by_token, "sdkother") == ["0"]
listed = json.loads(service.get("authorization/tokens", output_mode="json", count=0).body.read())["entry"]
assert [entry["content"]["claims"]["sub"] for entry in listed if entry["name"] == id] == ["sdkuser"], listed
service.post(f"authorization/tokens/{id}", status="disabled")
for refused in (token, token + "x"):
    try:
        client.Service(**place, splunkToken=refused).get("authentication/current-context")
        raise SystemExit("a token that is switched off was taken")
    except (AuthenticationError, HTTPError) as error:
        assert getattr(error, "status", 401) == 401, error
service.post("authorization/tokens/sdkuser", id=id, status="enabled")
assert count(client.connect(**place, splunkToken=token), "sdkroles") == ["3"]
service.delete(f"authorization/tokens/{id}")
try:
    client.Service(**place, splunkToken=token).get("authentication/current-context")
    raise SystemExit("a token that was removed was taken")
except (AuthenticationError, HTTPError) as error:
    assert getattr(error, "status", 401) == 401, error
service.users.delete("sdkuser")
service.roles.delete("sdkteam")
assert "sdkteam" not in [role.name for role in service.roles]
expect("index=sdkroles | stats count", [{"count": "3"}])
