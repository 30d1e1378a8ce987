//! Stage 7: what the journal takes of a plan.

use journal::{Journal, JournalError, KindDescription, Options, VersionDescription};

use plan::{JournalPlan, NodePlan, Pipeline};

/// The journal's options of a node.
pub(crate) fn options(node: &NodePlan) -> Options {
    let JournalPlan { segment, rotate, keep, keep_bytes, .. } = node.journal;
    Options { segment, rotate, keep, keep_bytes }
}

/// Has the journal keep what is needed to read a pipeline's rows.
pub(crate) fn describe(journal: &Journal, pipeline: &Pipeline) -> Result<(), JournalError> {
    journal.describe(&pipeline.version, &description(pipeline), &pipeline.canonical)
}

/// The meaning of a pipeline's rows.
pub(crate) fn description(pipeline: &Pipeline) -> VersionDescription {
    let kinds = pipeline.kinds.iter().map(|plan| {
        let mut fields = plan.fields.as_slice().iter().map(|field| (field.slot, field.normalise.to_string()));
        KindDescription {
            kind: plan.kind,
            name: plan.name.clone(),
            piece: fields.next(),
            counters: plan.counters.as_slice().to_vec(),
            windows: plan.windows.as_slice().to_vec(),
            aggregate: plan.aggregate_names(),
            further: fields.collect(),
        }
    });
    let distincts = pipeline.distincts.iter().map(|plan| KindDescription {
        kind: plan.kind,
        name: plan.name.clone(),
        piece: None,
        counters: vec!["distinct".to_owned()],
        windows: plan.windows.as_slice().to_vec(),
        aggregate: Vec::new(),
        further: Vec::new(),
    });
    let rules = pipeline.rules.rules().iter().map(|rule| (rule.name.clone(), rule.description.clone()));
    VersionDescription {
        columns: pipeline.schema.columns().to_vec(),
        kinds: kinds.chain(distincts).collect(),
        rules: rules.collect(),
        rules_version: Some(pipeline.rules.version().to_owned()),
        models: pipeline.model_versions(),
        preset: pipeline.preset.map(|preset| (preset.name.to_owned(), preset.version())),
    }
}
