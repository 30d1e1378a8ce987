//! The page of a pipeline's rules: what each is about, how often it fired, what it costs; the versions, and the candidate.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Response;
use event::Time;
use maud::{Markup, html};
use serde::Deserialize;

use super::charts::share_bar;
use super::format::{CELL, distance, number, percent, plain, points, signed, time, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::learners::{self, total};
use super::sets;
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{
    ComparisonJson, DecisionStatisticsJson, JudgedCountsJson, PipelineJson, RollbackRequest, RuleJson,
    RuleStatisticsJson, RulesJson,
};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::rules::{self, RulesParams};
use crate::protocol::http::{JsonBody, QueryParams, node};

/// A choice among rules.
#[derive(Default, Deserialize)]
struct RulesQuery {
    pipeline: Option<String>,
    /// The rule that is looked at.
    rule: Option<String>,
    #[serde(default)]
    sort: String,
    #[serde(default)]
    q: String,
    /// The rules that were just taken out, between commas.
    #[serde(default)]
    gone: String,
}

/// The share of the latest decisions from which on a rule is said to fire always.
const ALWAYS: f64 = 0.99;
/// Rules that were taken out, of which the page tells.
const GONE_MAX: usize = 8;

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query: RulesQuery = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let name = visit.node.pipeline(query.pipeline.as_deref())?.name.clone();
    let params = || QueryParams(RulesParams { pipeline: Some(name.clone()) });
    let versions = rules::rules(State(visit.node.clone()), params()).await?.0;
    let comparison =
        rules::comparison(State(visit.node.clone()), None, params()).await.ok().map(|json| json.0);
    let sets = sets::list(&visit, &name).await?;
    // A journal that cannot be searched takes nothing from what is known of the rules.
    let made = learners::latest(&visit, &name).await.ok();
    let content = match pipelines.iter().find(|pipeline| pipeline.name == name) {
        Some(pipeline) => {
            let page = RulesPage {
                visit: &visit,
                query: &query,
                pipeline,
                versions: &versions,
                made: made.as_ref(),
            };
            page.content(&pipelines, comparison.as_ref(), &sets)
        }
        None => html! {},
    };
    Ok(visit.frame(fill("rules.title", &[("pipeline", &name)]), ConsoleSection::Rules).page(&content))
}

/// The rules of a pipeline.
struct RulesPage<'a> {
    visit: &'a ConsoleVisit,
    query: &'a RulesQuery,
    pipeline: &'a PipelineJson,
    versions: &'a RulesJson,
    /// Statistics of the latest decisions.
    made: Option<&'a DecisionStatisticsJson>,
}

