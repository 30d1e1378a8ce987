"""Trains the small models of this folder and writes what CatBoost itself says of some rows.

    pip install catboost==1.2.10 numpy && python make.py

The rows are synthetic and seeded. For each model: `NAME.cbm`, for some `NAME.json` (CatBoost's own export without
the metadata of its training), and `NAME.expected`: the names, rows, raw values, probabilities, classes and SHAP
values, as JSON. NaN is null.
"""
import json
import math
import os

import catboost as cb
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CITIES = [
    "", "a", "Oslo", "São Paulo", "München", "17 characters ...", "a word of thirty-three characters", "北京",
    "a long text of more than sixty-four bytes, which is hashed in blocks of sixty-four bytes each",
    "a text of one hundred and twenty-eight bytes: " + "x" * 82,
]
NAMES = ["mail.size", "mail.caps", "conn.port", "mail.city", "user.plan", "user.os"]
CATEGORICAL = [3, 4, 5]
DROPPED = ["training", "output_options", "catboost_version_info", "train_finish_time", "model_guid"]


def table(count, seed, unseen=False):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        city = CITIES[rng.integers(len(CITIES))]
        plan = int(rng.integers(-2, 4))
        system = "os-%d" % rng.integers(6)
        if unseen and rng.random() < 0.4:
            city, plan = "never seen %d" % rng.integers(9), int(rng.integers(100, 200))
        rows.append([
            float(np.float32(rng.exponential(1000))), float(np.float32(rng.normal())), float(rng.integers(4)),
            city, plan, system,
        ])
    return rows


def target(rows, seed, classes=2):
    rng = np.random.default_rng(seed)
    values = []
    for size, caps, port, city, plan, system in rows:
        caps = 0.5 if math.isnan(caps) else caps
        value = caps + (0.7 if len(city) % 3 == 0 else -0.4) + 0.5 * plan * (port - 1.5) + (size > 900)
        value += (2.2 if (ord(system[-1]) + plan) % 2 == 0 else -1.5) + rng.normal() * 0.3
        values.append(value)
    if classes == 0:
        return [float(value) for value in values]
    edges = np.quantile(values, [(i + 1) / classes for i in range(classes - 1)])
    return [int(np.searchsorted(edges, value)) for value in values]


def clean(value):
    if isinstance(value, np.ndarray):
        return clean(value.tolist())
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, np.generic):
        return clean(value.item())
    return None if isinstance(value, float) and math.isnan(value) else value


def rounded(value):
    return [rounded(item) for item in value] if isinstance(value, list) else float("%.12g" % value)


def weights_are_whole(model):
    try:
        weights = np.asarray(model.get_leaf_weights())
    except AssertionError:  # of several dimensions, where CatBoost counts them wrongly
        return True
    return not np.any(np.asarray(model.get_leaf_values()).reshape(len(weights), -1)[weights == 0])


def expect(model, name, rows, categorical, names, shap=True, probability=True, label=True):
    pool = cb.Pool(rows, cat_features=categorical, feature_names=names)
    raw = np.asarray(model.predict(pool, prediction_type="RawFormulaVal")).reshape(len(rows), -1)
    out = {"names": names, "rows": clean(rows), "raw": rounded(clean(raw))}
    if probability:
        out["probability"] = rounded(clean(model.predict(pool, prediction_type="Probability")))
    if (model.get_params().get("loss_function") or "").partition(":")[0] in ("Poisson", "Tweedie"):
        out["response"] = rounded(clean(model.predict(pool, prediction_type="Exponent")))
    if label:
        out["class"] = [str(item) for item in np.asarray(model.predict(pool, prediction_type="Class")).reshape(-1)]
    if shap:
        values = np.asarray(model.get_feature_importance(pool, type="ShapValues"))
        values = values.reshape(len(rows), -1, len(names) + 1)
        # CatBoost's own contributions do not always add up: those of trees grown by leaves do not, and where a leaf
        # that no training row fell into has a value, the rows explained are counted as if they were of the training.
        if weights_are_whole(model) and np.allclose(values.sum(axis=2), raw, atol=1e-9):
            out["shap"] = rounded(clean(values))
    with open(os.path.join(HERE, name + ".expected"), "w") as file:
        head = {key: value for key, value in out.items() if key != "rows"}
        file.write(json.dumps({"rows": out["rows"], **head}, ensure_ascii=False, separators=(",", ":")) + "\n")


