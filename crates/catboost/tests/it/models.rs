//! Models trained by CatBoost, and what CatBoost says of rows: scored here, alone and in a batch, from both formats.

use std::path::{Path, PathBuf};

use catboost::{FeatureColumn, FeatureKind, FeatureValue, LinkFunction, Model, ModelScratch};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A table of rows, and what CatBoost says of them.
struct ExpectedTable {
    rows: Vec<Vec<Value>>,
    raw: Vec<Vec<f64>>,
    probabilities: Option<Vec<Vec<f64>>>,
    classes: Option<Vec<String>>,
    responses: Option<Vec<f64>>,
    /// Row, dimension, feature.
    contributions: Option<Vec<Vec<Vec<f64>>>>,
}

fn close(here: f64, there: f64) -> bool {
    (here - there).abs() <= 1e-6 * there.abs().max(1e-6)
}

fn load(path: &Path) -> Model {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Model::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of a categorical value, as CatBoost's Python makes it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn input<'a>(kind: FeatureKind, value: &'a Value, text: &'a str) -> FeatureValue<'a> {
    match kind {
        FeatureKind::Numeric(_) => {
            value.as_f64().map_or(FeatureValue::Missing, |number| FeatureValue::Number(number as f32))
        }
        FeatureKind::Categorical => FeatureValue::Text(text),
    }
}

fn check(name: &str, model: &Model, expected: &ExpectedTable) {
    let texts: Vec<Vec<String>> = expected.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let mut scratch = ModelScratch::default();
    let mut alone: Vec<f64> = Vec::new();
    for (index, (row, texts)) in expected.rows.iter().zip(&texts).enumerate() {
        let read = |feature: usize| input(model.features()[feature].kind, &row[feature], &texts[feature]);
        let raw = model.raw(read, &mut scratch).to_vec();
        assert_eq!(raw.len(), expected.raw[index].len(), "{name}");
        for (here, there) in raw.iter().zip(&expected.raw[index]) {
            assert!(close(*here, *there), "{name}, row {index}: {here}, not {there}");
        }
        if let Some(probabilities) = &expected.probabilities {
            let mut here = vec![0.0; model.classes().len()];
            model.probabilities(&raw, &mut here);
            assert_eq!(here.len(), probabilities[index].len(), "{name}");
            for (here, there) in here.iter().zip(&probabilities[index]) {
                assert!(close(*here, *there), "{name}, row {index}: probability {here}, not {there}");
            }
        }
        if let Some(classes) = &expected.classes {
            let class = model.class(&raw).map(|class| model.classes()[class].as_str());
            assert_eq!(class, Some(classes[index].as_str()), "{name}, row {index}");
        }
        alone.extend(&raw);
        if let Some(responses) = &expected.responses {
            assert!(close(model.response(raw[0]), responses[index]), "{name}, row {index}");
        }
        // Exact contributions take long in a test's build: the first rows show it.
        if index >= 20 {
            continue;
        }
        let here = model.contributions(read, &mut scratch).unwrap().to_vec();
        for (raw, here) in raw.iter().zip(here.chunks(model.features().len() + 1)) {
            let sum: f64 = here.iter().sum();
            assert!(
                (sum - raw).abs() < 1e-8,
                "{name}, row {index}: contributions add up to {sum}, not {raw}"
            );
        }
        if let Some(contributions) = &expected.contributions {
            let there = contributions[index].as_flattened_values();
            assert_eq!(here.len(), there.len(), "{name}");
            for (place, (here, there)) in here.iter().zip(there).enumerate() {
                assert!(
                    (here - there).abs() < 1e-8,
                    "{name}, row {index}, {place}: adds {here}, not {there}"
                );
            }
        }
    }

    let numbers: Vec<Vec<f32>> = (0..model.features().len())
        .map(|feature| {
            let number = |row: &Vec<Value>| row[feature].as_f64().map_or(f32::NAN, |number| number as f32);
            expected.rows.iter().map(number).collect()
        })
        .collect();
    let words: Vec<Vec<&str>> = (0..model.features().len())
        .map(|feature| texts.iter().map(|row| row[feature].as_str()).collect())
        .collect();
    let columns: Vec<FeatureColumn<'_>> = model
        .features()
        .iter()
        .enumerate()
        .map(|(index, feature)| match feature.kind {
            FeatureKind::Numeric(_) => FeatureColumn::Numbers(&numbers[index]),
            FeatureKind::Categorical => FeatureColumn::Texts(&words[index]),
        })
        .collect();
    let mut batch = vec![0.0; alone.len()];
    model.raw_batch(&columns, &mut scratch, &mut batch).unwrap();
    assert_eq!(batch, alone, "{name}: a batch differs from its rows");
}

