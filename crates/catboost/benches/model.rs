//! Cost of scoring a row with a CatBoost model: alone, in batches, and explained.
//!
//! `cargo bench -p tollhouse-catboost --bench model`. With `--serve MODEL TABLE` it is one side of
//! `scripts/bench-model`: for each line of its standard input it scores all rows once, in the way that the line
//! names, and prints the seconds. Under `cargo test --benches` it runs small.

use std::hint::black_box;
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use catboost::{FeatureColumn, FeatureKind, FeatureValue, Model, ModelScratch, category};

/// Rows of a table, by column: numbers of numeric features, texts of categorical ones.
struct Table {
    rows: usize,
    numbers: Vec<Vec<f32>>,
    texts: Vec<Vec<String>>,
    hashes: Vec<Vec<u32>>,
}

impl Table {
    /// The first columns of a file of comma-separated values are those of the model's features.
    fn read(path: &Path, model: &Model, repeat: usize) -> Table {
        let text = std::fs::read_to_string(path).expect("the table can be read");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let lines: Vec<Vec<&str>> =
            lines.repeat(repeat).into_iter().map(|line| line.split(',').collect()).collect();
        let texts: Vec<Vec<String>> = (0..model.features().len())
            .map(|feature| lines.iter().map(|line| line[feature].to_owned()).collect())
            .collect();
        let number = |text: &String| text.parse().unwrap_or(f32::NAN);
        Table {
            rows: lines.len(),
            numbers: texts.iter().map(|column| column.iter().map(number).collect()).collect(),
            hashes: texts
                .iter()
                .map(|column| column.iter().map(|text| category(text.as_bytes())).collect())
                .collect(),
            texts,
        }
    }

    fn input(&self, model: &Model, feature: usize, row: usize) -> FeatureValue<'_> {
        match model.features()[feature].kind {
            FeatureKind::Numeric(_) => FeatureValue::Number(self.numbers[feature][row]),
            FeatureKind::Categorical => FeatureValue::Text(&self.texts[feature][row]),
        }
    }
}

/// Seconds that it takes to score all rows of the table once.
fn score(how: &str, model: &Model, table: &Table, scratch: &mut ModelScratch) -> f64 {
    let texts: Vec<Vec<&str>> =
        table.texts.iter().map(|column| column.iter().map(String::as_str).collect()).collect();
    let column = |feature: usize| match model.features()[feature].kind {
        FeatureKind::Numeric(_) => FeatureColumn::Numbers(&table.numbers[feature]),
        FeatureKind::Categorical if how == "batch" => FeatureColumn::Categories(&table.hashes[feature]),
        FeatureKind::Categorical => FeatureColumn::Texts(&texts[feature]),
    };
    let columns: Vec<FeatureColumn<'_>> = (0..model.features().len()).map(column).collect();
    let mut out = vec![0.0; table.rows * model.dimension()];
    let start = Instant::now();
    match how {
        "batch" | "batch-of-texts" => {
            model.raw_batch(black_box(&columns), scratch, &mut out).expect("the columns fit the model");
        }
        "rows" => {
            for row in 0..table.rows {
                black_box(model.raw(|feature| table.input(model, feature, row), scratch));
            }
        }
        _ => {
            for row in 0..table.rows.min(100) {
                let read = |feature: usize| table.input(model, feature, row);
                black_box(model.contributions(read, scratch).expect("the model has weights"));
            }
        }
    }
    black_box(&out);
    start.elapsed().as_secs_f64()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(place) = args.iter().position(|arg| arg == "--serve") {
        let bytes = std::fs::read(&args[place + 1]).expect("the model can be read");
        let model = Model::from_bytes(&bytes).expect("the model is whole");
        let table = Table::read(Path::new(&args[place + 2]), &model, 5);
        let mut scratch = ModelScratch::default();
        for line in std::io::stdin().lock().lines() {
            println!("{}", score(&line.expect("a line is text"), &model, &table, &mut scratch));
        }
        return;
    }
    let small = !args.iter().any(|arg| arg == "--bench");
    let rounds = if small { 1 } else { 50 };
    let Some(folder) = corpora::folder("model") else { return };
    println!("{:>16}  {:>9}  {:>9}  {:>9}  {:>9}", "ns a row", "batch", "of texts", "alone", "explained");
    for name in ["num_binary", "cat_ctr_binary", "onehot_binary", "lossguide_binary", "multiclass"] {
        let bytes = std::fs::read(folder.join(name).with_extension("cbm")).expect("the model can be read");
        let model = Model::from_bytes(&bytes).expect("the model is whole");
        let table = Table::read(&folder.join(format!("{name}.expected.csv")), &model, 5);
        let mut scratch = ModelScratch::default();
        let mut best = |how: &str, rounds: usize, rows: usize| {
            let seconds = (0..rounds).map(|_| score(how, &model, &table, &mut scratch));
            seconds.fold(f64::INFINITY, f64::min) / rows as f64 * 1e9
        };
        let batch = best("batch", rounds, table.rows);
        let texts = best("batch-of-texts", rounds, table.rows);
        let alone = best("rows", rounds, table.rows);
        let explained = best("explained", 1, table.rows.min(100));
        println!("{name:>16}  {batch:>9.1}  {texts:>9.1}  {alone:>9.1}  {explained:>9.0}");
    }
}
