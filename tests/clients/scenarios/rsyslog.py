"""rsyslog (Debian): a file, forwarded over TCP with counted messages, over TCP by lines, and over UDP."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import address, daemon, expect, installed, wait_until

COUNT = 300
root = installed("rsyslog")
(tcp_host, tcp_port), (udp_host, udp_port) = address("tcp://0"), address("udp://127.0.0.1:0")
ways = {
    "counted": f'target="{tcp_host}" port="{tcp_port}" protocol="tcp" TCP_Framing="octet-counted"',
    "lines": f'target="{tcp_host}" port="{tcp_port}" protocol="tcp"',
    "datagrams": f'target="{udp_host}" port="{udp_port}" protocol="udp"',
}
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    log = folder / "app.log"
    log.write_text("".join(f"sold piece={number} to Zoë\n" for number in range(COUNT)), encoding="utf-8")
    # An action for each way, named in what it sends; the last one writes what has passed all of them.
    parts = [
        f'template(name="{way}" type="string" '
        f'string="<13>1 2026-11-20T10:00:00.25Z web5 {way} 7 - - %msg%{end}")\n'
        for way, end in [("counted", ""), ("lines", ""), ("datagrams", "")]
    ]
    parts += [f'action(type="omfwd" {place} template="{way}")\n' for way, place in ways.items()]
    (folder / "conf").write_text(
        'global(workDirectory="%s" localHostname="web5")\n'
        'main_queue(queue.type="Direct")\n'
        'module(load="imfile" mode="inotify")\n'
        'input(type="imfile" file="%s" tag="shop:" readTimeout="1")\n%s'
        'action(type="omfile" file="%s" flushOnTXEnd="on")\n' % (folder, log, "".join(parts), folder / "passed"),
        encoding="utf-8",
    )
    modules = next((root / "usr" / "lib").glob("*/rsyslog"))
    command = [root / "usr" / "sbin" / "rsyslogd", "-n", "-f", folder / "conf", "-i", folder / "pid", "-M", modules]
    passed = folder / "passed"
    with daemon(command, root):
        wait_until(lambda: passed.exists() and passed.read_bytes().count(b"\n") >= COUNT, "rsyslog passes every line")
rows = [
    {"msg": f"sold piece={number} to Zoë", "host": "web5", "app": way, "time": "1795168800.25"}
    for number in range(COUNT)
    for way in ways
]
expect(
    r'index=syslog piece=* "web5" | rex "web5 (?<app>\w+) 7 - - (?<msg>.*)$" | eval time=round(_time, 2) '
    "| search app=* | table msg host app time",
    rows,
)