def save(model, name, pool, as_json=False):
    for key in DROPPED:
        if key in model.get_metadata().keys():
            model.get_metadata()[key] = "{}"
    # The options of the training are long: only the first model keeps them.
    if name != "numeric":
        loss = json.loads(model.get_metadata()["params"])["loss_function"]
        model.get_metadata()["params"] = json.dumps({"loss_function": loss})
    model.save_model(os.path.join(HERE, name + ".cbm"))
    if as_json:
        path = os.path.join(HERE, name + ".json")
        model.save_model(path, format="json", pool=pool)
        with open(path) as file:
            value = json.load(file)
        info = value["model_info"]
        params = info.get("params", {})
        if isinstance(params, dict):
            info["params"] = {"loss_function": params["loss_function"]}
        for key in DROPPED:
            info.pop(key, None)
        value["features_info"].pop("cat_features_hash", None)
        with open(path, "w") as file:
            file.write(json.dumps(value, separators=(",", ":")) + "\n")


def make(name, loss, classes, columns=range(6), labels=None, prepare=None, as_json=False, shap=True, scale=None,
         rows=None, threshold=None, count=900, **parameters):
    columns = list(columns)
    names = [NAMES[index] for index in columns]
    categorical = [place for place, index in enumerate(columns) if index in CATEGORICAL]
    learn, check = table(count, 1), rows or table(10, 2, unseen=True)
    if prepare:
        prepare(learn), prepare(check)
    y = target(learn, 3, classes)
    if classes == 0 and loss in ("Poisson", "Tweedie:variance_power=1.5"):
        y = [abs(value) for value in y]
    if labels:
        y = [labels[value] for value in y]
    learn = [[row[index] for index in columns] for row in learn]
    check = [[row[index] for index in columns] for row in check]
    pool = cb.Pool(learn, y, cat_features=categorical, feature_names=names)
    kind = cb.CatBoostRegressor if classes == 0 else cb.CatBoostClassifier
    options = dict(iterations=6, depth=3, learning_rate=0.4, border_count=12, random_seed=7, thread_count=1)
    options.update(loss_function=loss, verbose=0, allow_writing_files=False, **parameters)
    model = kind(**options)
    model.fit(pool)
    if scale:
        model.set_scale_and_bias(*scale)
    if threshold:
        model.set_probability_threshold(threshold)
    save(model, name, pool, as_json)
    check_rows = check
    if rows is None and not categorical:
        for place, borders in model.get_borders().items():
            for border in borders[:2]:
                check_rows.append(list(check_rows[0]))
                check_rows[-1][place] = float(border)
    expect(model, name, check_rows, categorical, names, shap, classes != 0, classes != 0)
    return model


def gaps(rows):
    for index, row in enumerate(rows):
        if index % 4 == 0:
            row[1] = float("nan")


def halves(rows):
    for row in rows:
        row[1] = float(row[1] > 0)


NUMERIC = range(3)
make("numeric", "Logloss", 2, NUMERIC, as_json=True, threshold=0.3)
make("combinations", "Logloss", 2, labels=["ham", "spam"], max_ctr_complexity=3, one_hot_max_size=2, as_json=True,
     iterations=8, depth=4)
CTRS = ["Borders:CtrBorderCount=5:Prior=0.3/1", "Buckets:CtrBorderCount=5:Prior=0.5/1",
        "BinarizedTargetMeanValue:CtrBorderCount=5", "Counter:CtrBorderCount=5"]
make("ctr_types", "Logloss", 2, one_hot_max_size=2, simple_ctr=CTRS, combinations_ctr=CTRS, max_ctr_complexity=2,
     as_json=True, iterations=12, depth=2, count=400)
