"""Commands written with Splunk's SDK for Python, as custom commands of an app.

    run.py QUARRY FOLDER

QUARRY is the program, FOLDER a new folder. The python3 that runs this file, with splunk-sdk, runs the commands too.
`cargo xtask search-commands` prepares it.
"""

import json
import os
import pathlib
import subprocess
import sys

HEAD = """
import sys
from splunklib.searchcommands import *
"""

COMMANDS = {
    "scale": """
@Configuration()
class NAME(StreamingCommand):
    factor = Option(require=True, validate=validators.Integer())
    def stream(self, records):
        for record in records:
            record["scaled"] = float(record[self.fieldnames[0]]) * self.factor
            record["many"] = ["a", "b$;c", record["n"]]
            yield record
""",
    "numbers": """
@Configuration()
class NAME(GeneratingCommand):
    count = Option(require=True, validate=validators.Integer(0))
    def generate(self):
        for at in range(self.count):
            yield {"_time": 1795132800 + at, "n": at, "text": 'line, "%d"' % at}
""",
    "total": """
@Configuration(requires_preop=True)
class NAME(ReportingCommand):
    into = Option(require=True)
    @Configuration()
    def map(self, records):
        yield {"part": sum(float(record[name]) for record in records for name in self.fieldnames)}
    def reduce(self, records):
        yield {self.into: sum(float(record["part"]) for record in records if record.get("part"))}
""",
    "descending": """
@Configuration()
class NAME(EventingCommand):
    def transform(self, records):
        rows = sorted(records, key=lambda record: -int(record["n"]))
        self.write_info("%d rows" % len(rows))
        return iter(rows)
""",
    "careful": """
@Configuration()
class NAME(StreamingCommand):
    def stream(self, records):
        raise ValueError("no rows, please")
        yield
""",
}

ROWS = "| makeresults count=4 | streamstats count AS n | table n"

# A search, its rows, and words of its messages.
CASES = [
    (f"{ROWS} | scale factor=3 n | eval c=mvcount(many), l=mvindex(many, 1) | table n scaled c l",
     [{"n": n, "scaled": n * 3, "c": 3, "l": "b$;c"} for n in range(1, 5)], ""),
    ("| numbers count=2 | eval t=strftime(_time, \"%S\") | table t n text",
     [{"t": "00", "n": 0, "text": 'line, "0"'}, {"t": "01", "n": 1, "text": 'line, "1"'}], ""),
    ("| numbers count=120000 | stats count max(n) AS m", [{"count": 120000, "m": 119999}], ""),
    ("| numbers count=120000 | head 5 | stats count", [{"count": 5}], ""),
    (f"{ROWS} | total into=sum n", [{"sum": 10}], ""),
    (f"{ROWS} | descending", [{"n": n} for n in (4, 3, 2, 1)], "descending: 4 rows"),
    (f"{ROWS} | where n>9 | scale factor=2 n | stats count", [{"count": 0}], ""),
    (f"{ROWS} | scale n", None, "factor"),
    (f"{ROWS} | scale factor=x n", None, "factor"),
    (f"{ROWS} | careful", None, "no rows, please"),
]


def install(data):
    app = data / "etc/apps/sdk"
    for folder in ("bin", "default"):
        (app / folder).mkdir(parents=True)
    conf = "".join(f"[{name}]\nchunked = true\nfilename = {name}.py\n" for name in COMMANDS)
    (app / "default/commands.conf").write_text(conf)
    tail = "\ndispatch(NAME, sys.argv, sys.stdin, sys.stdout, __name__)\n"
    for name, text in COMMANDS.items():
        (app / f"bin/{name}.py").write_text((HEAD + text + tail).replace("NAME", name))


def same(found, expected):
    def plain(value):
        try:
            return float(value)
        except ValueError:
            return value

    return all_plain(found, plain) == all_plain(expected, plain)


def all_plain(rows, plain):
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def main():
    quarry, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    install(folder)
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
    faults = 0
    for search, expected, words in CASES:
        command = [quarry, "--data-dir", folder, "search", search, "-o", "json"]
        ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})
        found = json.loads(ran.stdout) if ran.returncode == 0 else None
        is_right = words in ran.stderr and (found is None) == (expected is None)
        if not is_right or (expected is not None and not same(found, expected)):
            faults += 1
            print(f"{search}\n  exit code {ran.returncode}, {found}, {ran.stderr.strip()}")
    print(f"{len(CASES)} searches with commands of splunk-sdk, {faults} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
