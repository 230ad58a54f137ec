"""Asks the same of Quarry and of DuckDB, over the same generated logs, and compares the answers.

    compare.py QUARRY FOLDER [VOLUME [MEGABYTES]]

QUARRY is the program, FOLDER a new folder for the logs and their index. VOLUME is a file with a [volume:far] stanza for
indexes.conf: then all buckets are moved there first, and each search is a process that begins without local copies and
without a cache. With MEGABYTES of logs, a server answers all searches instead, with a cache of a hundredth of the stored
data, but at least 1 MB, the smallest that can be set: about 1,200 MB of logs have a hundred times that. DuckDB gets the lines as this file parses
them, so that nothing of Quarry's own reading is believed. Whole numbers and texts must be the same; other numbers may
differ in their last digits. `cargo xtask differential` runs it with DuckDB in a folder of its own.
"""

import csv
import datetime
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import time

import duckdb

MEGABYTES = 6
# Checks whether all buckets have been moved; each takes as long as starting a process.
LOOKS_MAX = 2000
TOLERANCE = 1e-11

FIREWALL = re.compile(
    r'(\S+)Z fw-1 action=(\w+) src_ip=(\S+) dest_ip=(\S+) dest_port=(\d+) proto=(\w+) bytes_out=(\d+) rule="([^"]*)"'
)
METRICS = re.compile(r"(\S+)Z metric=(\S+) host=(\S+) value=(\S+) unit=gauge")

F = "source=*firewall.log"
M = 'source=*metrics.log | rex "host=(?<node>\\S+)"'

