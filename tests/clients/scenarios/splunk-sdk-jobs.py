"""splunk-sdk (PyPI): jobs, their rows in pages, and entities of the node."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import SERVER, expect
from splunklib import client, results
from splunklib.binding import HTTPError

EVENTS = 250
WAITS, WAIT_SECONDS = 300, 0.1


def rows(stream):
    return [row for row in results.JSONResultsReader(stream) if isinstance(row, dict)]


def finished(job):
    for _ in range(WAITS):
        if job.is_done():
            return job
        time.sleep(WAIT_SECONDS)
    raise SystemExit(f"job {job.sid} does not end")


host, port = SERVER["mgmt"].removeprefix("http://").rsplit(":", 1)
service = client.connect(host=host, port=int(port), scheme="https", username="admin", password="changeme")
assert service.info["version"], service.info.content
made = f'| makeresults count={EVENTS} | streamstats count as n | eval _raw="sdkjob n=".n | collect index=sdk sourcetype=sdkjob'
assert len(rows(service.jobs.oneshot(made, output_mode="json", count=0))) == EVENTS

report = finished(service.jobs.create("search index=sdk sourcetype=sdkjob | stats count"))
assert rows(report.results(output_mode="json")) == [{"count": str(EVENTS)}]
assert (report["dispatchState"], report["eventCount"], report["resultCount"]) == ("DONE", str(EVENTS), "1"), report.content

events = service.jobs.create("search index=sdk sourcetype=sdkjob", exec_mode="blocking", status_buckets=20, label="pages")
pages = [row["_raw"] for at in range(0, EVENTS, 60) for row in rows(events.events(output_mode="json", offset=at, count=60))]
assert sorted(pages) == sorted(f"sdkjob n={n}" for n in range(1, EVENTS + 1)), pages[:3]
assert [row["_raw"] for row in rows(events.preview(output_mode="json", count=0))] == pages
assert f'c="{EVENTS}"' in events.timeline().read().decode() and f'c="{EVENTS}"' in events.summary().read().decode()
assert events.sid in events.searchlog().read().decode()
events.set_ttl(900).touch().set_priority(3).finalize().refresh()
assert (events["isFinalized"], events["label"]) == ("1", "pages"), events.content
assert {events.sid, report.sid} <= {job.sid for job in service.jobs}
events.cancel()
try:
    service.job(events.sid)
    raise SystemExit("a job that was cancelled is there")
except HTTPError as error:
    assert error.status == 404, error
try:
    service.jobs.create("abcd")
    service.jobs.create("search x | abcd")
    raise SystemExit("a command that is not there was taken")
except HTTPError as error:
    assert error.status == 400 and b"abcd" in error.body, error
assert {"main", "sdk"} <= {index.name for index in service.indexes}
expect("index=sdk sourcetype=sdkjob | stats count", [{"count": str(EVENTS)}])
