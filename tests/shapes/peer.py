"""A database beside Quarry, for `cargo xtask bench --shapes`: reads requests as lines of JSON, answers each with one.

    peer.py duckdb|chdb THREADS

`{"load": FOLDER, "columns": [[NAME, TYPE], ...]}` makes Parquet of what the generator wrote (DuckDB only) and opens it:
the table `parsed`, and `lines` with the same texts and nothing parsed. `{"sql": ...}` runs a statement and answers with
its wall and CPU seconds, which end when the result is there as Arrow, and with its rows. `{"zstd": FILES, "level": N}` tells how small zstd makes files. `{"clients": N, "seconds": S,
"statements": [...]}` tells how many statements a second N threads are answered (DuckDB only). `{"cpu_of": PID}` tells the CPU
time of another process to the nanosecond, which /proc gives in hundredths of a second only.
"""

import json
import math
import os
import sys
import time

# What the two databases call differently.
MACROS = {
    "duckdb": {
        "part(x, re)": "nullif(regexp_extract(x, re, 1), '')",
        "matches(x, re)": "regexp_matches(x, re)",
        "json_part(x, path)": "json_extract_string(x, path)",
        "holds(x, y)": "contains(x, y)",
        "begins(x, y)": "starts_with(x, y)",
        "ends(x, y)": "suffix(x, y)",
        "chars(x)": "length(x)",
        "bucket(t, ms)": "t // ms * (ms // 1000)",
        "whole(x)": "try_cast(x as bigint)",
        "number(x)": "try_cast(x as double)",
        "shown(x)": "cast(x as varchar)",
        "json_null(x, path)": "case json_type(x, path) when 'NULL' then 'null' end",
    },
    "chdb": {
        "part(x, re)": "nullIf(extract(assumeNotNull(x), re), '')",
        "matches(x, re)": "match(x, re)",
        "json_part(x, path)": "nullIf(JSON_VALUE(x, path), '')",
        "holds(x, y)": "position(x, y) > 0",
        "begins(x, y)": "startsWith(x, y)",
        "ends(x, y)": "endsWith(x, y)",
        "chars(x)": "lengthUTF8(x)",
        "bucket(t, ms)": "intDiv(t, ms) * intDiv(ms, 1000)",
        "whole(x)": "toInt64OrNull(x)",
        "number(x)": "toFloat64OrNull(x)",
        "shown(x)": "toString(x)",
        # JSON_VALUE says `null` by itself.
        "json_null(x, path)": "cast(null as Nullable(String))",
    },
}


class DuckDb:
    def __init__(self, threads):
        import duckdb

        self.base = duckdb.connect()
        self.base.execute(f"set threads = {threads}; set TimeZone = 'UTC'")
        for head, body in MACROS["duckdb"].items():
            self.base.execute(f"create macro {head} as {body}")

    def load(self, folder, columns):
        types = [("n", "BIGINT"), ("t", "BIGINT"), ("sourcetype", "VARCHAR"), ("raw", "VARCHAR"), *columns]
        schema = ", ".join(f"{name}: '{kind}'" for name, kind in types)
        source = f"read_json('{folder}/parsed.ndjson', format = 'newline_delimited', maximum_object_size = 67108864, columns = {{{schema}}})"
        how = "(format parquet, compression zstd)"
        for table, selected in [("parsed", "*"), ("lines", "n, t, sourcetype, raw")]:
            self.base.execute(f"copy (select {selected} from {source}) to '{folder}/{table}.parquet' {how}")
            self.base.execute(f"create or replace view {table} as select * from read_parquet('{folder}/{table}.parquet')")
        return {"parquet_bytes": os.path.getsize(f"{folder}/parsed.parquet")}

    def query(self, sql):
        table = self.base.sql(sql).to_arrow_table()
        return lambda: table


    def clients(self, statements, clients, seconds):
        """Statements that so many threads are answered, each beginning at another one."""
        import threading

        end, answered = time.perf_counter() + seconds, [0] * clients

        def ask(number):
            cursor, at = self.base.cursor(), number * len(statements) // clients
            while time.perf_counter() < end:
                cursor.sql(statements[at % len(statements)]).to_arrow_table()
                answered[number] += 1
                at += 1

        start = time.perf_counter()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"per_second": sum(answered) / (time.perf_counter() - start)}


class ChDb:
    def __init__(self, threads):
        from chdb import session
        import pyarrow

        self.pyarrow = pyarrow
        self.base = session.Session()
        self.base.query(f"set max_threads = {threads}")
        for head, body in MACROS["chdb"].items():
            name, parameters = head.split("(", 1)
            self.base.query(f"create or replace function {name} as ({parameters} -> {body}")

    def load(self, folder, columns):
        for table in ("parsed", "lines"):
            self.base.query(f"create or replace view {table} as select * from file('{folder}/{table}.parquet', Parquet)")
        return {}

    def query(self, sql):
        # In its string literals a backslash escapes; in DuckDB's it stands for itself.
        answer = self.base.query(sql.replace("\\", "\\\\"), "ArrowStream")
        data = answer.bytes()

        def rows():
            with self.pyarrow.ipc.open_stream(data) as stream:
                return stream.read_all()

        return rows


def plain(value):
    """A value that JSON has."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if hasattr(value, "as_tuple") else str(value)


def timed(database, sql):
    wall, cpu = time.perf_counter(), time.process_time()
    result = database.query(sql)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    table = result()
    columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return {"wall": wall, "cpu": cpu, "rows": [list(row) for row in zip(*columns)]}


def answer(database, request):
    if "load" in request:
        return database.load(request["load"], request["columns"])
    if "zstd" in request:
        import pyarrow

        codec = pyarrow.Codec("zstd", compression_level=request["level"])
        return {"bytes": sum(len(codec.compress(open(file, "rb").read())) for file in request["zstd"])}
    if "clients" in request:
        return database.clients(request["statements"], request["clients"], request["seconds"])
    if "cpu_of" in request:
        # The number of the CPU clock of a process, as clock_getcpuclockid makes it.
        return {"cpu": time.clock_gettime(~request["cpu_of"] << 3 | 2)}
    return timed(database, request["sql"])


def main():
    database = {"duckdb": DuckDb, "chdb": ChDb}[sys.argv[1]](int(sys.argv[2]))
    for line in sys.stdin:
        try:
            told = answer(database, json.loads(line))
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
