//! The page of a decision: why it was made, of what, and what can be done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use event::Time;
use futures_util::future::join_all;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::charts::{PointScale, TimelineChart, diverging_bar, span_bar};
use super::format::{
    CELL, WHOLE, inside, is_default, json, key_url, length, number, percent, plain, points, signed, time,
    url, value,
};
use super::frame::{ConsoleSection, redirect, secret};
use super::keys::ban_form;
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use super::{allow_list, band_table, similar};
use crate::api::{BandJson, ExplanationJson, KeyReadingJson, PipelineJson, ReasonJson, TimelineJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::statistics::{self, TimelineParams};
use crate::protocol::http::{QueryParams, feedback, node};

/// Timelines of keys that are drawn.
const TIMELINES: usize = 10;
/// The time that is spent on each of them.
const PATIENCE: Duration = Duration::from_millis(100);
/// Values that are offered to be allowed.
const ALLOWABLE: usize = 20;
/// Conditions that are offered to begin a rule with, and those of one fact.
const CONDITIONS: usize = 60;
const CONDITIONS_OF_FACT: usize = 5;
/// Reasons that the sentence names.
const NAMED_REASONS: usize = 3;

/// The page.
pub(super) async fn page(Path(id): Path<String>, visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let explanation = feedback::explained(&visit.node, &id, false).await?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let pipeline = pipelines.into_iter().find(|pipeline| pipeline.name == explanation.pipeline);
    let timelines = timelines(&visit, &explanation).await;
    let decision = DecisionPage {
        visit: &visit,
        id: &id,
        of: &explanation,
        pipeline: pipeline.as_ref(),
        timelines: &timelines,
    };
    let back = format!("/console/decisions/{id}");
    let allowed = allow_list::card(&visit, &decision.allowable(), &back).await;
    let frame = visit.frame(fill("decision.title", &[("id", &plain(&id, CELL))]), ConsoleSection::Decisions);
    Ok(frame.page(&decision.content(&allowed)))
}

/// The timelines of keys, by their place among the decision's: the first of them, as far as they are at hand in time.
async fn timelines(visit: &ConsoleVisit, of: &ExplanationJson) -> BTreeMap<usize, TimelineJson> {
    let plan = visit.node.engine.plan();
    let Some(plan) = plan.pipeline(Some(&of.pipeline)) else { return BTreeMap::new() };
    let is_reported = |key: &KeyReadingJson| {
        plan.kinds.iter().any(|kind| kind.name == key.kind && !plan.is_of_near_duplicates(kind))
    };
    let keys = of.keys.iter().enumerate().filter(|(_, key)| is_reported(key));
    let keys = keys.filter_map(|(place, key)| Some((place, key.kind.clone(), key.piece.clone()?)));
    let looks = keys.take(TIMELINES).map(async |(place, kind, value)| {
        let asked = TimelineParams { pipeline: Some(of.pipeline.clone()), kind, value, from: None, to: None };
        let known = statistics::timeline(State(visit.node.clone()), QueryParams(asked));
        let known = timeout(PATIENCE, known).await.ok()?.ok()?;
        Some((place, known.0))
    });
    join_all(looks).await.into_iter().flatten().collect()
}

/// The decision that would be made on an event that was only checked: without an id, and nothing to be done about it.
pub(super) fn without_trace(visit: &ConsoleVisit, of: &ExplanationJson, pipeline: &PipelineJson) -> Markup {
    let page = DecisionPage { visit, id: "", of, pipeline: Some(pipeline), timelines: &BTreeMap::new() };
    html! { (page.head()) (page.findings()) }
}

/// The sentence on a decision that people are to look at, and all that is known of it.
pub(super) fn under_review(
    visit: &ConsoleVisit,
    id: &str,
    of: &ExplanationJson,
    pipeline: Option<&PipelineJson>,
) -> (Markup, Markup) {
    let page = DecisionPage { visit, id, of, pipeline, timelines: &BTreeMap::new() };
    (page.head(), page.findings())
}

/// A fact's name and value.
type Fact<'a> = (&'a String, &'a Value);

/// A decision and the pipeline as it is now.
struct DecisionPage<'a> {
    visit: &'a ConsoleVisit,
    id: &'a str,
    of: &'a ExplanationJson,
    pipeline: Option<&'a PipelineJson>,
    timelines: &'a BTreeMap<usize, TimelineJson>,
}

