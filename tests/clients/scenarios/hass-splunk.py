"""hass-splunk (PyPI): Home Assistant's asynchronous sender; it probes with an empty body first."""

import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import aiohttp
from client import TOKEN, expect, hec
from hass_splunk import hass_splunk


async def main():
    host, port = hec()
    async with aiohttp.ClientSession() as session:
        sender = hass_splunk(session=session, host=host, port=port, token=TOKEN, use_ssl=False, verify_ssl=False)
        assert await sender.check(connectivity=True, token=True, busy=True), "the probe fails"
        for number in range(50):
            payload = {
                "time": 1795225000 + number, "host": "home", "index": "hass",
                "event": {"entity_id": f"sensor.t{number}", "value": number / 2, "domain": "sensor"},
            }
            await sender.queue(payload, send=number == 49)


asyncio.run(main())
rows = [{"entity_id": f"sensor.t{number}", "time": str(1795225000 + number), "host": "home"} for number in range(50)]
expect("index=hass | eval time=round(_time) | table entity_id time host", rows)
