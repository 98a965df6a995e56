"""Makes the recordings of record.sh fit to be given away: `anonymise.py FROM TO`.

Of perf's and Perfetto's recordings only what lies between the first and the last event of ftrace's is kept (their own
start and end take seconds), and only the kernel's scheduling events: no memory maps, no host name, no command lines.
Names of tasks other than the run's own and those of kernel threads that every Linux has become "other", everywhere.
Of the kernel's release version and patch level stay. trace.dat is done by an example of crates/trace,
`anonymise_trace --keep python3 --keep record.sh`, with the same rule but for the others' numbers.
"""

import re
import struct
import sys

KEEP = {b"python3", b"python3.11", b"record.sh", b"swapper"}
KERNEL = re.compile(
    rb"^(swapper/\d+|kworker/[\w:/+.-]*|ksoftirqd/\d+|migration/\d+|rcu_\w+|kthreadd|kcompactd\d*|cpuhp/\d+|khugepaged)$"
)
OTHER = b"other"


def name(text):
    return text if text in KEEP or KERNEL.match(text) else OTHER


def release(text):
    return re.match(rb"\d+\.\d+", text)[0]


def perf_text(text):
    text += b"\0" * (64 - len(text))
    return struct.pack("<I", len(text)) + text


def path(text):
    return b"/" + name(text.split(b"/")[-1])


def field(text):
    """A char[16] field, or a text that has room."""
    return name(text.split(b"\0")[0]).ljust(len(text), b"\0")[: len(text)]


# --- texts ---------------------------------------------------------------------------------------------------------------


def text(source):
    lines = []
    for line in source.split(b"\n"):
        if not line.startswith(b"#") and b" [" in line:
            head, tail = re.match(rb"^(.*?-\d+ +(?:\([^)]*\) )?\[\d+\])(.*)$", line).groups()
            task = re.match(rb"^( *)(.*?)(-\d+ .*)$", head).groups()
            head = name(task[1]).rjust(len(task[0]) + len(task[1])) + task[2]
            key = rb"((?:prev_|next_|child_)?comm)=(.*?)(?= (?:prev_|next_|child_)?pid=)"
            tail = re.sub(key, lambda m: m[1] + b"=" + name(m[2]), tail)
            tail = re.sub(rb"filename=(.*?)(?= pid=)", lambda m: b"filename=" + path(m[1]), tail)
            line = head + tail
        lines.append(line)
    return b"\n".join(lines)


def window(source):
    times = [float(m) for m in re.findall(rb"\] +\S* +(\d+\.\d+):", source)]
    return int((min(times) - 9e-6) * 1e9), int((max(times) + 9e-6) * 1e9)


# --- perf.data -----------------------------------------------------------------------------------------------------------

SAMPLE, LOST, ATTR, TRACING, ROUND, FEATURE = 9, 2, 64, 66, 68, 80
SIZES = [(1 << 16, 8), (1, 8), (2, 8), (4, 8), (8, 8), (64, 8), (512, 8), (128, 8), (256, 8)]


def tracing_data(blob):
    """Event formats without saved names; and by event number the places of its names."""
    at = blob.index(b"header_page\0")
    head, pos = blob[:at], at

    def take(count):
        nonlocal pos
        pos += count
        return blob[pos - count : pos]

    def word(kind):
        return struct.unpack(kind, take(struct.calcsize(kind)))[0]

    for label in (b"header_page\0", b"header_event\0"):
        take(len(label))
        take(word("<Q"))
    for _ in range(word("<I")):
        take(word("<Q"))
    places = {}
    for _ in range(word("<I")):
        while take(1) != b"\0":
            pass
        for _ in range(word("<I")):
            form = take(word("<Q"))
            number = int(re.search(rb"ID: (\d+)", form)[1])
            pattern = rb"field:(__data_loc )?char(?:\[\])? (\w+)(?:\[16\])?;\s+offset:(\d+);\s+size:(\d+)"
            places[number] = [(bool(m[1]), m[2], int(m[3]), int(m[4])) for m in re.finditer(pattern, form)]
    kept = head + blob[at:pos]
    return kept + struct.pack("<IIQ", 0, 0, 0), places