trait Flatten {
    fn as_flattened_values(&self) -> Vec<f64>;
}

impl Flatten for Vec<Vec<f64>> {
    fn as_flattened_values(&self) -> Vec<f64> {
        self.concat()
    }
}

fn floats(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().map(|value| value.as_f64().unwrap()).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn arrays(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn corpus(name: &str) -> ExpectedTable {
    let path = root().join("corpora/model").join(name).with_extension("expected");
    let value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    ExpectedTable {
        rows: arrays(&value["rows"]).iter().map(|row| arrays(row).clone()).collect(),
        raw: arrays(&value["raw"]).iter().map(floats).collect(),
        probabilities: value.get("probability").map(|rows| arrays(rows).iter().map(floats).collect()),
        classes: value.get("class").map(|rows| arrays(rows).iter().map(text).collect()),
        responses: value.get("response").map(floats),
        contributions: value
            .get("shap")
            .map(|rows| arrays(rows).iter().map(|row| arrays(row).iter().map(floats).collect()).collect()),
    }
}

/// Every model of the corpus that is not refused.
const MODELS: [&str; 21] = [
    "combinations",
    "cross_entropy",
    "ctr_gpu",
    "ctr_regression",
    "ctr_types",
    "depthwise",
    "labels",
    "lossguide",
    "multiclass",
    "nan_forbidden",
    "nan_max",
    "nan_min",
    "numeric",
    "one_hot",
    "one_hot_combined",
    "one_vs_all",
    "poisson",
    "scaled",
    "shifted",
    "tweedie",
    "uncertainty",
];

#[test]
fn the_corpus_scores_as_catboost_does() {
    for name in MODELS {
        let expected = corpus(name);
        let base = root().join("corpora/model").join(name);
        check(name, &load(&base.with_extension("cbm")), &expected);
        let json = base.with_extension("json");
        if json.exists() {
            check(&format!("{name}.json"), &load(&json), &expected);
        }
    }
}

#[test]
fn large_models_score_as_catboost_does() {
    let Some(folder) = corpora::folder("model") else { return };
    let names = [
        "num_binary",
        "cat_ctr_binary",
        "onehot_binary",
        "nan_min_binary",
        "lossguide_binary",
        "multiclass",
        "regression",
    ];
    for name in names {
        let table = std::fs::read_to_string(folder.join(format!("{name}.expected.csv"))).unwrap();
        for ending in ["cbm", "json"] {
            let model = load(&folder.join(name).with_extension(ending));
            let (features, dimension) = (model.features().len(), model.dimension());
            let mut expected = ExpectedTable {
                rows: Vec::new(),
                raw: Vec::new(),
                probabilities: (model.link() != LinkFunction::Identity).then(Vec::new),
                classes: None,
                responses: None,
                contributions: None,
            };
            for line in table.lines().skip(1) {
                let cells: Vec<&str> = line.split(',').collect();
                let cell = |feature: usize| match model.features()[feature].kind {
                    FeatureKind::Categorical => Value::from(cells[feature]),
                    FeatureKind::Numeric(_) => {
                        cells[feature].parse::<f64>().ok().filter(|number| !number.is_nan()).into()
                    }
                };
                expected.rows.push((0..features).map(cell).collect());
                let numbers: Vec<f64> = cells[features..].iter().map(|cell| cell.parse().unwrap()).collect();
                expected.raw.push(numbers[..dimension].to_vec());
                if let Some(probabilities) = &mut expected.probabilities {
                    probabilities.push(numbers[dimension..].to_vec());
                }
            }
            assert_eq!(expected.rows.len(), 1000);
            check(&format!("{name}.{ending}"), &model, &expected);
        }
    }
}
