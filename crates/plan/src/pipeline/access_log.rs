//! The format of access logs that a pipeline reads: `[access_log]`.

use std::sync::Arc;

use content::web::log_format::AccessLogFormat;

use crate::config::{ConfigProblems, Document};
use crate::entries;

/// Compiles the format of a pipeline, if it has one of its own. One that is wrong is told of.
pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> Option<Arc<AccessLogFormat>> {
    let view = document.section("access_log")?;
    let format = view.str("format").filter(|format| !format.is_empty())?;
    let fields = entries(document, "field", problems);
    let is_declared = |name: &str| {
        fields.iter().any(|field| field.str("name") == Some(name) && field.str("value").is_none())
    };
    match AccessLogFormat::new(format, is_declared) {
        Ok(format) => Some(Arc::new(format)),
        Err(error) => {
            let help = "copy it from `log_format` of nginx or `LogFormat` of Apache".to_owned();
            problems.add(view.origin("format"), error.to_string(), Some(help));
            None
        }
    }
}

/// Refuses a format for a pipeline that reads no requests: whoever writes one believes that it does something.
pub(super) fn refuse(document: &Document, problems: &mut ConfigProblems) {
    let Some(view) = document.section("access_log") else { return };
    if view.str("format").is_some_and(|format| !format.is_empty()) {
        let help = "leave it out, or write `input = \"access-log\"` at the top".to_owned();
        problems.add(view.origin("format"), "only access logs have such a format", Some(help));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Overrides, Plan};

    fn plan(text: &str) -> Result<Plan, String> {
        Plan::compile(&Config::from_text("web.toml", text, &Overrides::default()))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_pipeline_reads_lines_of_its_own_format() {
        let text = "name = \"web\"\ninput = \"access-log\"\n[access_log]\nformat = '$msec $remote_addr $status $request_time'\n\
                    [[field]]\nname = \"request_time\"\ntype = \"float\"\n";
        let own = plan(text).expect("plan");
        let event = own.pipelines[0].access_log_event(b"1431857103.25 192.0.2.7 200 0.5").expect("event");
        assert_eq!(event.get("request_time").map(ToString::to_string).as_deref(), Some("0.5"));
        let combined = br#"192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#;
        assert!(own.pipelines[0].access_log_event(combined).is_err());
        let usual = plan("name = \"web\"\ninput = \"access-log\"\n").expect("plan");
        assert!(usual.pipelines[0].access_log_format().is_none());
        assert!(usual.pipelines[0].access_log_event(combined).is_ok());
        let wrong = plan("name = \"web\"\ninput = \"access-log\"\n[access_log]\nformat = '$status'\n")
            .expect_err("wrong");
        assert!(wrong.contains("web.toml:4") && wrong.contains("address is missing"), "{wrong}");
        let other = plan("name = \"web\"\ninput = \"json\"\n[access_log]\nformat = '$msec $remote_addr'\n")
            .expect_err("other");
        assert!(other.contains("web.toml:4") && other.contains("only access logs"), "{other}");
    }
}
