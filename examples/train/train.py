"""Trains a CatBoost model on an export of Tollhouse's journal, and reports how it does on what came later.

    tollhouse export --data ./data --format parquet --labelled -o table.parquet
    pip install -r requirements.txt
    python train.py table.parquet --model spam.cbm --report report.json

The rows are put in the order of their events' times. The model learns from the earlier ones alone, and the report is about
the later ones, which it has never seen: what it would have done, had it been there. README.md tells the rest.
"""

import argparse
import json
import sys

import catboost
import catboost.utils
import pandas
from pandas.api import types

# Columns that say what was decided or said, or when: a model that takes them learns its own answers.
NOT_FACTS = {
    "id", "pipeline", "version", "rules_version", "preset", "preset_version", "models", "event_id", "time", "arrival",
    "duplicate", "action", "score", "probability", "rules", "label", "label_time", "signal", "signal_time",
}
# Judgements: only they are the truth. What else may stand as a label, such as `read`, was logged by a configuration whose
# `[reports]` did not yet say that it is a signal of use.
BAD = ["spam", "bad", "complaint", "abuse", "fraud"]
GOOD = ["ham", "good", "pardon"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="Parquet file that `tollhouse export --format parquet --labelled` wrote")
    parser.add_argument("--model", default="model.cbm", help="model file to write")
    parser.add_argument("--report", default="report.json", help="report to write")
    parser.add_argument("--bad", action="append", help=f"label of what is to be caught; by default any of {', '.join(BAD)}")
    parser.add_argument("--good", action="append", help=f"label of what is to pass; by default any of {', '.join(GOOD)}")
    parser.add_argument("--later", type=float, default=0.3, help="share of the rows, the latest, that is kept for the report")
    parser.add_argument("--categorical", action="append", default=[], help="text fact that the model takes as a category")
    parser.add_argument("--without", action="append", default=[], help="fact that the model does not take")
    parser.add_argument("--threshold", type=float, default=0.5, help="probability from which on an event is caught")
    parser.add_argument("--iterations", type=int, default=300, help="number of trees")
    parser.add_argument("--depth", type=int, default=4, help="depth of the trees")
    return parser.parse_args()


def features(table, args):
    """The facts that the model takes: numbers, and the texts that were asked for. Tollhouse fills them by these names."""
    unknown = [name for name in args.categorical + args.without if name not in table.columns]
    if unknown:
        sys.exit(f"the table has no column {', '.join(unknown)}")
    numbers = []
    for name in table.columns:
        if name in NOT_FACTS or name.startswith(("model.", "fact.", "line.", "calibration.")) or name in args.categorical + args.without:
            continue
        values = table[name].dropna()
        # Truths with gaps come as objects.
        is_number = types.is_numeric_dtype(table[name]) or values.map(lambda value: isinstance(value, bool)).all()
        if len(values) > 0 and is_number:
            numbers.append(name)
    taken = table[numbers].astype("float64")
    for name in args.categorical:
        # A fact that is missing is an empty text.
        taken[name] = table[name].fillna("").astype(str)
    return taken


def share(of, all):
    return of / all if all else None


def main():
    args = arguments()
    table = pandas.read_parquet(args.table)
    # An event that came twice would be learned by heart.
    table = table[table["label"].notna() & ~table["duplicate"].astype(bool)]
    table = table.sort_values(["time", "id"], kind="stable").reset_index(drop=True)
    bad = table["label"].isin(args.bad or BAD).astype(int)
    judged = table["label"].isin((args.bad or BAD) + (args.good or GOOD))
    if not judged.all():
        others = table["label"][~judged].value_counts()
        named = ", ".join(f"{count} `{label}`" for label, count in others.items())
        print(f"left out, as they are judgements of neither side (see --bad and --good): {named}", file=sys.stderr)
        table, bad = table[judged].reset_index(drop=True), bad[judged].reset_index(drop=True)
    split = int(len(table) * (1 - args.later))
    # Events of one moment are not torn apart.
    while 0 < split < len(table) and table["time"][split] == table["time"][split - 1]:
        split -= 1
    for part, name in [(bad[:split], "earlier"), (bad[split:], "later")]:
        if part.nunique() < 2:
            sys.exit(f"the {name} {len(part)} rows are not of both kinds: export more, or change --later or --bad")

    taken = features(table, args)
    earlier = catboost.Pool(taken[:split], bad[:split], cat_features=args.categorical)
    later = catboost.Pool(taken[split:], bad[split:], cat_features=args.categorical)
    model = catboost.CatBoostClassifier(
        iterations=args.iterations,
        depth=args.depth,
        # Rows are in the order of their times: encodings of categories see earlier rows only.
        has_time=True,
        random_seed=0,
        allow_writing_files=False,
        verbose=False,
    )
    model.fit(earlier)
    model.save_model(args.model)

    probability = model.predict_proba(later)[:, 1]
    caught, is_bad = probability >= args.threshold, bad[split:].to_numpy() == 1
    counts = {
        "true_positives": int((caught & is_bad).sum()),
        "false_positives": int((caught & ~is_bad).sum()),
        "false_negatives": int((~caught & is_bad).sum()),
        "true_negatives": int((~caught & ~is_bad).sum()),
    }
    importance = sorted(zip(taken.columns, model.get_feature_importance()), key=lambda pair: -pair[1])
    report = {
        "rows": {"earlier": split, "later": len(table) - split},
        "from": str(table["time"].iloc[0]),
        "split": str(table["time"][split]),
        "to": str(table["time"].iloc[-1]),
        "threshold": args.threshold,
        **counts,
        "precision": share(counts["true_positives"], counts["true_positives"] + counts["false_positives"]),
        "recall": share(counts["true_positives"], counts["true_positives"] + counts["false_negatives"]),
        "false_positive_rate": share(counts["false_positives"], counts["false_positives"] + counts["true_negatives"]),
        "auc": float(catboost.utils.eval_metric(bad[split:].to_numpy(), probability, "AUC")[0]),
        "features": [{"name": name, "importance": round(float(value), 4)} for name, value in importance if value > 0],
    }
    with open(args.report, "w") as file:
        json.dump(report, file, indent=2)
        file.write("\n")
    print(json.dumps({key: value for key, value in report.items() if key != "features"}, indent=2))


if __name__ == "__main__":
    main()
