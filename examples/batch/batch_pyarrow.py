#!/usr/bin/env python3
"""Sends 5,000 events as columns, and prints what is then known of the busiest address.

    pip install pyarrow
    tollhouse init --preset analytics --data ./data && tollhouse serve --data ./data
    python3 batch_pyarrow.py http://127.0.0.1:8377
"""
import sys
import urllib.request

import pyarrow as pa
import pyarrow.compute as pc

url = sys.argv[1]
rows = 5000
events = pa.table({
    "id": pa.array([f"pyarrow-{row}" for row in range(rows)]),
    "user": pa.array([f"u{row % 700}" for row in range(rows)]).dictionary_encode(),
    # Addresses as they are in a packet: 4 or 16 bytes.
    "ip": pa.array([bytes([192, 0, 2, row % 50]) for row in range(rows)], pa.binary(4)),
    "agent": pa.array(["Firefox/139.0"] * rows).dictionary_encode(),
    "screen": pa.array(["1280x720"] * rows).dictionary_encode(),
})


def post(path, table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    request = urllib.request.Request(
        f"{url}/v1/batch/{path}",
        data=sink.getvalue().to_pybytes(),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )
    with urllib.request.urlopen(request) as answer:
        return pa.ipc.open_stream(answer.read()).read_all()


known = post("observe", events)
assert known.num_rows == rows, known.num_rows
busiest = pc.max(known["ip_lately.seen_1h"]).as_py()
# The same events again are known, and count nothing.
again = post("observe", events)
assert pc.all(again["duplicate"]).as_py() and not pc.any(known["duplicate"]).as_py()
assert pc.max(again["ip_lately.seen_1h"]).as_py() == busiest == rows // 50
decided = post("decide", events.drop_columns(["id"]))
assert set(pc.unique(decided["action"]).to_pylist()) <= {"accept", "review_after", "shadow", "reject"}
print(f"{known.num_rows} events; the busiest address had {busiest} of them")