def sample(body, kind, places):
    """The sample without names, and its time."""
    at = {}
    pos = 0
    for bit, size in SIZES:
        if kind & bit:
            at[bit] = pos
            pos += size
    assert not kind & (16 | 32), "no counters, no call chains"
    (length,) = struct.unpack_from("<I", body, pos)
    raw = bytearray(body[pos + 4 : pos + 4 + length])
    (number,) = struct.unpack_from("<H", raw, 0)
    for located, label, offset, size in places[number]:
        if located:
            (word,) = struct.unpack_from("<I", raw, offset)
            offset, size = word & 0xFFFF, word >> 16
        new = field(bytes(raw[offset : offset + size])) if label.endswith(b"comm") else b"\0" * size
        raw[offset : offset + size] = new
    (time,) = struct.unpack_from("<Q", body, at[4])
    return body[: pos + 4] + bytes(raw) + body[pos + 4 + length :], time, number


def records(data, at, end):
    while at < end:
        kind, misc, size = struct.unpack_from("<IHH", data, at)
        body = data[at + 8 : at + size]
        extra = struct.unpack_from("<I", body)[0] if kind == TRACING else 0
        yield kind, misc, body, data[at + size : at + size + extra]
        at += size + extra


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, len(body) + 8) + body


def kept_samples(data, at, end, kind, places, times):
    out = b""
    for number, misc, body, _ in records(data, at, end):
        if number == SAMPLE:
            body, time, event = sample(body, kind, places)
            # sched_stat_runtime is half of perf's events and says nothing that switches do not
            if times[0] <= time <= times[1] and event in places and event != places["runtime"]:
                out += record(number, misc, body)
        elif number in (ROUND, LOST):
            out += record(number, misc, body)
    return out


def runtime(blob):
    found = re.search(rb"name: sched_stat_runtime\nID: (\d+)", blob)
    return int(found[1]) if found else -1


def perf_file(data, times):
    magic, size, attr_size, *sections = struct.unpack_from("<8sQQ6Q", data)
    attrs_at, attrs_size, data_at, data_size = sections[:4]
    features = int.from_bytes(data[72:104], "little")
    table, feature = data_at + data_size, {}
    for bit in range(256):
        if features >> bit & 1:
            offset, length = struct.unpack_from("<QQ", data, table)
            feature[bit] = data[offset : offset + length]
            table += 16
    formats, places = tracing_data(feature[1])
    places["runtime"] = runtime(formats)
    kinds, attrs, ids = set(), [], b""
    for at in range(attrs_at, attrs_at + attrs_size, attr_size):
        attr = data[at : at + attr_size - 16]
        offset, length = struct.unpack_from("<QQ", data, at + attr_size - 16)
        attrs.append((attr, len(ids), length))
        ids += data[offset : offset + length]
        if struct.unpack_from("<I", attr)[0] == 2:  # a tracepoint; perf's dummy event has no samples
            kinds.add(struct.unpack_from("<Q", attr, 24)[0])
    assert len(kinds) == 1, "all tracepoints' samples look alike"
    ids_at = 104
    head_size = ids_at + len(ids)
    attr_bytes = b"".join(attr + struct.pack("<QQ", ids_at + offset, length) for attr, offset, length in attrs)
    samples = kept_samples(data, data_at, data_at + data_size, kinds.pop(), places, times)
    kept = {1: formats, 4: perf_text(release(feature[4][4:])), 5: feature[5], 7: feature[7]}
    data_at = head_size + len(attr_bytes)
    at = data_at + len(samples) + 16 * len(kept)
    table = b""
    for content in kept.values():
        table += struct.pack("<QQ", at, len(content))
        at += len(content)
    bits = sum(1 << bit for bit in kept).to_bytes(32, "little")
    places = struct.pack("<6Q", head_size, len(attr_bytes), data_at, len(samples), 0, 0)
    header = struct.pack("<8sQQ", magic, size, attr_size) + places + bits
    return header + ids + attr_bytes + samples + table + b"".join(kept.values())


def perf_pipe(data, times):
    out, kind, places = data[:16], None, None
    for number, misc, body, extra in records(data, 16, len(data)):
        if number == ATTR:
            if struct.unpack_from("<I", body)[0] == 2:
                kind = struct.unpack_from("<Q", body, 24)[0]
            out += record(number, misc, body)
        elif number == FEATURE and body[0] in (4, 5, 7):
            if body[0] == 4:
                body = body[:8] + perf_text(release(body[12:]))
            out += record(number, misc, body)
        elif number == TRACING:
            formats, places = tracing_data(extra)
            places["runtime"] = runtime(formats)
            formats += b"\0" * (-len(formats) % 8)
            out += record(number, misc, struct.pack("<I", len(formats))) + formats
        elif number == SAMPLE:
            body, time, event = sample(body, kind, places)
            if times[0] <= time <= times[1] and event != places["runtime"]:
                out += record(number, misc, body)
        elif number in (ROUND, LOST):
            out += record(number, misc, body)
    return out


