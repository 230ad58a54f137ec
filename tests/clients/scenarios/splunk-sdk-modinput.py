"""splunk-sdk (PyPI): a modular input of apps/sdk_input, begun and read by the server itself."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import expect

COUNT, PIECES = 50, 20
FIRST_TIME = 1795132800

rows = []
for at in range(COUNT):
    row = {"_raw": f"whole={at} <&> \"quoted\" 'é' 🎉\n  second line of {at}", "at": f"at {FIRST_TIME + at}.250"}
    if at % 2 == 0:
        row |= {"index": "sdk_other", "host": "edge", "source": f"device{at}", "sourcetype": "sdk_whole"}
    else:
        row |= {"index": "sdk", "source": "sdk_input://whole", "sourcetype": "sdk_input"}
    rows.append(row)
table = 'eval at="at ".strftime(_time, "%s.%3N") | eval host=if(host="edge", host, null()) | table _raw at index host source sourcetype'
expect(f"index=sdk* whole=* | {table}", rows)

lines = [line for at in range(PIECES) for line in (f"piece={at} and its end", f"piece={at} second")]
lines.append("the last line has no break")
of_stanza = {"host": "of-the-stanza", "source": "sdk_input://pieces", "sourcetype": "sdk_lines"}
rows = [{"_raw": line, **of_stanza} for line in lines]
expect("index=sdk sourcetype=sdk_lines | table _raw host source sourcetype", rows)

messages = [{"message": f"sdk_input://{name} wrote {count}"} for name, count in [("pieces", PIECES), ("whole", COUNT)]]
search = 'index=_internal component=ExecProcessor sdk_input INFO | rex "INFO (?<message>sdk_input.*wrote \\d+)$" | table message'
expect(search, messages)
