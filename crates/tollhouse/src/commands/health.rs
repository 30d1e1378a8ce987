//! `tollhouse health`: whether a server takes requests, for probes of containers.

use server::api::ConditionJson;

use crate::client::{ApiClient, CallError};
use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;
use crate::trust::TrustOptions;

/// Show the health of a server
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse health                                    The server on 127.0.0.1:8377
  tollhouse health --server http://10.0.0.1:8377 --json
  tollhouse health --server https://10.0.0.1:8377 --ca ca.pem

Exit codes: 0 it takes requests, and prints any fault; 1 it is alive but takes none, and says why; 2
nobody answers.")]
pub(crate) struct HealthArgs {
    /// The server's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8377")]
    server: String,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: HealthArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    match ApiClient::new(&args.server, None, &args.trust)?.readiness() {
        Ok(health) => {
            if out.is_json() {
                out.json(&health)?;
            } else {
                out.line(&health.status)?;
                for ConditionJson { name, detail } in &health.conditions {
                    out.line(format!("{name}: {detail}"))?;
                }
            }
            out.flush()?;
            Ok(Exit::Fine)
        }
        Err(CallError::Refused(problem, _)) => {
            say(format_args!("{}", problem.detail));
            Ok(Exit::Found)
        }
        Err(failed) => Err(failed.into()),
    }
}