# A search, the same in SQL over f (firewall) and m (metrics), and whether the order of rows counts.
CASES = [
    # Conditions.
    (f"{F} | stats count", "select count(*) as count from f"),
    (f"{F} action=blocked | stats count", "select count(*) as count from f where action = 'blocked'"),
    (f"{F} NOT action=blocked | stats count", "select count(*) as count from f where action <> 'blocked'"),
    (f"{F} action=blocked OR dest_port=22 | stats count", "select count(*) as count from f where action = 'blocked' or dest_port = 22"),
    (f"{F} bytes_out>1000 bytes_out<=50000 | stats count", "select count(*) as count from f where bytes_out > 1000 and bytes_out <= 50000"),
    (f"{F} dest_port IN (22, 25, 3389) | stats count", "select count(*) as count from f where dest_port in (22, 25, 3389)"),
    (f"{F} src_ip=8* | stats count", "select count(*) as count from f where src_ip like '8%'"),
    (f"{F} rule=\"default deny\" | stats count", "select count(*) as count from f where rule = 'default deny'"),
    (f"{F} dest_ip=10.1.2.0/24 | stats count", "select count(*) as count from f where dest_ip like '10.1.2.%'"),
    (f"{F} | where bytes_out % 7 = 3 | stats count", "select count(*) as count from f where bytes_out % 7 = 3"),
    (f"{F} | where like(dest_ip, \"%.1_\") | stats count", "select count(*) as count from f where dest_ip like '%.1_'"),
    (f"{F} | where match(src_ip, \"^8[0-4]\\.\") | stats count", "select count(*) as count from f where regexp_matches(src_ip, '^8[0-4]\\.')"),
    (f"{F} | regex rule=\"^allow\" | stats count", "select count(*) as count from f where rule like 'allow%'"),
    (f"{F} default | stats count", "select count(*) as count from f where rule = 'default deny'"),
    (f"{F} earliest=1795150000 latest=1795160000 | stats count", "select count(*) as count from f where t >= 1795150000 and t < 1795160000"),
    (f"{F} missing=* | stats count", "select count(*) as count from f where false"),
    # Aggregates.
    (f"{F} | stats count by action", "select action, count(*) as count from f group by all"),
    (f"{F} | stats count by action, proto, dest_port", "select action, proto, dest_port, count(*) as count from f group by all"),
    (f"{F} | stats sum(bytes_out) AS s avg(bytes_out) AS a min(bytes_out) AS l max(bytes_out) AS h by dest_port",
     "select dest_port, sum(bytes_out) as s, avg(bytes_out) as a, min(bytes_out) as l, max(bytes_out) as h from f group by all"),
    (f"{F} | stats range(bytes_out) AS r sumsq(bytes_out) AS q by proto",
     "select proto, max(bytes_out) - min(bytes_out) as r, sum(bytes_out::double * bytes_out) as q from f group by all"),
    (f"{F} | stats stdev(bytes_out) AS s stdevp(bytes_out) AS p var(bytes_out) AS v varp(bytes_out) AS w by dest_port",
     "select dest_port, stddev_samp(bytes_out) as s, stddev_pop(bytes_out) as p, var_samp(bytes_out) as v, var_pop(bytes_out) as w from f group by all"),
    (f"{F} | stats dc(src_ip) AS a dc(dest_ip) AS b dc(bytes_out) AS c",
     "select count(distinct src_ip) as a, count(distinct dest_ip) as b, count(distinct bytes_out) as c from f"),
    (f"{F} | stats dc(src_ip) AS d by dest_port, action", "select dest_port, action, count(distinct src_ip) as d from f group by all"),
    (f"{F} | stats values(dest_port) AS v by action", "select action, list(distinct dest_port::text order by dest_port::text) as v from f group by all"),
    (f"{F} | stats count(eval(bytes_out>1000)) AS large count by proto",
     "select proto, count(*) filter (bytes_out > 1000) as large, count(*) as count from f group by all"),
    (f"{F} | stats sum(eval(bytes_out/dest_port)) AS s by action", "select action, sum(bytes_out / dest_port) as s from f group by all"),
    (f"{F} | stats first(bytes_out) AS f last(bytes_out) AS l by dest_port",
     "select dest_port, first(bytes_out order by t desc, n desc) as f, last(bytes_out order by t desc, n desc) as l from f group by all"),
    (f"{F} | stats earliest(src_ip) AS e latest(src_ip) AS l by action",
     "select action, first(src_ip order by t, n) as e, first(src_ip order by t desc, n desc) as l from f group by all", "distinct times"),
    (f"{F} | stats min(_time) AS a max(_time) AS b by action", "select action, min(t) as a, max(t) as b from f group by all"),
    (f"{F} | stats mode(dest_port) AS m by action",
     "select action, dest_port as m from (select action, dest_port, count(*) as c from f group by all) qualify row_number() over (partition by action order by c desc, dest_port::text) = 1"),
    (f"{F} dest_port=99999 | stats count sum(bytes_out) AS s", "select 0 as count"),
    (f"{M} | stats avg(value) AS a stdev(value) AS s by metric", "select metric, avg(value) as a, stddev_samp(value) as s from m group by all"),
    (f"{M} | stats sum(value) AS s count by metric, node", "select metric, node, sum(value) as s, count(*) as count from m group by all"),
    (f"{M} | stats exactperc50(value) AS a exactperc90(value) AS b by metric", "percentiles", "percentiles"),
    (f"{M} | stats min(value) AS a max(value) AS b range(value) AS c by node", "select node, min(value) as a, max(value) as b, max(value) - min(value) as c from m group by all"),
    # Computed fields.
    (f"{F} | eval k=round(bytes_out/1000) | stats count by k", "select round(bytes_out / 1000) as k, count(*) as count from f group by all"),
    (f"{F} | eval size=case(bytes_out<100, \"small\", bytes_out<50000, \"middle\", true(), \"large\") | stats count by size",
     "select case when bytes_out < 100 then 'small' when bytes_out < 50000 then 'middle' else 'large' end as size, count(*) as count from f group by all"),
    (f"{F} | eval net=mvindex(split(src_ip, \".\"), 0) | stats count by net", "select string_split(src_ip, '.')[1]::int as net, count(*) as count from f group by all"),
    (f"{F} | rex field=dest_ip \"^(?<net>\\d+\\.\\d+)\" | stats sum(bytes_out) AS s by net", "select regexp_extract(dest_ip, '^(\\d+\\.\\d+)', 1) as net, sum(bytes_out) as s from f group by all"),
    (f"{F} | eval x=upper(substr(rule, 1, 3)).\"-\".proto | stats count by x", "select upper(substr(rule, 1, 3)) || '-' || proto as x, count(*) as count from f group by all"),
    (f"{F} | eval x=len(src_ip)+len(dest_ip) | stats count by x", "select len(src_ip) + len(dest_ip) as x, count(*) as count from f group by all"),
    (f"{F} | eval x=replace(dest_ip, \"\\.\\d+$\", \".0\") | stats count by x", "select regexp_replace(dest_ip, '\\.\\d+$', '.0') as x, count(*) as count from f group by all"),
    (f"{F} | eval x=if(action=\"blocked\", null(), dest_port) | stats count count(x) AS c by proto",
     "select proto, count(*) as count, count(*) filter (action <> 'blocked') as c from f group by all"),
    (f"{F} | eval h=strftime(_time, \"%H\") | stats count by h", "select strftime(to_timestamp(t) at time zone 'UTC', '%H')::int as h, count(*) as count from f group by all"),
    (f"{F} | eval x=floor(sqrt(bytes_out)), y=abs(dest_port-443) | stats sum(x) AS a sum(y) AS b", "select sum(floor(sqrt(bytes_out))) as a, sum(abs(dest_port - 443)) as b from f"),
    (f"{M} | eval x=round(value, 1) | stats dc(x) AS d sum(x) AS s by metric", "select metric, count(distinct round(value::decimal(12, 2), 1)) as d, sum(round(value::decimal(12, 2), 1)) as s from m group by all", "loose"),
    (f"{F} | bin bytes_out span=10000 | stats count by bytes_out", "select (bytes_out // 10000 * 10000)::text || '-' || (bytes_out // 10000 * 10000 + 10000)::text as bytes_out, count(*) as count from f group by all"),
    (f"{F} | bin _time span=2h | stats sum(bytes_out) AS s by _time", "select t // 7200 * 7200 as _time, sum(bytes_out) as s from f group by all"),
    # Time.
    (f"{F} | timechart span=1h count", "select t // 3600 * 3600 as _time, count(*) as count from f group by all order by all", "ordered"),
    (f"{F} | timechart span=30m sum(bytes_out) AS s max(dest_port) AS p", "select t // 1800 * 1800 as _time, sum(bytes_out) as s, max(dest_port) as p from f group by all order by all", "ordered"),
    (f"{F} | timechart span=4h dc(src_ip) AS d", "select t // 14400 * 14400 as _time, count(distinct src_ip) as d from f group by all order by all", "ordered"),
    (f"{F} | timechart span=6h count by action",
     "select t // 21600 * 21600 as _time, count(*) filter (action = 'allowed') as allowed, count(*) filter (action = 'blocked') as blocked from f group by all order by _time", "ordered"),
    (f"{M} | timechart span=3h avg(value) AS a", "select floor(t)::bigint // 10800 * 10800 as _time, avg(value) as a from m group by all order by all", "ordered"),
    # Tables.
    (f"{F} | chart count over dest_port by action",
     "select dest_port, count(*) filter (action = 'allowed') as allowed, count(*) filter (action = 'blocked') as blocked from f group by all order by dest_port", "ordered"),
    (f"{F} | chart sum(bytes_out) AS s over proto", "select proto, sum(bytes_out) as s from f group by all order by all", "ordered"),
    (f"{F} | top limit=3 dest_port", "select dest_port, count(*) as count, round(count(*) * 100.0 / (select count(*) from f), 6) as percent from f group by all order by count desc limit 3", "ordered"),
    (f"{F} | top limit=0 rule showperc=f", "select rule, count(*) as count from f group by all order by count desc", "ordered"),
    (f"{F} | rare limit=2 rule showperc=f", "select rule, count(*) as count from f group by all order by count limit 2", "ordered"),
    # Order.
    (f"{F} | sort - bytes_out, src_ip | head 20 | table bytes_out", "select bytes_out from f order by bytes_out desc limit 20", "ordered"),
    (f"{F} | sort 0 dest_port, -bytes_out | table dest_port bytes_out", "select dest_port, bytes_out from f order by dest_port, bytes_out desc", "ordered"),
    (f"{F} | head 25 | table src_ip bytes_out", "select src_ip, bytes_out from f order by t desc, n desc limit 25", "ordered"),
    (f"{F} | tail 25 | table src_ip bytes_out", "select src_ip, bytes_out from f order by t, n limit 25", "ordered"),
    (f"{F} | reverse | head 10 | table dest_ip", "select dest_ip from f order by t, n limit 10", "ordered"),
    (f"{F} | dedup dest_port | table dest_port bytes_out",
     "select dest_port, bytes_out from (select *, row_number() over (partition by dest_port order by t desc, n desc) as k from f) where k = 1 order by t desc, n desc", "ordered"),
    (f"{F} | dedup 2 action proto | table action proto src_ip",
     "select action, proto, src_ip from (select *, row_number() over (partition by action, proto order by t desc, n desc) as k from f) where k <= 2 order by t desc, n desc", "ordered"),
    # Rows and others.
    (f"{F} | eventstats avg(bytes_out) AS a by dest_port | where bytes_out > a | stats count by dest_port",
     "select dest_port, count(*) as count from (select *, avg(bytes_out) over (partition by dest_port) as a from f) where bytes_out > a group by all"),
    (f"{F} | eventstats max(bytes_out) AS m | where bytes_out = m | table src_ip dest_ip bytes_out", "select src_ip, dest_ip, bytes_out from f where bytes_out = (select max(bytes_out) from f)"),
    (f"{F} | streamstats count AS c sum(bytes_out) AS s by dest_port | table dest_port c s",
     "select dest_port, row_number() over w as c, sum(bytes_out) over w as s from f window w as (partition by dest_port order by t desc, n desc rows unbounded preceding) order by t desc, n desc", "ordered"),
    (f"{F} | streamstats window=5 avg(bytes_out) AS a | table a",
     "select avg(bytes_out) over (order by t desc, n desc rows 4 preceding) as a from f order by t desc, n desc", "ordered"),
    (f"{F} | streamstats current=f last(bytes_out) AS b | eval d=bytes_out-b | stats sum(d) AS s count(d) AS c",
     "select sum(bytes_out - b) as s, count(b) as c from (select bytes_out, lag(bytes_out) over (order by t desc, n desc) as b from f)"),
    (f"{F} | accum bytes_out AS a | tail 1 | table a", "select sum(bytes_out) as a from f"),
    (f"{F} | delta bytes_out AS d | stats sum(d) AS s min(d) AS l",
     "select sum(d) as s, min(d) as l from (select bytes_out - lag(bytes_out) over (order by t desc, n desc) as d from f)"),
    (f"{F} | stats sum(bytes_out) AS s by src_ip | where s>100000 | stats count", "select count(*) as count from (select sum(bytes_out) as s from f group by src_ip) where s > 100000"),
    (f"{F} | stats count by src_ip | stats count AS ips by count", "select count, count(*) as ips from (select count(*) as count from f group by src_ip) group by all"),
    (f"{F} action=blocked | stats count AS b by src_ip | join src_ip [search {F} action=allowed | stats sum(bytes_out) AS s by src_ip]",
     "select src_ip, b, s from (select src_ip, count(*) as b from f where action = 'blocked' group by 1) join (select src_ip, sum(bytes_out) as s from f where action = 'allowed' group by 1) using (src_ip)"),
    (f"{F} action=blocked | stats count AS b by src_ip | join type=left src_ip [search {F} action=allowed | stats sum(bytes_out) AS s by src_ip]",
     "select src_ip, b, s from (select src_ip, count(*) as b from f where action = 'blocked' group by 1) left join (select src_ip, sum(bytes_out) as s from f where action = 'allowed' group by 1) using (src_ip)"),
    (f"{F} | stats count by action | append [search {M} | stats count by metric]",
     "select action, null as metric, count(*) as count from f group by all union all by name select metric, count(*) as count from m group by all"),
    (f"{F} [search {F} bytes_out>18000000 | stats count by dest_ip | fields dest_ip] | stats count by dest_ip",
     "select dest_ip, count(*) as count from f where dest_ip in (select dest_ip from f where bytes_out > 18000000) group by all"),
    (f"{F} | eval p=split(src_ip, \".\") | mvexpand p | stats count by p", "select p, count(*) as count from (select unnest(string_split(src_ip, '.'))::int as p from f) group by all"),
    (f"{F} | stats count by action, proto | xyseries action proto count",
     "select action, nullif(count(*) filter (proto = 'tcp'), 0) as tcp, nullif(count(*) filter (proto = 'udp'), 0) as udp from f group by all"),
    (f"{F} | stats count by proto | addcoltotals | table count", "select count(*) as count from f group by proto union all select count(*) from f"),
    (f"{F} | fillnull value=none missing | stats count by missing", "select 'none' as missing, count(*) as count from f group by all"),
    (f"{F} | rename bytes_out AS size | stats max(size) AS m", "select max(bytes_out) as m from f"),
    ("| tstats count where source=*firewall.log", "select count(*) as count from f"),
    ("| tstats count where source=*firewall.log by _time span=3h", "select t // 10800 * 10800 as _time, count(*) as count from f group by all"),
]