impl DecisionPage<'_> {
    fn content(&self, allowed: &Markup) -> Markup {
        html! {
            (self.head())
            div.columns {
                div.main { (self.findings()) }
                aside aria-label=(t("decision.actions")) {
                    (self.feedback())
                    (self.similar())
                    (self.ban())
                    (allowed)
                    (self.rule())
                    (self.about())
                }
            }
        }
    }

    /// All that is known of it, the weightiest first.
    fn findings(&self) -> Markup {
        html! {
            (self.contributions())
            (super::preview::preview(self.visit, self.of))
            (self.effects())
            (self.keys())
            (self.near_misses())
            (self.models())
            (self.classifiers())
            (self.promises())
            (self.facts())
        }
    }

    fn action(&self) -> &'static str {
        self.of.action.map_or("", |action| action.name())
    }

    /// The lines of the score, if they are those by which it was decided.
    fn lines(&self) -> &[BandJson] {
        let same = self.pipeline.filter(|pipeline| pipeline.version == self.of.version);
        same.map_or(&[], |pipeline| &pipeline.bands)
    }

    fn counts(&self, reason: &ReasonJson) -> f64 {
        self.of.shares.get(&reason.name).map_or(reason.score, |share| share.counts)
    }

    fn description(&self, reason: &ReasonJson) -> String {
        let text = self.of.rules.get(&reason.name).filter(|text| !text.is_empty()).unwrap_or(&reason.name);
        inside(&plain(text, CELL))
    }

    /// The rules that the sentence names: those that set the action, or else those that raised the score.
    fn telling(&self) -> Vec<&ReasonJson> {
        let setters: Vec<&str> = self
            .of
            .effects
            .iter()
            .filter(|effect| effect.verb == "set" && effect.action.as_deref() == Some(self.action()))
            .map(|effect| effect.rule.as_str())
            .collect();
        let is_setter = |reason: &&ReasonJson| setters.contains(&reason.name.as_str());
        let mut telling: Vec<&ReasonJson> = self.of.reasons.iter().filter(is_setter).collect();
        let raises = |reason: &&ReasonJson| self.counts(reason) > 0.0 && !is_setter(reason);
        let mut raising: Vec<&ReasonJson> = self.of.reasons.iter().filter(raises).collect();
        raising.sort_by(|one, other| self.counts(other).total_cmp(&self.counts(one)));
        telling.extend(raising);
        telling.truncate(NAMED_REASONS);
        telling
    }

    /// The sentence that says why.
    fn sentence(&self) -> Markup {
        let acted = word("acted", self.action());
        let telling = self.telling();
        let score = self.of.score.unwrap_or(0.0);
        if self.action() == "accept" || telling.is_empty() {
            let rest = match &self.of.next {
                Some(next) => fill(
                    "decision.below",
                    &[
                        ("score", &points(score)),
                        ("distance", &points(next.distance)),
                        ("action", &word("action", next.action.name())),
                    ],
                ),
                None => fill("decision.with_score", &[("score", &points(score))]),
            };
            return html! { strong { (acted) } (rest) };
        }
        let all = self.of.reasons.iter().filter(|reason| self.counts(reason) > 0.0).count();
        let more = all.saturating_sub(telling.len());
        html! {
            strong { (acted) } " " (t("decision.because")) " "
            @for (index, reason) in telling.iter().enumerate() {
                @if index > 0 {
                    "; " @if index + 1 == telling.len() && more == 0 { (t("decision.and")) " " }
                }
                (value(&self.description(reason), CELL))
            }
            @if more > 0 { "; " (counted("decision.one_more", "decision.more", more as u64)) }
            "."
        }
    }

    fn head(&self) -> Markup {
        let of = self.of;
        html! {
            div.head {
                p.crumbs { span.badge.(self.action()) { (word("action", self.action())) } @if !self.id.is_empty() { code { (plain(self.id, CELL)) } } }
                h1.sentence { (self.sentence()) }
                dl.figures {
                    div { dt { (t("decision.score")) } dd { (points(of.score.unwrap_or(0.0))) } }
                    @for band in self.lines() {
                        div.dim { dt { (fill("decision.line", &[("action", &word("action", band.action.name()))])) } dd { (points(band.at)) } }
                    }
                    div { dt { (t("decision.probability")) } dd { (percent(of.probability.unwrap_or(0.0))) } }
                    div { dt { (t("decision.time")) } dd { (time(of.time.0, self.visit.now)) } }
                    div { dt { (t("common.pipeline")) } dd { a href=(url("/console/rules", &[("pipeline", &of.pipeline)])) { (of.pipeline) } } }
                }
            }
        }
    }

    /// The part of the score that each rule added, up to the lines.
    fn contributions(&self) -> Markup {
        let of = self.of;
        let lines: Vec<f64> = self.lines().iter().map(|band| band.at).collect();
        let mut sum = 0.0;
        let steps: Vec<(&ReasonJson, f64, f64)> = of
            .reasons
            .iter()
            .map(|reason| {
                let before = sum;
                sum += self.counts(reason);
                (reason, before, sum)
            })
            .collect();
        let reached = steps.iter().map(|(_, _, after)| *after).chain(of.score);
        // A line far beyond would leave no room for the rest.
        let scale = PointScale::of(reached.chain(lines.iter().copied()));
        html! {
            section {
                h2 #why { (t("decision.why")) }
                @if steps.is_empty() {
                    p.dim { (t("decision.no_reasons")) }
                } @else {
                    div.scroll tabindex="0" role="region" aria-labelledby="why" {
                        table.waterfall {
                            thead { tr {
                                th scope="col" { (t("decision.rule")) }
                                th scope="col" { (t("decision.saw")) }
                                th.number scope="col" { (t("decision.adds")) }
                                th.bar scope="col" { (self.legend()) }
                            } }
                            tbody {
                                @for (reason, before, after) in &steps {
                                    tr {
                                        th scope="row" {
                                            a.rule href=(self.rule_url(&reason.name)) { (value(&reason.name, CELL)) }
                                            @if let Some(text) = of.rules.get(&reason.name) { span.description { (value(text, CELL)) } }
                                        }
                                        td.saw { (value(&reason.detail, CELL * 2)) }
                                        td.number { (signed(self.counts(reason))) }
                                        td.bar { (span_bar(scale, *before, *after, &lines)) }
                                    }
                                }
                            }
                            tfoot { tr {
                                th scope="row" colspan="2" { (t("decision.total")) }
                                td.number { (points(of.score.unwrap_or(sum))) }
                                td.bar { (span_bar(scale, 0.0, of.score.unwrap_or(sum), &lines)) }
                            } }
                        }
                    }
                }
                @if !of.shadow.is_empty() {
                    h3 { (t("decision.shadow")) }
                    ul.plain {
                        @for reason in &of.shadow {
                            li { a.rule href=(self.rule_url(&reason.name)) { (value(&reason.name, CELL)) } " " (signed(reason.score)) " " span.dim { (value(&reason.detail, CELL)) } }
                        }
                    }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        let lines = self.lines();
        html! {
            @if lines.is_empty() {
                (t("decision.sum"))
            } @else {
                (t("decision.sum_lines")) " "
                @for (index, band) in lines.iter().enumerate() {
                    @if index > 0 { " · " }
                    (word("action", band.action.name())) " " (points(band.at))
                }
            }
        }
    }

    fn rule_url(&self, rule: &str) -> String {
        url("/console/rules", &[("pipeline", &self.of.pipeline), ("rule", rule)])
    }

    fn effects(&self) -> Markup {
        let effects = &self.of.effects;
        html! {
            @if !effects.is_empty() {
                section {
                    h2 { (t("decision.effects")) }
                    ul.plain { @for effect in effects {
                        li { code { (plain(&effect.effect, CELL)) } " " span.dim { (t("decision.by_rule")) " " (value(&effect.rule, CELL)) } }
                    } }
                }
            }
        }
    }

    fn keys(&self) -> Markup {
        let (of, now) = (self.of, self.visit.now);
        html! {
            @if !of.keys.is_empty() {
                section {
                    h2 #keys-heading { (t("decision.keys")) }
                    p.dim { (t("decision.keys_help")) }
                    div.scroll tabindex="0" role="region" aria-labelledby="keys-heading" {
                        table.rows.stacks {
                            thead { tr {
                                th scope="col" { (t("keys.kind")) }
                                th scope="col" { (t("keys.value")) }
                                th scope="col" { (t("keys.first")) }
                                th scope="col" { (t("keys.counted")) }
                                @if !self.timelines.is_empty() { th scope="col" { (t("decision.over_time")) } }
                            } }
                            tbody { @for (place, key) in of.keys.iter().enumerate() {
                                tr {
                                    td.dim { (key.kind) }
                                    td { (key_link(&of.pipeline, key)) }
                                    td.nowrap { @match key.first {
                                        Some(first) => { (super::format::distance(first.0, now)) }
                                        None => { span.dim { (t("keys.never")) } }
                                    } }
                                    td.whole { (counts(key)) }
                                    @if !self.timelines.is_empty() { td.spark { @if let Some(known) = self.timelines.get(&place) { (self.over_time(known)) } } }
                                }
                            } }
                        }
                    }
                }
            }
            @if !of.reputations.is_empty() {
                section {
                    h2 { (t("decision.reputations")) }
                    ul.cards { @for reputation in &of.reputations { li { (super::keys::reputation(reputation)) } } }
                }
            }
        }
    }

    /// The counter of a key that is counted most, over all the time that is kept, with the decision's time marked; and its count by
    /// now.
    fn over_time(&self, known: &TimelineJson) -> Markup {
        let Some(tier) = known.tiers.first() else { return html! {} };
        let total =
            |counter: &&String| tier.buckets.iter().filter_map(|of| of.counts.get(*counter)).sum::<u64>();
        let Some(counter) = known.counters.iter().max_by_key(total) else { return html! {} };
        let buckets = tier.buckets.iter().filter_map(|of| Some((of.start.0, *of.counts.get(counter)?)));
        let buckets: Vec<(Time, u64)> = buckets.collect();
        let chart = TimelineChart::of(tier.width.0, &buckets, self.visit.now);
        let widest = known.windows.iter().max_by_key(|window| window.window.0);
        let now = widest.and_then(|window| Some((window.counts.get(counter)?, window.window.0)));
        html! {
            (chart.marked(self.of.arrival.0).draw_small("series"))
            @if let Some((count, window)) = now {
                span.dim { (fill("decision.by_now", &[("counter", &counter), ("n", &number(*count)), ("window", &length(window))])) }
            }
        }
    }

    fn near_misses(&self) -> Markup {
        html! {
            @if !self.of.closest.is_empty() {
                section {
                    h2 { (t("decision.close")) }
                    ul.plain { @for miss in &self.of.closest {
                        li {
                            a.rule href=(self.rule_url(&miss.name)) { (value(&miss.name, CELL)) } " " (signed(miss.score)) " "
                            span.dim { (t("decision.missing")) } " "
                            @for (index, part) in miss.missing.iter().enumerate() {
                                @if index > 0 { " " (t("decision.and")) " " }
                                code { (plain(&part.part, CELL)) }
                                @if let Some(reached) = part.reached.filter(|reached| *reached >= 0.01) { " " span.tag { (fill("decision.reached", &[("share", &percent(reached))])) } }
                            }
                            @if Some(miss.action_with) != self.of.action {
                                " → " span.badge.(miss.action_with.name()) { (word("action", miss.action_with.name())) }
                            }
                            div.dim { (value(&miss.detail, CELL * 2)) }
                        }
                    } }
                }
            }
        }
    }

    fn models(&self) -> Markup {
        html! {
            @for model in &self.of.models {
                section {
                    h2 { (fill("decision.model", &[("name", &plain(&model.name, CELL)), ("output", &percent(model.output))])) }
                    @let extreme = model.contributions.iter().map(|part| part.adds.abs()).fold(0.0, f64::max);
                    table.parts { tbody { @for part in &model.contributions {
                        tr { th scope="row" { code { (part.feature) } } td { (value(&json(&part.value), CELL)) } td.number { (signed(part.adds)) } td.bar { (diverging_bar(part.adds, extreme)) } }
                    } } }
                }
            }
        }
    }

    fn classifiers(&self) -> Markup {
        let may_read = self.visit.viewer.may(ViewerRight::ReadContent);
        html! {
            @for classifier in self.of.classifiers.iter().filter(|of| may_read && of.tokens.iter().any(|token| token.adds != 0.0)) {
                section {
                    h2 { (fill("decision.classifier", &[("name", &plain(&classifier.name, CELL)), ("probability", &percent(classifier.probability))])) }
                    p.dim { (t("decision.classifier_help")) }
                    @let extreme = classifier.tokens.iter().map(|token| token.adds.abs()).fold(0.0, f64::max);
                    div.scroll tabindex="0" role="region" aria-label=(classifier.name) {
                        table.parts {
                            thead { tr {
                                th scope="col" { (t("decision.token")) }
                                th.number scope="col" { (t("decision.bad")) }
                                th.number scope="col" { (t("decision.good")) }
                                th.number scope="col" { (t("decision.adds")) }
                                th.bar scope="col" { (t("decision.good_bad")) }
                            } }
                            tbody { @for token in classifier.tokens.iter().filter(|token| token.adds != 0.0) {
                                tr {
                                    th scope="row" { (value(&token.token, CELL)) }
                                    td.number { (token.bad) }
                                    td.number { (token.good) }
                                    td.number { (signed(token.adds)) }
                                    td.bar { (diverging_bar(token.adds, extreme)) }
                                }
                            } }
                        }
                    }
                }
            }
        }
    }

    /// Bands that promise, as they begin now.
    fn promises(&self) -> Markup {
        html! { @if !self.of.bands.is_empty() { section {
            h2 #lines { (t("decision.lines")) }
            (band_table::lines(&self.of.bands))
        } } }
    }

    /// Facts that say something first; texts only for who may read contents.
    fn facts(&self) -> Markup {
        let (telling, quiet): (Vec<Fact<'_>>, Vec<Fact<'_>>) =
            self.of.facts.iter().partition(|(_, fact)| !is_default(fact));
        // What was read of keys is called as rules call it.
        let (readings, own): (Vec<Fact<'_>>, Vec<Fact<'_>>) =
            telling.into_iter().partition(|(name, _)| name.contains('('));
        let list = |facts: &[Fact<'_>]| {
            html! {
                dl.facts { @for (name, fact) in facts {
                    div { dt { code { (name) } } dd { (self.fact(fact)) } }
                } }
            }
        };
        html! {
            section {
                h2 { (t("decision.facts")) }
                @if own.is_empty() { p.dim { (t("decision.no_facts")) } } @else { (list(&own)) }
                @if !readings.is_empty() {
                    details {
                        summary { (counted("decision.reading", "decision.readings", readings.len() as u64)) }
                        (list(&readings))
                    }
                }
                @if !quiet.is_empty() {
                    details {
                        summary { (counted("decision.quiet_one", "decision.quiet", quiet.len() as u64)) }
                        (list(&quiet))
                    }
                }
            }
        }
    }

    fn fact(&self, fact: &Value) -> Markup {
        let is_text = matches!(fact, Value::String(_) | Value::Array(_) | Value::Object(_));
        if is_text && !self.visit.viewer.may(ViewerRight::ReadContent) {
            return html! { span.dim { (t("decision.hidden")) } };
        }
        let text = json(fact);
        if text.chars().count() <= CELL && !text.contains('\n') {
            return value(&text, CELL);
        }
        html! {
            details.long {
                summary { (value(&text.replace('\n', " "), CELL / 2)) }
                pre tabindex="0" { (plain(&text, WHOLE)) }
            }
        }
    }

    /// The form that takes feedback on the decision.
    fn feedback(&self) -> Markup {
        let Some(pipeline) = self.pipeline.filter(|_| self.visit.viewer.may(ViewerRight::Teach)) else {
            return html! {};
        };
        html! {
            @if !pipeline.feedback.is_empty() {
                section.card {
                    h2 { (t("feedback.title")) }
                    p.dim { (t("feedback.help")) }
                    form.buttons method="post" action={ "/console/decisions/" (self.id) "/feedback" } {
                        (secret(&self.visit.viewer))
                        @for class in &pipeline.feedback { button type="submit" name="class" value=(class) { (class) } }
                        button.quiet type="submit" name="class" value="none" { (t("feedback.take_back")) }
                    }
                }
            }
        }
    }

    /// The values of its keys that may be allowed: those that name somebody, and not what was said.
    fn allowable(&self) -> Vec<&str> {
        let plan = self.visit.node.engine.plan();
        let Some(plan) = plan.pipeline(Some(&self.of.pipeline)) else { return Vec::new() };
        let names = |key: &&KeyReadingJson| {
            plan.kinds.iter().any(|kind| {
                kind.name == key.kind && kind.fields.single().is_some() && !plan.is_of_near_duplicates(kind)
            })
        };
        let values = self.of.keys.iter().filter(names).filter_map(|key| key.piece.as_deref());
        values.filter(|value| value.len() <= CELL).take(ALLOWABLE).collect()
    }

    /// The way to decisions on nearly the same.
    fn similar(&self) -> Markup {
        let may_read = self.visit.viewer.may(ViewerRight::ReadContent);
        html! {
            @if may_read && similar::has_fingerprints(self.visit, self.of) { section.card {
                h2 { (t("similar.title")) }
                p.dim { (t("similar.help")) }
                p { a href={ "/console/decisions/" (self.id) "/similar" } { (t("similar.show")) } }
            } }
        }
    }

    /// The form that begins a rule with what this event is.
    fn rule(&self) -> Markup {
        let viewer = &self.visit.viewer;
        if !viewer.may(ViewerRight::Rules) || !viewer.may(ViewerRight::ReadContent) {
            return html! {};
        }
        let conditions = self.conditions();
        html! {
            @if !conditions.is_empty() { section.card {
                h2 { (t("decision.rule_from")) }
                p.dim { (t("decision.rule_help")) }
                form.stacked action="/console/rules/edit" {
                    input type="hidden" name="pipeline" value=(self.of.pipeline);
                    label { (t("decision.condition")) select name="when" { @for condition in &conditions { option value=(condition) { (plain(condition, CELL / 2)) } } } }
                    button type="submit" { (t("shared.write")) }
                }
            } }
        }
    }

    /// The conditions of rules that are true of this event because of one fact.
    fn conditions(&self) -> Vec<String> {
        let plan = self.visit.node.engine.plan();
        let Some(plan) = plan.pipeline(Some(&self.of.pipeline)) else { return Vec::new() };
        let mut conditions = Vec::new();
        for (name, fact) in self.of.facts.iter().filter(|(_, fact)| !is_default(fact)) {
            let Some(slot) = plan.schema.slot(name) else { continue };
            let fact = match (fact, plan.schema.column(slot).kind) {
                (Value::String(text), event::Type::Ip) => text.parse().ok().map(event::Value::Ip),
                (Value::String(text), event::Type::String) => Some(event::Value::from(text.as_str())),
                (Value::Number(number), event::Type::Integer) => number.as_i64().map(event::Value::Integer),
                (Value::Bool(truth), event::Type::Bool) => Some(event::Value::Bool(*truth)),
                (Value::Array(items), event::Type::List) => {
                    let items: Vec<String> =
                        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect();
                    Some(event::Value::from(items))
                }
                _ => None,
            };
            let of_fact = fact.map(|fact| engine::fact_conditions(name, &fact)).unwrap_or_default();
            conditions.extend(of_fact.into_iter().map(|(condition, _)| condition).take(CONDITIONS_OF_FACT));
        }
        conditions.truncate(CONDITIONS);
        conditions
    }

    fn ban(&self) -> Markup {
        if !self.visit.viewer.may(ViewerRight::Enforce) {
            return html! {};
        }
        let back = format!("/console/decisions/{}", self.id);
        let known = self.of.keys.iter().filter_map(|key| Some((key.kind.as_str(), key.piece.as_deref()?)));
        let keys: Vec<(&str, &str)> = known.collect();
        ban_form(self.visit, &self.of.pipeline, &keys, &back)
    }

    fn about(&self) -> Markup {
        let of = self.of;
        html! {
            section.card {
                h2 { (t("decision.about")) }
                dl.stack {
                    @if let Some(id) = &of.event_id { dt { (t("decision.event_id")) } dd { (value(id, CELL)) } }
                    dt { (t("decision.arrival")) } dd { (time(of.arrival.0, self.visit.now)) }
                    dt { (t("decision.version")) } dd { code { (of.version) }
                        @if self.pipeline.is_none_or(|pipeline| pipeline.version != of.version) { " " span.dim { (t("decision.old_version")) } } }
                    @if of.duplicate { dt { (t("decision.duplicate")) } dd { (t("decision.duplicate_help")) } }
                    @if let Some(unknown) = &of.unknown { dt { (t("decision.incomplete")) } dd { (unknown) } }
                    dt { (t("decision.elsewhere")) } dd { code { "tollhouse explain " (plain(self.id, CELL)) } }
                    @if !self.visit.viewer.has_session { dd { a href={ "/v1/decisions/" (self.id) } { (t("decision.as_json")) } } }
                }
            }
        }
    }
}

/// The piece of a key, with a link to its page where it is known.
fn key_link(pipeline: &str, key: &KeyReadingJson) -> Markup {
    match &key.piece {
        Some(piece) => html! { a href=(key_url(pipeline, &key.kind, piece)) { (value(piece, CELL / 2)) } },
        None => html! { span.dim title=(t("keys.hashed_help")) { code { (key.shingle) } } },
    }
}

/// The counts of a key in its shortest and its longest window.
fn counts(key: &KeyReadingJson) -> Markup {
    let span = |text: &String| text.parse::<event::Span>().unwrap_or(event::Span(0));
    html! {
        @if key.counts.is_empty() {
            span.dim { (word("quality", if key.quality == "missing" { "missing" } else { "nothing" })) }
        }
        @for (counter, windows) in &key.counts {
            @let mut ordered: Vec<_> = windows.iter().collect();
            @let () = ordered.sort_by_key(|(window, _)| span(window));
            span.count { (counter) " "
                @for (index, (window, count)) in ordered.iter().enumerate() {
                    @if index > 0 { ", " }
                    b { (number(**count)) } " " span.dim { (t("keys.in")) " " (length(span(window))) }
                }
            }
        }
        @if ["estimated", "lagging"].contains(&key.quality.as_str()) { span.tag { (word("quality", &key.quality)) } }
    }
}

/// Feedback on a decision.
#[derive(Deserialize)]
pub(super) struct FeedbackForm {
    class: String,
}

/// Takes in feedback.
pub(super) async fn feedback(
    Path(id): Path<String>,
    ConsoleForm { visit, form }: ConsoleForm<FeedbackForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let said = crate::api::FeedbackJson { id, class: form.class, by: None };
    let outcome = feedback::take_in(&visit.node, said, false).await?;
    let done = match (outcome.class.as_str(), outcome.duplicate) {
        ("none", _) => "feedback_back",
        (_, true) => "feedback_again",
        _ => "feedback",
    };
    let keys = (outcome.keys as u64).to_string();
    Ok(redirect(&url(&format!("/console/decisions/{}", outcome.id), &[("done", done), ("n", &keys)])))
}
