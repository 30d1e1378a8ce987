"""Reads what two nodes have uploaded, by Polars from the server, and by DuckDB from files that are the same."""

import pathlib
import sys
import tempfile

import boto3
import duckdb
import polars

endpoint, url, *counts = sys.argv[1:]
counts = [int(count) for count in counts]
decisions = sum(count - count // 10 for count in counts)
feedback = sum(count // 10 for count in counts)

options = {
    "aws_endpoint_url": endpoint,
    "aws_allow_http": "true",
    "aws_access_key_id": "k",
    "aws_secret_access_key": "s",
    "aws_region": "us-east-1",
}
table = polars.scan_parquet(
    f"{url}/decisions/**/*.parquet", storage_options=options, hive_partitioning=True, missing_columns="insert",
    extra_columns="ignore",
)
frame = table.select("id", "pipeline", "date", "score").collect()
assert len(frame) == decisions, (len(frame), decisions)
assert frame["id"].n_unique() == decisions
assert set(frame["pipeline"].unique()) == {"mail", "web"}, frame
print("polars", len(frame))

# DuckDB's extension for S3 would come from the network: the same files from a directory.
s3 = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
bucket, prefix = url.removeprefix("s3://").split("/", 1)
with tempfile.TemporaryDirectory() as home:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for found in page["Contents"]:
            path = pathlib.Path(home, found["Key"].removeprefix(prefix + "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, found["Key"], str(path))
    rows = duckdb.sql(
        f"""
        SELECT d.pipeline, count(*), count(DISTINCT d.id), count(f.class)
        FROM read_parquet('{home}/decisions/**/*.parquet', hive_partitioning = true, union_by_name = true) d
        LEFT JOIN read_parquet('{home}/feedback/**/*.parquet', hive_partitioning = true, union_by_name = true) f
        ON f.decision = d.id
        GROUP BY ALL ORDER BY ALL
        """
    ).fetchall()
assert [row[0] for row in rows] == ["mail", "web"], rows
assert sum(row[1] for row in rows) == sum(row[2] for row in rows) == decisions, rows
assert sum(row[3] for row in rows) == feedback, rows
print("duckdb", rows)
