//! `tollhouse import crowdsec`: writes a pipeline that bans whom CrowdSec's scenarios would ban.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use indicatif::HumanCount;
use logs::IPV6_PREFIX;
use sources::reverse_names::DnsNames;

use crate::console::{printable, say};
use crate::crowdsec_files;
use crate::exit::{CommandError, Exit};

/// Convert CrowdSec's scenarios to a pipeline: each becomes a rule that bans as long as the profile says
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import crowdsec --output ./bans /etc/crowdsec
  tollhouse serve --data ./data --config ./bans/tollhouse.toml

Parsers and scenarios stay in place: the server runs them on the logs of `acquis.yaml`, which become
sources in the configuration. What cannot be converted is listed with file and line.")]
pub(super) struct CrowdsecImportArgs {
    /// Folder of CrowdSec's configuration, such as /etc/crowdsec, or of its hub
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// New folder for the configuration
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Bits of an IPv6 address that are counted and banned; 128: single addresses
    #[arg(long, value_name = "N", default_value_t = IPV6_PREFIX, value_parser = clap::value_parser!(u8).range(16..=128))]
    ipv6_prefix: u8,
    /// Folder of the scenarios' data files [default: `data` in the folder, or CrowdSec's own]
    #[arg(long, value_name = "DIR")]
    data_files: Option<PathBuf>,
}

pub(super) fn run(args: &CrowdsecImportArgs) -> Result<Exit, CommandError> {
    let files = crowdsec_files::read(&args.directory)?;
    let mut data = crowdsec_files::data(&args.directory, args.data_files.as_deref());
    // Whoever runs the files will ask for names.
    if let Some(names) = DnsNames::of_system() {
        data.enrichment.set_names(Arc::new(names));
    }
    // The server may run in another folder.
    let directory = std::path::absolute(&args.directory).unwrap_or_else(|_| args.directory.clone());
    let import =
        plan::formats::crowdsec::read(&files, data, &directory.display().to_string(), args.ipv6_prefix);
    for left in &import.left {
        say(format_args!("not taken: {}", printable(left)));
    }
    if import.scenarios == 0 {
        say("no scenario is there");
        return Ok(Exit::Found);
    }
    let path = args.output.join("tollhouse.toml");
    let failed = |error: std::io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
    disk::create_directories(&args.output).map_err(failed)?;
    let draft = disk::AtomicFile::of_new(&path);
    let written = draft.and_then(|mut draft| {
        draft.write_all(import.text.as_bytes())?;
        draft.commit()
    });
    written.map_err(failed)?;
    say(format_args!("{} scenarios", HumanCount(import.scenarios as u64)));
    match import.sources {
        0 => import.commands.iter().for_each(|command| say(format_args!("then run: {}", printable(command)))),
        count => say(format_args!("{} sources, which `tollhouse serve` reads", HumanCount(count as u64))),
    }
    Ok(Exit::Fine)
}