def seconds(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp()


def load(base, table, log, pattern, columns):
    """Adds the lines of a log to a table, with their numbers."""
    rows = log.with_suffix(".csv")
    with open(log) as lines, open(rows, "w", newline="") as out:
        writer = csv.writer(out)
        for number, line in enumerate(lines):
            writer.writerow([number, *columns(pattern.fullmatch(line.rstrip("\n")).groups())])
    base.execute(f"copy {table} from '{rows}' (header false, nullstr '\\N')")


def database(logs):
    base = duckdb.connect()
    base.execute("create table f(n int, t bigint, action text, src_ip text, dest_ip text, dest_port int, proto text, bytes_out bigint, rule text)")
    base.execute("create table m(n int, t double, metric text, node text, value double)")
    load(base, "f", logs / "firewall.log", FIREWALL, lambda row: (int(seconds(row[0])), *row[1:]))
    load(base, "m", logs / "metrics.log", METRICS, lambda row: (seconds(row[0]), *row[1:]))
    return base


def plain(name, value):
    """A value as both sides can have it: numbers where a text is one, lists as tuples."""
    if isinstance(value, (list, tuple)):
        return plain(name, value[0]) if len(value) == 1 else tuple(plain(name, part) for part in value)
    if isinstance(value, str):
        if name == "_time" and "T" in value:
            return datetime.datetime.fromisoformat(value).timestamp()
        try:
            return float(value)
        except ValueError:
            return value
    return float(value) if isinstance(value, (int, float)) or hasattr(value, "as_tuple") else value


def row_of(pairs):
    return {name: plain(name, value) for name, value in pairs if value is not None}


def same(left, right, tolerance):
    if isinstance(left, float) and isinstance(right, float):
        return left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=1e-9)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in zip(left, right))
    return left == right