impl RulesPage<'_> {
    fn content(
        &self,
        pipelines: &[PipelineJson],
        comparison: Option<&ComparisonJson>,
        sets: &Markup,
    ) -> Markup {
        let pipeline = self.pipeline;
        let chosen =
            self.query.rule.as_ref().and_then(|name| pipeline.rules.iter().find(|rule| rule.name == *name));
        let shown = self.shown();
        html! {
            div.head {
                h1 { (fill("rules.title", &[("pipeline", &pipeline.name)])) " " span.dim { (number(pipeline.rules.len() as u64)) } }
                @if pipelines.len() > 1 {
                    nav.tabs aria-label=(t("rules.pipelines")) { @for other in pipelines {
                        a href=(url("/console/rules", &[("pipeline", &other.name)])) aria-current=[(other.name == pipeline.name).then_some("true")] { (other.name) }
                    } }
                }
                (self.lines())
                @if self.visit.viewer.may(ViewerRight::Rules) {
                    p { a.button href=(url("/console/rules/edit", &[("pipeline", &pipeline.name)])) { (t("rules.edit")) } }
                }
            }
            div.columns {
                div.main {
                    @if let Some(rule) = chosen { (self.rule(rule)) }
                    @if let (None, Some(name)) = (chosen, &self.query.rule) {
                        p.notice { (fill("rules.gone", &[("rule", &plain(name, CELL))])) " " (self.what_it_did(name)) }
                    }
                    @for name in self.query.gone.split(',').filter(|name| !name.is_empty()).take(GONE_MAX) {
                        p.notice { (fill("rules.taken_out", &[("rule", &plain(name, CELL))])) " " (self.what_it_did(name)) }
                    }
                    section {
                        h2 #all { (t("rules.all")) }
                        form.look action="/console/rules" {
                            input type="hidden" name="pipeline" value=(pipeline.name);
                            div.row {
                                input type="search" name="q" value=(self.query.q) aria-label=(t("rules.filter")) placeholder=(t("rules.filter")) maxlength="128";
                                select name="sort" aria-label=(t("rules.sort")) {
                                    @for (sort, text) in [("", "rules.sort_order"), ("fired", "rules.sort_fired"), ("score", "rules.sort_score"), ("cost", "rules.sort_cost"), ("precision", "rules.sort_precision"), ("age", "rules.sort_age"), ("never", "rules.sort_never"), ("always", "rules.sort_always")] {
                                        option value=(sort) selected[self.query.sort == sort] { (t(text)) }
                                    }
                                }
                                button type="submit" { (t("rules.show")) }
                            }
                        }
                        @if shown.is_empty() { div.empty { p { (t("rules.none")) } } } @else { (self.table(&shown)) }
                    }
                }
                aside aria-label=(t("rules.versions")) {
                    @if let Some(comparison) = comparison { (self.candidate(comparison)) }
                    (self.history())
                    (sets)
                }
            }
        }
    }

    /// The way to what a rule did that is not in force any more.
    fn what_it_did(&self, rule: &str) -> Markup {
        html! {
            @if self.visit.viewer.may(ViewerRight::Rules) {
                a href=(url("/console/rules/impact", &[("pipeline", &self.pipeline.name), ("rule", rule)])) { (fill("rules.did_it", &[("rule", &plain(rule, CELL))])) }
            }
        }
    }

    /// Returns the statistics that the latest decisions give of a rule.
    fn judged(&self, rule: &str) -> Option<&RuleStatisticsJson> {
        self.made?.rules.iter().find(|of| of.rule == rule)
    }

    /// The share of the latest decisions for which a rule fired, enforced or in shadow.
    fn share(&self, rule: &str) -> f64 {
        let all = self.made.map_or(0, |made| total(&made.decisions));
        let fired = self.judged(rule).map_or(0, |of| total(&of.enforced).saturating_add(total(&of.shadow)));
        if all == 0 { 0.0 } else { fired as f64 / all as f64 }
    }

    /// The rules that are asked for, in the order that is.
    fn shown(&self) -> Vec<&RuleJson> {
        let wanted = self.query.q.trim().to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let mut shown: Vec<&RuleJson> = self
            .pipeline
            .rules
            .iter()
            .filter(|rule| has(&rule.name) || has(&rule.description) || has(&rule.when))
            .filter(|rule| match self.query.sort.as_str() {
                "never" => rule.fired == 0 && self.share(&rule.name) == 0.0,
                "always" => self.share(&rule.name) >= ALWAYS,
                _ => true,
            })
            .collect();
        match self.query.sort.as_str() {
            "fired" => shown.sort_by_key(|rule| std::cmp::Reverse(rule.fired)),
            "score" => shown.sort_by(|one, other| other.score.abs().total_cmp(&one.score.abs())),
            "cost" => shown.sort_by_key(|rule| std::cmp::Reverse(rule.cost)),
            "precision" => shown.sort_by(|one, other| {
                let precision = |rule: &RuleJson| self.judged(&rule.name).and_then(|of| of.precision);
                let least = |rule: &RuleJson| precision(rule).unwrap_or(f64::INFINITY);
                least(one).total_cmp(&least(other))
            }),
            "age" => {
                shown.sort_by_key(|rule| {
                    std::cmp::Reverse(self.versions.ages.get(&rule.name).map(|since| since.0))
                });
            }
            _ => {}
        }
        shown
    }

    fn lines(&self) -> Markup {
        html! {
            dl.figures { @for band in &self.pipeline.bands {
                div {
                    dt { (word("action", band.action.name())) }
                    dd { (points(band.at)) @if let Some(promise) = &band.promise {
                        " " span.dim { (fill("rules.promise", &[("rate", &percent(promise.false_positives))])) }
                        @if let Some(reached) = promise.reached { " " span.dim { (fill("rules.reached", &[("rate", &percent(reached))])) } }
                    } }
                }
            } }
        }
    }

    fn table(&self, rules: &[&RuleJson]) -> Markup {
        let most = self.pipeline.rules.iter().map(|rule| rule.fired).max().unwrap_or(0).max(1) as f64;
        html! {
            div.scroll tabindex="0" role="region" aria-labelledby="all" { table.rows.stacks {
                thead { tr {
                    th scope="col" { (t("decision.rule")) }
                    th.number scope="col" { (t("decision.score")) }
                    th scope="col" { (t("rules.mode")) }
                    th.number scope="col" { (t("rules.fired")) }
                    th.bar scope="col" { span.unseen { (t("rules.fired")) } }
                    th.number scope="col" { (t("rules.precision")) }
                    th.number scope="col" { (t("rules.alone")) }
                    th.number scope="col" { (t("rules.cost")) }
                } }
                tbody { @for rule in rules {
                    tr {
                        th.whole scope="row" {
                            a.rule href=(url("/console/rules", &[("pipeline", &self.pipeline.name), ("rule", &rule.name)])) { (value(&rule.name, CELL)) }
                            span.description { (value(&rule.description, CELL)) }
                            @if let Some(since) = self.versions.ages.get(&rule.name) { span.description { (t("rules.as_it_is")) " " (distance(since.0, self.visit.now)) } }
                        }
                        td.number { (signed(rule.score)) }
                        td { @if rule.mode == "enforce" { span.dim { (word("mode", &rule.mode)) } } @else { span.tag { (word("mode", &rule.mode)) } } }
                        td.number { @if rule.fired == 0 { span.dim { "0" } } @else { (number(rule.fired)) } }
                        td.bar { (share_bar(rule.fired as f64 / most)) }
                        @let judged = self.judged(&rule.name);
                        td.number { @if let Some(precision) = judged.and_then(|of| of.precision) { (percent(precision)) } @else { span.dim { "–" } } }
                        td.number { @if let Some(alone) = judged.map(|of| total(&of.alone)).filter(|alone| *alone > 0) { (number(alone)) } @else { span.dim { "–" } } }
                        td.number.dim { (rule.cost) }
                    }
                } }
            } }
        }
    }

    /// One rule, whole.
    fn rule(&self, rule: &RuleJson) -> Markup {
        html! {
            section.card.wide {
                h2 #rule { (value(&rule.name, CELL)) }
                @if !rule.description.is_empty() { p { (value(&rule.description, CELL * 4)) } }
                pre tabindex="0" { (plain(&rule.when, super::format::WHOLE)) }
                @if !rule.effects.is_empty() { ul.plain { @for effect in &rule.effects { li { code { (plain(effect, CELL)) } } } } }
                dl.figures {
                    div { dt { (t("decision.score")) } dd { (signed(rule.score)) } }
                    div { dt { (t("rules.mode")) } dd { (word("mode", &rule.mode)) } }
                    div { dt { (t("rules.fired")) } dd { (number(rule.fired)) } }
                    @if let Some(of) = self.judged(&rule.name) {
                        @let sums = |counts: &JudgedCountsJson| fill("rules.good_bad", &[("good", &number(counts.good)), ("bad", &number(counts.bad)), ("unjudged", &number(counts.unjudged))]);
                        div { dt { (t("rules.of_latest")) } dd { (percent(self.share(&rule.name))) } }
                        div { dt { (t("rules.hit")) } dd { (sums(&of.enforced)) } }
                        @if total(&of.shadow) > 0 { div { dt { (t("rules.hit_in_shadow")) } dd { (sums(&of.shadow)) } } }
                        @if let Some(precision) = of.precision { div { dt { (t("rules.precision")) } dd { (percent(precision)) } } }
                        div { dt { (t("rules.alone")) } dd { (sums(&of.alone)) } }
                    }
                    @if let Some(since) = self.versions.ages.get(&rule.name) { div { dt { (t("rules.age")) } dd { (time(since.0, self.visit.now)) } } }
                    div { dt { (t("rules.cost")) } dd { (rule.cost) } }
                    @if self.visit.viewer.may(ViewerRight::Rules) {
                        div { dt { (t("rules.change")) } dd { a href=(url("/console/rules/edit", &[("pipeline", &self.pipeline.name), ("rule", &rule.name)])) { (t("rules.edit_rule")) } } }
                    }
                    @if self.visit.viewer.may(ViewerRight::Rules) {
                        div { dt { (t("rules.did")) } dd { a href=(url("/console/rules/impact", &[("pipeline", &self.pipeline.name), ("rule", &rule.name)])) { (t("rules.whom")) } } }
                    }
                    div { dt { (t("rules.decisions")) } dd { a href=(url("/console/decisions", &[("pipeline", &self.pipeline.name), ("rule", &rule.name)])) { (t("rules.show")) } } }
                    @if !rule.owner.is_empty() { div { dt { (t("rules.owner")) } dd { (value(&rule.owner, CELL)) } } }
                    @if let Some(expires) = rule.expires { div { dt { (t("rules.expires")) } dd { (time(expires.0, self.visit.now)) } } }
                }
            }
        }
    }

    fn candidate(&self, of: &ComparisonJson) -> Markup {
        html! {
            section.card {
                h2 { (t("rules.candidate")) }
                p { (fill("rules.compared", &[("events", &number(of.events)), ("differ", &number(of.disagreements)), ("rate", &percent(of.rate))])) }
                @if let Some(canary) = &of.canary {
                    p { (fill("rules.canary", &[("share", &percent(canary.share)), ("decided", &number(of.decided))])) }
                }
                @if !of.actions.is_empty() {
                    table { tbody { @for (enforced, candidates) in &of.actions { @for (candidate, count) in candidates {
                        tr { td { span.badge.(enforced) { (word("action", enforced)) } " → " span.badge.(candidate) { (word("action", candidate)) } } td.number { (number(*count)) } }
                    } } } }
                }
                p {
                    a href=(self.version("candidate")) { (t("rules.differs")) }
                    @if self.visit.viewer.may(ViewerRight::Rules) {
                        " · " a href=(url("/console/rules/edit", &[("pipeline", &self.pipeline.name), ("candidate", "true")])) { (t("rules.edit_rule")) }
                    }
                }
                @for example in of.examples.iter().take(8) {
                    p { a href={ "/console/decisions/" (example.id) } { code { (example.id) } } " " span.dim { (distance(example.time.0, self.visit.now)) } }
                }
                @if self.visit.viewer.may(ViewerRight::Rules) {
                    form method="post" action="/console/rules/promote" {
                        (secret(&self.visit.viewer))
                        input type="hidden" name="pipeline" value=(self.pipeline.name);
                        button.primary type="submit" { (t("rules.promote")) }
                    }
                }
            }
        }
    }

    /// The address of a version, compared with the one in force.
    fn version(&self, version: &str) -> String {
        let params = [("pipeline", self.pipeline.name.as_str()), ("version", version)];
        url("/console/rules/version", &params)
    }

    fn history(&self) -> Markup {
        let now: Time = self.visit.now;
        html! {
            section.card {
                h2 { (t("rules.versions")) }
                @if self.versions.back { p.dim { (t("rules.is_back")) } }
                ol.versions { @for version in &self.versions.versions {
                    @let is_current = version.version == self.versions.version;
                    li aria-current=[is_current.then_some("true")] {
                        a href=(self.version(&version.version)) { code { (version.version) } } " "
                        span.dim {
                            (word("origin", &version.by)) " "
                            @if let Some(who) = &version.who { (value(who, CELL / 4)) " " }
                            @if let Some(since) = version.since { (distance(since.0, now)) }
                        }
                        @if is_current { " " span.tag { (t("rules.in_force")) } }
                        @if !is_current && self.visit.viewer.may(ViewerRight::Rules) {
                            form method="post" action="/console/rules/rollback" {
                                (secret(&self.visit.viewer))
                                input type="hidden" name="pipeline" value=(self.pipeline.name);
                                input type="hidden" name="version" value=(version.version);
                                button.quiet type="submit" aria-label=(fill("rules.back_to", &[("version", &version.version)])) { (t("rules.back")) }
                            }
                        }
                    }
                } }
                @if self.versions.versions.len() < 2 { p.dim { (counted("rules.one_version", "rules.many_versions", self.versions.versions.len() as u64)) } }
            }
            @if let Some(posted) = &self.versions.posted {
                section.card { h2 { (t("rules.posted")) } pre tabindex="0" { (plain(posted, super::format::WHOLE)) } }
            }
        }
    }
}

