"""Reads an export as people do and says with which library. Usage: tables.py FOLDER ROWS LABELLED"""

import importlib.util
import sys

folder, rows, labelled = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
parquet, ndjson = f"{folder}/table.parquet", f"{folder}/table.ndjson"
# A closed segment of the journal: every decision, and what was said of some.
segment = f"{folder}/segment.parquet"


def there(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print("skipped: a table is read by", names[0] + ": there is no", ", ".join(missing))
    return not missing


def same(found, expected):
    if isinstance(found, list) and found != expected:
        found, expected = [x for x in found if x not in expected], [x for x in expected if x not in found]
        raise AssertionError(f"only here: {found}; only there: {expected}")
    assert found == expected, f"{found} is not {expected}"


if there("pyarrow"):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(parquet)
    same(table.num_rows, rows)
    same(len(set(table.column_names)), len(table.column_names))
    for field in table.schema:
        assert field.nullable and not pyarrow.types.is_nested(field.type), field
    same(table.schema.field("time").type, pyarrow.timestamp("us", tz="UTC"))
    same(table.schema.field("mail.size").type, pyarrow.int64())
    same(table.schema.field("mail.link_ip_host").type, pyarrow.bool_())
    same(table.column("label").null_count, rows - labelled)
    same(set(table.column("preset").to_pylist()), {"mail"})
    same(table.column("rules_version").null_count, 0)
    journal = pyarrow.parquet.read_table(segment)
    same(journal.column("what").to_pylist().count("decision"), rows)
    same(journal.column("class").null_count, rows)
    same(journal.schema.field("time").type, pyarrow.timestamp("us", tz="UTC"))
    same(journal.schema.field("mail.size").type, pyarrow.int64())
    same(journal.schema.field("rules").type.value_type, pyarrow.string())
    print("read by pyarrow")

if there("pandas", "pyarrow"):
    import pandas

    frame = pandas.read_parquet(parquet)
    lines = pandas.read_json(ndjson, lines=True, precise_float=True)
    same((len(frame), len(lines)), (rows, rows))
    same(list(frame.columns), list(lines.columns))
    same(list(frame["id"]), list(lines["id"]))
    same(list(frame["score"]), list(lines["score"]))
    same(int(frame["label"].notna().sum()), labelled)
    journal = pandas.read_parquet(segment)
    same([int(size) for size in journal["mail.size"] if size == size], [int(size) for size in frame["mail.size"]])
    print("read by pandas")

if there("polars"):
    import polars

    frame = polars.read_parquet(parquet)
    lines = polars.read_ndjson(ndjson, infer_schema_length=None)
    same((frame.height, lines.height), (rows, rows))
    same(sorted(frame.columns), sorted(lines.columns))
    same(frame["label"].null_count(), rows - labelled)
    same(frame["rules"].str.json_decode(polars.List(polars.String)).to_list(),
         lines["rules"].str.json_decode(polars.List(polars.String)).to_list())
    journal = polars.read_parquet(segment).filter(polars.col("what") == "decision")
    same(journal["rules"].to_list(), frame["rules"].str.json_decode(polars.List(polars.String)).to_list())
    same(journal["mail.size"].to_list(), frame["mail.size"].to_list())
    print("read by polars")

if there("duckdb"):
    import duckdb

    for source in (f"read_parquet('{parquet}')", f"read_json_auto('{ndjson}')"):
        same(duckdb.sql(f"SELECT count(*), count(label) FROM {source}").fetchall(), [(rows, labelled)])
        same(duckdb.sql(f"SELECT count(DISTINCT id) FROM {source} WHERE time IS NOT NULL").fetchall(), [(rows,)])
    said = "FROM segment d LEFT JOIN segment f ON f.decision = d.id WHERE d.what = 'decision'"
    duckdb.sql(f"CREATE VIEW segment AS SELECT * FROM read_parquet('{segment}')")
    same(duckdb.sql(f"SELECT count(*), count(f.class) {said}").fetchall(), [(rows, labelled)])
    print("read by duckdb")

if there("catboost", "pandas", "pyarrow"):
    import catboost
    import pandas

    frame = pandas.read_parquet(parquet)
    frame = frame[frame["label"].notna()]
    kinds = frame.dtypes
    numbers = [name for name in frame.columns if pandas.api.types.is_numeric_dtype(kinds[name])]
    features = [name for name in numbers if name not in ("score", "duplicate")]
    assert len(features) > 20, features
    pool = catboost.Pool(frame[features], frame["label"])
    model = catboost.CatBoostClassifier(iterations=5, allow_writing_files=False, silent=True).fit(pool)
    same(sorted(model.classes_), ["ham", "spam"])
    print("read by catboost")
