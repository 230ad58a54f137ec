"""splunk-sdk (npm): its own test suite; every test of splunk-sdk-js-passing.txt passes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
import install
from client import SERVER, expect

NOT_HERE = 77
SECONDS = 300

try:
    folder = install.node()
except install.Missing as missing:
    print(missing)
    sys.exit(NOT_HERE)

lines = (HERE / "splunk-sdk-js-passing.txt").read_text(encoding="utf-8").splitlines()
wanted = {line for line in lines if line and not line.startswith("#")}
host, port = SERVER["mgmt"].removeprefix("http://").rsplit(":", 1)
settings = {"host": host, "port": port, "username": "admin", "password": "changeme", "scheme": "http", "version": "9.0"}
# Tests of data models and pivots pass over everything on a server whose version is below Splunk's 6, as the node's own is.
for name in ("datamodels.js", "pivot.js"):
    path = folder / "node_modules" / "splunk-sdk" / "tests" / "service_tests" / name
    path.write_text(path.read_text(encoding="utf-8").replace("that.skip = true;", "that.skip = false;"), encoding="utf-8")
with tempfile.TemporaryDirectory() as home:
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    pathlib.Path(home, ".splunkrc").write_text(text, encoding="utf-8")
    out = pathlib.Path(home, "out.json")
    command = ["node", folder / "node_modules/mocha/bin/_mocha", "tests/tests.js", "-t", "20000", "--exit"]
    command += ["-g", "^(?!.*HTTP (GET|POST|DELETE)).*$", "--reporter", "json"]
    with open(out, "w", encoding="utf-8") as written:
        environment = {**os.environ, "HOME": home, "SPLUNK_HOME": home}
        suite = folder / "node_modules" / "splunk-sdk"
        # Its logger writes of errors that the tests expect.
        subprocess.run(
            command, cwd=suite, env=environment, stdout=written, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
    told = out.read_text(encoding="utf-8")
report = json.loads(told[told.index('{\n  "stats"') :])
failed = {test["fullTitle"]: test["err"].get("message", "") for test in report["failures"]}
passed = {test["fullTitle"] for test in report["passes"]} - failed.keys()
missing = sorted(wanted - passed)
if missing:
    raise SystemExit("\n".join(f"{title}: {failed.get(title, 'it did not run')[:500]}" for title in missing))
print(f"{len(passed)} tests pass, {len(failed)} do not")
expect("index=sdk-tests | stats count", [{"count": "3"}])
