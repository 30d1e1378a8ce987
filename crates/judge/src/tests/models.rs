//! Models bound to facts: names, types, and rows that score as the model's own values do.

use catboost::{FeatureKind, FeatureValue, Model, ModelScratch};
use event::{Facts, Slot, Type, Value};
use serde_json::json;

use crate::BoundModel;

fn corpus(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/model").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Facts by name, in the slots of this order.
const FACTS: [(&str, Type); 7] = [
    ("mail.size", Type::Integer),
    ("mail.caps", Type::Float),
    ("conn.port", Type::Bool),
    ("mail.city", Type::String),
    ("user.plan", Type::Integer),
    ("user.os", Type::Ip),
    ("mail.date", Type::Time),
];

fn bind(model: Model, facts: &[(&str, Type)]) -> Result<BoundModel, String> {
    let fact = |name: &str| {
        let place = facts.iter().position(|(known, _)| *known == name).ok_or(None)?;
        Ok((Slot(place as u16), facts[place].1))
    };
    let names = || facts.iter().map(|(name, _)| (*name).to_owned()).collect();
    BoundModel::new(model, fact, names)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn features_are_facts_by_name() {
    let model = Model::from_bytes(&corpus("one_hot.cbm")).unwrap();
    let bound = bind(model.clone(), &FACTS).unwrap();
    assert_eq!(bound.slots().count(), model.features().iter().filter(|feature| feature.used).count());
    let mut facts = Facts::default();
    let mut scratch = ModelScratch::default();
    let missing = bound.raw(&facts, &mut scratch).to_vec();
    let none = |feature: usize| match model.features()[feature].kind {
        FeatureKind::Categorical => FeatureValue::Text(""),
        _ => FeatureValue::Number(f32::NAN),
    };
    assert_eq!(missing, model.raw(none, &mut scratch));

    let mut schema = event::SchemaBuilder::default();
    for (name, kind) in FACTS {
        schema.add(event::Column { name: name.into(), kind, doc: String::new(), journalled: true }).unwrap();
    }
    facts = schema.finish().empty_row();
    let ip: std::net::IpAddr = "2001:db8::17".parse().unwrap();
    let values: [Value; 6] =
        [Value::from(1500i64), 0.25.into(), true.into(), "Oslo".into(), Value::from(-2i64), ip.into()];
    for (slot, value) in (0..).zip(values) {
        facts.set(Slot(slot), value);
    }
    let inputs = [
        FeatureValue::Number(1500.0),
        FeatureValue::Number(0.25),
        FeatureValue::Number(1.0),
        FeatureValue::Text("Oslo"),
        FeatureValue::Text("-2"),
        FeatureValue::Text("2001:db8::17"),
    ];
    let here = bound.raw(&facts, &mut scratch).to_vec();
    assert_eq!(here, model.raw(|feature| inputs[feature], &mut scratch));
    assert_ne!(here, missing);

    let empty = Facts::default();
    let rows: Vec<&Facts> = (0..300).map(|row| if row % 3 == 0 { &facts } else { &empty }).collect();
    let mut batch = vec![0.0; rows.len()];
    bound.raw_batch(&rows, &mut scratch, &mut batch).unwrap();
    for (row, raw) in batch.iter().enumerate() {
        assert_eq!(*raw, if row % 3 == 0 { here[0] } else { missing[0] });
    }
    assert!(bound.raw_batch(&rows, &mut scratch, &mut batch[1..]).is_err());
}

#[test]
fn a_fact_that_nobody_fills_is_refused() {
    let check = |change: (usize, (&'static str, Type)), expected: &str| {
        let mut facts = FACTS;
        facts[change.0] = change.1;
        let model = Model::from_bytes(&corpus("one_hot.cbm")).unwrap();
        assert_eq!(bind(model, &facts).map(|_| ()).unwrap_err(), expected);
    };
    check(
        (3, ("mail.cite", Type::String)),
        "feature `mail.city`: nobody fills a fact of this name (did you mean `mail.cite`?)",
    );
    check((4, ("x", Type::Integer)), "feature `user.plan`: nobody fills a fact of this name");
    let feature = |number: i32| {
        let name = format!("f{number}");
        json!({ "feature_index": number, "flat_feature_index": number, "feature_id": name, "borders": [0.5] })
    };
    let many = json!({
        "features_info": { "float_features": (0..23).map(feature).collect::<Vec<_>>() },
        "oblivious_trees": [{ "leaf_values": [0.0, 1.0], "splits": [{ "split_type": "FloatFeature", "split_index": 0, "float_feature_index": 0, "border": 0.5 }] }],
        "scale_and_bias": [1.0, [0.0]],
    });
    let many = Model::from_bytes(many.to_string().as_bytes()).unwrap();
    let errors = bind(many, &[]).map(|_| ()).unwrap_err();
    assert_eq!(errors.lines().last(), Some("features: nobody fills 3 further ones either"));
    check(
        (1, ("mail.caps", Type::Time)),
        "feature `mail.caps`: the feature is numeric, and the fact of its name is of type time \
         (it takes a fact of type integer, float or bool)",
    );
    check(
        (3, ("mail.city", Type::Float)),
        "feature `mail.city`: the feature is categorical, and the fact of its name is of type float \
         (it takes a fact of type string, integer, bool or ip)",
    );
}
