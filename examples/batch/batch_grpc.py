#!/usr/bin/env python3
"""Streams batches of 5,000 events over gRPC, and prints what is then known of the busiest address.

    pip install pyarrow grpcio grpcio-tools
    tollhouse init --preset analytics --data ./data
    printf '[[listener]]\nname = "batches"\nprotocol = "grpc"\nlisten = "127.0.0.1:8746"\n' >> data/tollhouse.toml
    tollhouse serve --data ./data
    python3 batch_grpc.py 127.0.0.1:8746
"""
import pathlib
import sys

import grpc
import pyarrow as pa
import pyarrow.compute as pc

# The description of the service: a copy of this file is all that a client needs.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "crates/server/proto"))
messages, services = grpc.protos_and_services("tollhouse/batch/v1/batch.proto")

rows = 5000


def batch(number):
    events = pa.record_batch({
        "user": pa.array([f"u{row % 700}" for row in range(rows)]).dictionary_encode(),
        # Addresses as they are in a packet: 4 or 16 bytes.
        "ip": pa.array([bytes([192, 0, 2, row % 50]) for row in range(rows)], pa.binary(4)),
    })
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_batch(events)
    # Sent again under its name, nothing of a batch counts twice.
    return messages.BatchRequest(id=f"grpc-{number}", arrow=sink.getvalue().to_pybytes())


# Answers may be larger than what gRPC takes by default, 4 MiB.
with grpc.insecure_channel(sys.argv[1], options=[("grpc.max_receive_message_length", -1)]) as channel:
    service = services.BatchServiceStub(channel)
    answers = service.Observe(batch(number) for number in range(4))
    counted, busiest = 0, 0
    for answer in answers:
        known = pa.ipc.open_stream(answer.arrow).read_all()
        assert not pc.any(known["duplicate"]).as_py()
        counted += known.num_rows
        busiest = pc.max(known["ip_lately.seen_1h"]).as_py()
    again = pa.ipc.open_stream(next(service.Observe(iter([batch(3)]))).arrow).read_all()
    assert pc.all(again["duplicate"]).as_py()
    assert busiest == counted // 50, busiest
print(f"{counted} events; the busiest address had {busiest} of them")
