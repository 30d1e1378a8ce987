//! `tollhouse report`: hands over mail in which people report mail.

use std::io::Read;
use std::path::{Path, PathBuf};

use content::mail::message::MESSAGE_BYTES_MAX;
use serde::Serialize;
use server::api::MailReportJson;

use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::options::TargetServerOptions;

/// Submit mail in which people report other mail: forwarded, attached, or a feedback report (ARF)
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse report --server http://127.0.0.1:8377 --from ann@example.org \\
      --to spam@example.org - < mail
  tollhouse report --server http://127.0.0.1:8377 --user ann --to ham@example.org one.eml two.eml

Mail servers run this from a pipe transport. The reporter is the user or the envelope sender, never
what the mail says. [reports] lists senders that may report, [report_addresses] the class of each
address.")]
pub(crate) struct ReportArgs {
    /// Mail files, or - for standard input
    #[arg(required = true, value_name = "FILE|-")]
    files: Vec<PathBuf>,
    /// Envelope sender
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Envelope recipient; repeatable
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Authenticated user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    server: TargetServerOptions,
}

/// A line of `--json`.
#[derive(Serialize)]
struct ReportLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    reported: &'a MailReportJson,
}

pub(crate) fn run(args: ReportArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.server.json.json);
    let client = args.server.client()?;
    let to = args.to.join(", ");
    let (mut mails, mut duplicates, mut exit) = (0, 0, Exit::Fine);
    for file in &args.files {
        let name = file.display().to_string();
        let mail = read(file).map_err(|error| CommandError::new(format_args!("{name}: {error}")))?;
        let mut headers = vec![("content-type", "message/rfc822")];
        headers.extend(args.from.as_deref().map(|from| ("tollhouse-mail-from", from)));
        headers.extend(args.user.as_deref().map(|user| ("tollhouse-user", user)));
        headers.extend((!to.is_empty()).then_some(("tollhouse-rcpt-to", to.as_str())));
        let reported = match client.report(args.pipeline.as_deref(), &headers, &mail) {
            Ok(reported) => reported,
            // The mail is at fault: the others are handed over all the same.
            Err(refused) => {
                let why = refused.of_report()?;
                say(format_args!("{name}: {why}"));
                exit = Exit::Found;
                continue;
            }
        };
        mails += reported.feedback.len();
        duplicates += reported.feedback.iter().filter(|outcome| outcome.duplicate).count();
        if out.is_json() {
            out.json(&ReportLine { file: &name, reported: &reported })?;
        }
    }
    out.flush()?;
    say(format_args!("{mails} mails reported, {duplicates} of them known before"));
    Ok(exit)
}

/// A mail, of no more bytes than one may have.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut mail = Vec::new();
    let most = MESSAGE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut mail)?;
    } else {
        std::fs::File::open(file)?.take(most).read_to_end(&mut mail)?;
    }
    Ok(mail)
}
