"""syslog-ng (Debian): a file, sent as counted syslog over TCP and by http() to the HTTP Event Collector."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, address, daemon, environment_of, expect, hec, installed, wait_until

COUNT = 300
root = installed("syslog-ng")
(host, port), (hec_host, hec_port) = address("tcp://0"), hec()
CONFIGURATION = """@version: 3.38
options { stats-level(1); keep-hostname(yes); };
source lines { file("%s" follow-freq(0.1) flags(no-parse) host-override("web6") program-override("shopng")); };
destination counted { syslog("%s" port(%d) transport("tcp")); };
destination collector {
  http(
    url("http://%s:%d/services/collector/event") method("POST") headers("Authorization: Splunk %s")
    batch-lines(70) batch-timeout(200) workers(1)
    body('$(format-json time=$UNIXTIME host=$HOST source=$PROGRAM sourcetype=nix:syslog index=syslogng
          event=$MSG fields.facility=$FACILITY)')
  );
};
log { source(lines); destination(counted); destination(collector); };
"""


def written(folder):
    """Messages that each destination has handed over."""
    command = [root / "usr" / "sbin" / "syslog-ng-ctl", "stats", "-c", folder / "control"]
    told = subprocess.run(command, text=True, capture_output=True, check=False, env=environment_of(root)).stdout
    rows = [line.split(";") for line in told.splitlines()]
    return [int(row[5]) for row in rows if row[0].startswith("dst.") and row[4] == "written"]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    log = folder / "app.log"
    log.write_text("".join(f"sold piece={number} to Zoë\n" for number in range(COUNT)), encoding="utf-8")
    text = CONFIGURATION % (log, host, port, hec_host, hec_port, TOKEN)
    (folder / "conf").write_text(text, encoding="utf-8")
    modules = next((root / "usr" / "lib").glob("syslog-ng/*"))
    command = [root / "usr" / "sbin" / "syslog-ng", "-F", "--no-caps", "-f", folder / "conf", "-R", folder / "persist"]
    command += ["-c", folder / "control", "-p", folder / "pid", f"--module-path={modules}"]
    with daemon(command, root):
        wait_until(lambda: written(folder) == [COUNT, COUNT], "syslog-ng hands over every line")
rows = [{"msg": f"sold piece={number} to Zoë", "app": "shopng", "host": "web6"} for number in range(COUNT)]
expect(r'index=syslog web6 | rex " web6 (?<app>\w+) .*?(?<msg>sold .*)$" | table msg app host', rows)
rows = [
    {"_raw": f"sold piece={number} to Zoë", "host": "web6", "source": "shopng", "sourcetype": "nix:syslog",
     "facility": "user"}
    for number in range(COUNT)
]
expect("index=syslogng facility=user | table _raw host source sourcetype facility", rows)
