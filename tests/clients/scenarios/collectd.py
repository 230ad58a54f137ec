"""collectd (Debian): values by write_http, as JSON to the HTTP Event Collector's raw endpoint."""

import pathlib
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import TOKEN, daemon, expect, hec, installed, wait_until

COUNT = 200
root = installed("collectd")
host, port = hec()
CONFIGURATION = """Hostname "web4"
FQDNLookup false
BaseDir "{folder}"
PIDFile "{folder}/pid"
PluginDir "{plugins}"
TypesDB "{root}/usr/share/collectd/types.db"
WriteThreads 1
LoadPlugin unixsock
LoadPlugin write_http
<Plugin unixsock>
  SocketFile "{folder}/socket"
</Plugin>
<Plugin write_http>
  <Node "quarry">
    URL "http://{host}:{port}/services/collector/raw?sourcetype=collectd_http&index=collectd"
    Header "Authorization: Splunk {token}"
    Format "JSON"
    BufferSize 16384
  </Node>
</Plugin>
"""


def asked(folder, lines):
    """What collectd answers to each line on its socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / "socket"))
        stream = connection.makefile("rw", encoding="utf-8")
        answers = []
        for line in lines:
            stream.write(line + "\n")
            stream.flush()
            answers.append(stream.readline().strip())
            if line == "LISTVAL":
                # Its first line says how many follow.
                answers += [stream.readline().strip() for _ in range(int(answers[-1].split()[0]))]
        return answers


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    plugins = next((root / "usr" / "lib").glob("collectd"))
    text = CONFIGURATION.format(folder=folder, plugins=plugins, root=root, host=host, port=port, token=TOKEN)
    (folder / "conf").write_text(text, encoding="utf-8")
    with daemon([root / "usr" / "sbin" / "collectd", "-f", "-C", folder / "conf"], root):
        wait_until((folder / "socket").exists, "collectd opens its socket")
        lines = [f'PUTVAL "web4/shop-till/gauge-stock" interval=10 {1795225000 + at}:{at}' for at in range(COUNT)]
        lines += [f'PUTVAL "web4/shop/if_octets-eth{at}" interval=10 1795225000:{at}:{at + 1}' for at in range(3)]
        for line, answer in zip(lines, asked(folder, lines)):
            if not answer.startswith("0 "):
                sys.exit(f"{line}: {answer}")
        # One thread writes in the order of arrival; what it has written is kept back until it is asked for.
        last = 'PUTVAL "web4/last/gauge" interval=10 1795225000:1'
        asked(folder, [last])
        wait_until(lambda: any("web4/last/" in line for line in asked(folder, ["LISTVAL"])), "collectd takes the values")
        asked(folder, ["FLUSH plugin=write_http"])
rows = [
    {"stock": at, "plugin_instance": "till", "metric_type": "gauge", "time": 1795225000 + at, "host": "web4",
     "sourcetype": "collectd_http"}
    for at in range(COUNT)
]
expect(
    'index=collectd "metric_name:shop.gauge.stock.value"=* | rename "metric_name:shop.gauge.stock.value" AS stock '
    "| eval time=round(_time) | table stock plugin_instance metric_type time host sourcetype",
    rows,
)
expect(
    'index=collectd "metric_name:shop.if_octets.eth1.rx"=* | rename "metric_name:shop.if_octets.eth1.*" AS * '
    "| table rx tx metric_type",
    [{"rx": 1, "tx": 2, "metric_type": "derive"}],
)
