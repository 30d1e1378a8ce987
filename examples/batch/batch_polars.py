#!/usr/bin/env python3
"""Sends a data frame of 5,000 events, and joins what is then known of each to it.

    pip install polars
    tollhouse init --preset analytics --data ./data && tollhouse serve --data ./data
    python3 batch_polars.py http://127.0.0.1:8377
"""
import io
import sys
import urllib.request
from datetime import datetime, timedelta, timezone

import polars as pl

url = sys.argv[1]
rows = 5000
start = datetime(2026, 5, 17, 8, 0, tzinfo=timezone.utc)
events = pl.DataFrame({
    "time": [start + timedelta(seconds=row) for row in range(rows)],
    "user": [f"u{row % 700}" for row in range(rows)],
    "ip": [f"192.0.2.{row % 50}" for row in range(rows)],
    "agent": pl.Series(["Firefox/139.0"] * rows, dtype=pl.Categorical),
    "screen": pl.Series(["1280x720"] * rows, dtype=pl.Categorical),
})


def post(path, frame):
    body = io.BytesIO()
    frame.write_ipc_stream(body, compat_level=pl.CompatLevel.oldest())
    request = urllib.request.Request(
        f"{url}/v1/batch/{path}",
        data=body.getvalue(),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )
    with urllib.request.urlopen(request) as answer:
        return pl.read_ipc_stream(io.BytesIO(answer.read()))


known = post("observe", events)
assert known.height == rows, known.height
joined = pl.concat([events, known], how="horizontal")
pace = joined.group_by("ip").agg(pl.col("ip_lately.seen_1h").max()).sort("ip_lately.seen_1h", descending=True)
assert pace.height == 50 and pace["ip_lately.seen_1h"][0] > 50, pace
decided = post("decide", events)
assert decided["score"].is_finite().all() and set(decided["action"].unique()) <= {"accept", "review_after", "shadow", "reject"}
print(f"{known.height} events; the busiest address had {pace['ip_lately.seen_1h'][0]} within an hour")
