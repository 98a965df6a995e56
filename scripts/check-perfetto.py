#!/usr/bin/env python3
"""Does a Perfetto file of ours fit Perfetto's own definitions? `pip install perfetto protobuf`, then: check-perfetto.py FILE...

Every byte must be a field that perfetto_trace.proto knows, each CPU's events must be in order, and every event must be of a known kind.
"""
import collections
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto


def unknown(message, place, found):
    """Notes fields that the definitions do not have."""
    for field in UnknownFieldSet(message):
        found[f"{place}: field {field.field_number}"] += 1
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for each in [value] if isinstance(value, type(message)) or hasattr(value, "ListFields") else value:
            if hasattr(each, "ListFields"):
                unknown(each, f"{place}.{descriptor.name}", found)


def check(path):
    trace = proto.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    found, kinds, texts, last = collections.Counter(), collections.Counter(), collections.Counter(), {}
    backwards = 0
    unknown(trace, "Trace", found)
    for packet in trace.packet:
        if not packet.HasField("ftrace_events"):
            continue
        for event in packet.ftrace_events.event:
            kind = event.WhichOneof("event")
            kinds[kind or "(none)"] += 1
            cpu = packet.ftrace_events.cpu
            backwards += event.timestamp < last.get(cpu, 0)
            last[cpu] = event.timestamp
            if kind == "print":
                texts["".join(c if not c.isdigit() else "N" for c in event.print.buf.strip())] += 1
    print(f"{path}: {len(trace.packet)} packets, {len(last)} CPUs, {sum(kinds.values())} events")
    for kind, count in kinds.most_common():
        print(f"  {count:9} {kind}")
    for text, count in texts.most_common(8):
        print(f"  {count:9} print: {text}")
    for place, count in found.items():
        print(f"  NOT KNOWN: {count} {place}")
    print(f"  {backwards} events out of order on their CPU, {sum(found.values())} fields that the definitions lack")
    return not found and not backwards and "(none)" not in kinds


if __name__ == "__main__":
    sys.exit(0 if all([check(path) for path in sys.argv[1:]]) else 1)
