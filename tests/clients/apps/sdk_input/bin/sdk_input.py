"""A modular input over splunklib.modularinput: whole events, events in pieces, and what an event may say of itself."""

import pathlib
import sys

from splunklib.modularinput import Argument, Event, EventWriter, Scheme, Script

FIRST_TIME = 1795132800


class Input(Script):
    def get_scheme(self):
        scheme = Scheme("Events of the SDK")
        scheme.description = "writes what EventWriter can"
        scheme.use_external_validation = False
        scheme.use_single_instance = True
        scheme.add_argument(Argument("count", data_type=Argument.data_type_number, required_on_create=True))
        return scheme

    def stream_events(self, inputs, writer):
        # What a program keeps itself must be there, and be writable.
        pathlib.Path(inputs.metadata["checkpoint_dir"], "runs").open("a", encoding="utf-8").write("run\n")
        for stanza, settings in inputs.inputs.items():
            count = int(settings["count"])
            if stanza.endswith("whole"):
                self.whole(stanza, count, writer)
            else:
                self.pieces(stanza, count, writer)
            writer.log(EventWriter.INFO, f"{stanza} wrote {count}")

    def whole(self, stanza, count, writer):
        for at in range(count):
            event = Event(data=f"whole={at} <&> \"quoted\" 'é' 🎉\n  second line of {at}", stanza=stanza, unbroken=False)
            event.time = f"{FIRST_TIME + at}.250"
            if at % 2 == 0:
                event.host, event.source, event.sourceType, event.index = "edge", f"device{at}", "sdk_whole", "sdk_other"
            writer.write_event(event)

    def pieces(self, stanza, count, writer):
        for at in range(count):
            half = f"piece={at} "
            writer.write_event(Event(data=half, stanza=stanza, done=False))
            writer.write_event(Event(data=f"and its end\npiece={at} second\n", stanza=stanza, done=False))
        writer.write_event(Event(data="the last line has no break", stanza=stanza))


if __name__ == "__main__":
    sys.exit(Input().run(sys.argv))
