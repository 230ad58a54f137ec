"""Schemathesis (PyPI) tries every endpoint of a server of its own, as /services/quarry/openapi.json describes them.

No answer may be a server error or against the description. Requests are drawn from a seed (QUARRY_SEED), and every other one
is sent to an object that exists (schemathesis_hooks.py); QUARRY_EXAMPLES is how many are drawn for each endpoint. Logins and
exports are left out: it would lock itself out, and wait for the end of what does not end. So are the restart of the server and
the endpoints whose only described answer is 503: those for members of a cluster, as on a Splunk server outside any cluster.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
LEFT_OUT = "export|stream|server/control|httpauth|authentication|admin/users|auth/login"
EXAMPLES = os.environ.get("QUARRY_EXAMPLES", "4")
SEED = os.environ.get("QUARRY_SEED", "1")
HOOKS = pathlib.Path(__file__).resolve().parent.parent
ROUNDS, ROUND_SECONDS = 300, 0.1


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        command = [os.environ["QUARRY"], "--data-dir", data, "serve", "--mgmt", "127.0.0.1:0"]
        with open(pathlib.Path(folder) / "log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(command, stderr=log)
        try:
            tried(data, folder)
        finally:
            server.terminate()
            server.wait(timeout=30)
    rows = [{"schemathesis": "found nothing"}]
    print("EXPECT", json.dumps({"search": '| makeresults | eval schemathesis="found nothing" | table schemathesis', "rows": rows}))


def is_unavailable(operation):
    statuses = operation["responses"]
    return "503" in statuses and not any(status.startswith("2") for status in statuses)


def tried(data, folder):
    run_file = data / "run" / "server.json"
    for _ in range(ROUNDS):
        if run_file.exists():
            break
        time.sleep(ROUND_SECONDS)
    run_file = json.loads(run_file.read_text())
    url, authorization = f"http://{run_file['mgmt']}", f"Splunk {run_file['token']}"
    asked = urllib.request.Request(f"{url}/services/quarry/openapi.json", headers={"Authorization": authorization})
    description = pathlib.Path(folder) / "api.json"
    with urllib.request.urlopen(asked) as answer:
        described = answer.read()
    description.write_bytes(described)
    unavailable = [path for path, methods in json.loads(described)["paths"].items() if all(is_unavailable(method) for method in methods.values())]
    assert unavailable, "no endpoint is described as unavailable"
    left_out = "|".join([LEFT_OUT, *(f"^{re.escape(path)}$" for path in unavailable)])
    tool = pathlib.Path(sys.executable).parent / "st"
    command = [tool, "run", description, "--url", url, "-H", f"Authorization: {authorization}", "--checks", CHECKS]
    command += ["--max-examples", EXAMPLES, "--phases", "fuzzing,coverage", "--exclude-path-regex", left_out]
    command += ["--request-timeout", "30", "--seed", SEED, "--no-color"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HOOKS)}
    environment |= {"QUARRY_TRIED": url, "QUARRY_TRIED_AUTHORIZATION": authorization}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    # The requests that failed come before the summary, which is long.
    _, _, failures = ran.stdout.partition("= FAILURES =")
    print(failures[:6000] or ran.stdout[-6000:])
    if ran.returncode != 0:
        raise SystemExit(f"schemathesis ended with {ran.returncode}: {ran.stderr[-2000:]}")


main()