make("ctr_regression", "RMSE", 0, one_hot_max_size=2, max_ctr_complexity=2, as_json=True,
     simple_ctr=["Borders:TargetBorderCount=3", "Buckets:TargetBorderCount=2"], count=400)
make("one_hot", "Logloss", 2, one_hot_max_size=20, as_json=True)
make("one_hot_combined", "Logloss", 2, one_hot_max_size=6, max_ctr_complexity=3, iterations=8, depth=4)
for mode in ["Min", "Max"]:
    make("nan_" + mode.lower(), "Logloss", 2, NUMERIC, prepare=gaps, nan_mode=mode, as_json=True)
make("nan_forbidden", "Logloss", 2, NUMERIC, nan_mode="Forbidden")
make("lossguide", "Logloss", 2, grow_policy="Lossguide", max_leaves=9, depth=6, one_hot_max_size=20, as_json=True)
make("depthwise", "MultiClass", 3, grow_policy="Depthwise", max_ctr_complexity=1, iterations=3, as_json=True)
make("multiclass", "MultiClass", 3, labels=["ham", "bulk", "spam"], max_ctr_complexity=1, as_json=True,
     iterations=4, count=400)
make("one_vs_all", "MultiClassOneVsAll", 3, NUMERIC)
make("cross_entropy", "CrossEntropy", 2, NUMERIC, iterations=2)
make("poisson", "Poisson", 0, NUMERIC)
make("tweedie", "Tweedie:variance_power=1.5", 0, NUMERIC, iterations=2)
make("scaled", "RMSE", 0, NUMERIC, scale=(-2.5, 0.75), as_json=True, shap=False)
make("shifted", "RMSE", 0, NUMERIC, scale=(1, 0.75), iterations=2)
make("uncertainty", "RMSEWithUncertainty", 0, NUMERIC, iterations=3)

rows = [[row[index] for index in NUMERIC] for row in table(300, 1)]
pool = cb.Pool(rows, [[int(row[1] > 0), int(row[2] > 1)] for row in rows], feature_names=NAMES[:3])
model = cb.CatBoostClassifier(iterations=3, depth=2, border_count=12, loss_function="MultiLogloss", verbose=0,
                              allow_writing_files=False, random_seed=7, thread_count=1)
model.fit(pool)
save(model, "labels", pool)
expect(model, "labels", [[row[index] for index in NUMERIC] for row in table(8, 2)], [], NAMES[:3], label=False)

# What is refused: text and embeddings.
rows, y = table(60, 1), target(table(60, 1), 3)
pool = cb.Pool([[row[1], row[3] + " word"] for row in rows], y, text_features=[1])
model = cb.CatBoostClassifier(iterations=2, depth=2, verbose=0, allow_writing_files=False, thread_count=1,
                              dictionaries=[{"dictionary_id": "Word", "max_dictionary_size": "20"}],
                              feature_calcers=["BoW:top_tokens_count=20"])
model.fit(pool)
save(model, "text", pool)
pool = cb.Pool(data=[[row[1], [row[0], row[1]]] for row in rows], label=y, embedding_features=[1])
model = cb.CatBoostClassifier(iterations=2, depth=2, verbose=0, allow_writing_files=False, thread_count=1)
model.fit(pool)
save(model, "embedding", pool)

# CTRs of a mean of the target and of a frequency are trained on a GPU only, and evaluated anywhere: made by
# renaming in the JSON of a trained model, and judged by CatBoost after it loaded that.
with open(os.path.join(HERE, "ctr_types.json")) as file:
    text = file.read()
text = text.replace("BinarizedTargetMeanValue", "FloatTargetMeanValue").replace("Counter", "FeatureFreq")
path = os.path.join(HERE, "ctr_gpu.json")
with open(path, "w") as file:
    file.write(text)
model = cb.CatBoostClassifier()
model.load_model(path, format="json")
model.save_model(os.path.join(HERE, "ctr_gpu.cbm"))
expect(model, "ctr_gpu", table(10, 2, unseen=True), CATEGORICAL, NAMES, shap=False, probability=True, label=False)