/// The names of a pipeline's rules.
fn names(visit: &ConsoleVisit, pipeline: &str) -> Result<BTreeSet<String>, PageFailure> {
    let pipeline = visit.node.pipeline(Some(pipeline))?;
    Ok(pipeline.rules.rules().iter().map(|rule| rule.name.clone()).collect())
}

/// A version to go back to.
#[derive(Deserialize)]
pub(super) struct RollbackForm {
    pipeline: String,
    version: String,
}

/// Goes back to a version.
pub(super) async fn roll_back(
    ConsoleForm { visit, form }: ConsoleForm<RollbackForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let before = names(&visit, &form.pipeline)?;
    let request = RollbackRequest { version: form.version, pipeline: Some(form.pipeline.clone()) };
    let _ = rules::rollback(State(visit.node.clone()), JsonBody(request)).await?;
    let after = names(&visit, &form.pipeline)?;
    let gone: Vec<&str> = before.difference(&after).map(String::as_str).take(GONE_MAX).collect();
    let gone = gone.join(",");
    let mut params = vec![("pipeline", form.pipeline.as_str())];
    if !gone.is_empty() {
        params.push(("gone", &gone));
    }
    Ok(redirect(&done(&url("/console/rules", &params), "rolled_back", 0)))
}

/// A candidate to enforce.
#[derive(Deserialize)]
pub(super) struct PromoteForm {
    pipeline: String,
}

/// Enforces the candidate.
pub(super) async fn promote(
    ConsoleForm { visit, form }: ConsoleForm<PromoteForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let back = url("/console/rules", &[("pipeline", &form.pipeline)]);
    let params = RulesParams { pipeline: Some(form.pipeline) };
    let _ = rules::promote(State(visit.node.clone()), QueryParams(params)).await?;
    Ok(redirect(&done(&back, "promoted", 0)))
}