# --- Perfetto ------------------------------------------------------------------------------------------------------------


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number_at(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = number_at(data, at)
        if tag & 7 == 0:
            value, at = number_at(data, at)
        else:
            length = {1: 8, 5: 4}.get(tag & 7)
            if length is None:
                length, at = number_at(data, at)
            value = data[at : at + length]
            at += length
        yield tag >> 3, tag & 7, value


def message(parts):
    out = b""
    for number, kind, value in parts:
        out += varint(number << 3 | kind)
        if kind == 0:
            out += varint(value)
        else:
            out += (varint(len(value)) if kind == 2 else b"") + value
    return out


def packed(data):
    at, out = 0, []
    while at < len(data):
        value, at = number_at(data, at)
        out.append(value)
    return out


def columns(parts, times):
    """Compact events within the window; times are differences."""
    table = [name(value) for number, _, value in parts if number == 5]
    column = {number: packed(value) for number, _, value in parts if number != 5}
    out = []
    for time, others in ((1, (2, 3, 4, 6)), (7, (8, 9, 10, 11, 12))):
        now, last, keep = 0, 0, []
        deltas = []
        for index, delta in enumerate(column.get(time, [])):
            now += delta
            if times[0] <= now <= times[1]:
                keep.append(index)
                deltas.append(now - last)
                last = now
        if keep:
            out.append((time, deltas))
            out += [(other, [column[other][index] for index in keep]) for other in others if other in column]
    parts = [(5, 2, text) for text in table] if out else []
    return parts + [(number, 2, b"".join(map(varint, values))) for number, values in out]


def event(data, times):
    parts = list(fields(data))
    time = next(value for number, _, value in parts if number == 1)
    if not times[0] <= time <= times[1]:
        return None
    out = []
    for number, kind, value in parts:
        if kind == 2 and number in (4, 17, 20, 114, 237, 238, 239, 353, 491):
            inner = [(n, k, (path if number == 237 else name)(v) if k == 2 else v) for n, k, v in fields(value)]
            value = message(inner)
        elif kind == 2 and number not in (329, 330):
            return None
        out.append((number, kind, value))
    return message(out)


def bundle(data, times):
    out, any_event = [], False
    for number, kind, value in fields(data):
        if number == 2:
            value = event(value, times)
            if value is None:
                continue
            any_event = True
        elif number == 4:
            value = message(columns(list(fields(value)), times))
            if not value:
                continue
            any_event = True
        elif number not in (1, 3):
            continue
        out.append((number, kind, value))
    return message(out) if any_event else None


def perfetto(data, times):
    out = []
    for _, _, packet in fields(data):
        parts, keep = [], False
        for number, kind, value in fields(packet):
            if number == 50:
                import zlib

                inner = perfetto(zlib.decompress(value), times)
                if inner:
                    parts, keep = [(50, 2, zlib.compress(inner, 9))], True
            elif number == 1:
                value = bundle(value, times)
                if value is not None:
                    parts.append((1, 2, value))
                    keep = True
            elif number == 10:
                parts.append((number, kind, value))
            elif number == 45:
                info = []
                for n, k, v in fields(value):
                    if n == 1:
                        v = message([(i, j, release(w) if i == 3 else w) for i, j, w in fields(v) if i in (1, 3, 4)])
                    if n in (1, 4, 8):
                        info.append((n, k, v))
                parts.append((45, 2, message(info)))
                keep = True
        if keep:
            out.append((1, 2, message(parts)))
    return message(out)


def main(source, target):
    def read(file):
        with open(f"{source}/{file}", "rb") as stream:
            return stream.read()

    def write(file, content):
        with open(f"{target}/{file}", "wb") as stream:
            stream.write(content)
        print(file, len(content))

    ftrace = read("ftrace.txt")
    times = window(ftrace)
    write("ftrace.txt", text(ftrace))
    write("perf.data", perf_file(read("perf.data"), times))
    write("perf-pipe.data", perf_pipe(read("perf-pipe.data"), times))
    for kind in ("compact", "plain", "packed"):
        write(f"{kind}.perfetto", perfetto(read(f"{kind}.perfetto"), times))


main(*sys.argv[1:])