def key(row):
    return [(name, str(type(row[name])), f"{row[name]:.6g}" if isinstance(row[name], float) else str(row[name])) for name in sorted(row)]


def nearest_ranks(base):
    """Exact percentiles by rank: the value that so many of a hundred, rounded down, come before."""
    ranked = "list_sort(list(value))[least(count(value) * {0} // 100 + 1, count(value))]"
    return base.execute(f"select metric, {ranked.format(50)} as a, {ranked.format(90)} as b from m group by all")


def compare(quarry, folder, base, search, sql, how):
    answer = subprocess.run([quarry, "--data-dir", folder / "data", "search", search, "-o", "json"], capture_output=True, text=True)
    if answer.returncode != 0:
        return f"exit code {answer.returncode}: {answer.stderr.strip()}"
    found = [row_of(row.items()) for row in json.loads(answer.stdout or "[]")]
    cursor = nearest_ranks(base) if how == "percentiles" else base.execute(sql)
    names = [column[0] for column in cursor.description]
    expected = [row_of(zip(names, row)) for row in cursor.fetchall()]
    if how != "ordered":
        found, expected = sorted(found, key=key), sorted(expected, key=key)
    if len(found) != len(expected):
        return f"{len(found)} rows, {len(expected)} expected; {found[:2]} {expected[:2]}"
    tolerance = 1e-3 if how == "loose" else TOLERANCE
    for number, (left, right) in enumerate(zip(found, expected)):
        if left.keys() != right.keys() or any(not same(left[name], right[name], tolerance) for name in left):
            return f"row {number}\n    found    {left}\n    expected {right}"
    return None


def serve(quarry, data):
    command = [quarry, "--data-dir", data, "serve", "--mgmt", "127.0.0.1:0", "--hec", "127.0.0.1:0"]
    with open(data.parent / "server.log", "a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def buckets_of(quarry, data):
    """The buckets without those of internal indexes; empty while the server starts."""
    listed = subprocess.run([quarry, "--data-dir", data, "bucket", "list", "-o", "json"], capture_output=True, text=True)
    return [row for row in json.loads(listed.stdout or "[]") if not row["index"].startswith("_")]


def serve_with_small_cache(quarry, data):
    """A server whose cache has room for a hundredth of the data."""
    stored = sum(bucket["stored_bytes"] for bucket in buckets_of(quarry, data))
    megabytes = max(1, round(stored / 100 / 2**20))
    with open(data / "etc/system/local/server.conf", "a") as conf:
        conf.write(f"eviction_padding = 0\nmax_cache_size = {megabytes}\n")
    server = serve(quarry, data)
    for _ in range(LOOKS_MAX):
        if (data / "run/server.json").exists():
            print(f"a cache of {megabytes} MB for {stored / 2**20:.1f} MB of buckets")
            return server
        time.sleep(0.05)
    sys.exit("the server does not start")


def move_to_volume(quarry, data, volume):
    """Moves all buckets to a remote volume: a server uploads them, and evicts the local copies for lack of space."""
    local = data / "etc/system/local"
    local.mkdir(parents=True, exist_ok=True)
    with open(local / "indexes.conf", "a") as conf:
        conf.write(f"\n{volume}\n[default]\nremotePath = volume:far/$_index_name\n")
    with open(local / "server.conf", "a") as conf:
        conf.write("\n[cachemanager]\neviction_padding = 1000000000\n")
    server = serve(quarry, data)
    left = ["all"]
    for _ in range(LOOKS_MAX):
        buckets = buckets_of(quarry, data)
        left = [row["bucket"] for row in buckets if row["copies"] != "remote"]
        if buckets and not left:
            break
    server.terminate()
    server.wait()
    if left:
        sys.exit(f"buckets were not moved to the volume: {left}")
    shutil.rmtree(data / "cache", ignore_errors=True)


def main():
    quarry, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    volume, megabytes = (sys.argv[3:5] + [None, None])[:2]
    demo = [quarry, "demo", "--dir", folder, "--megabytes", str(megabytes or MEGABYTES)]
    subprocess.run(demo, check=True, capture_output=True)
    if volume:
        move_to_volume(quarry, folder / "data", pathlib.Path(volume).read_text())
    base = database(folder / "logs")
    cases = [(case[0], case[1], case[2] if len(case) > 2 else "") for case in CASES]
    if megabytes:
        # In so many lines, several of a group have its first and its last time, and any of them may be the answer.
        cases = [case for case in cases if case[2] != "distinct times"]
    server = serve_with_small_cache(quarry, folder / "data") if megabytes else None
    try:
        faults = [(case[0], fault) for case in cases if (fault := compare(quarry, folder, base, *case))]
    finally:
        if server:
            server.terminate()
            server.wait()
    for search, fault in faults:
        print(f"{search}\n  {fault}")
    print(f"{len(cases)} searches asked of Quarry and of DuckDB, {len(faults)} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
