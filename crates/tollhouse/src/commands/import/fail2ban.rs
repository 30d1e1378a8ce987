//! `tollhouse import fail2ban`: writes the jails of fail2ban as pipelines.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use indicatif::HumanCount;
use logs::IPV6_PREFIX;
use logs::fail2ban::{FILE_BYTES_MAX, Fail2banFiles};

use crate::console::{printable, say};
use crate::exit::{CommandError, Exit};

/// Convert fail2ban's enabled jails to pipelines, with their filters, counts and bans
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import fail2ban --output ./bans /etc/fail2ban
  tollhouse serve --data ./data --config ./bans/tollhouse.toml

The jails' logs become sources in the configuration. What cannot be converted is listed with file
and line. The folder that is read does not change.")]
pub(super) struct Fail2banImportArgs {
    /// Folder of fail2ban's configuration, such as /etc/fail2ban
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// New folder for the configuration
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Bits of an IPv6 address that are counted and banned; 128: single addresses
    #[arg(long, value_name = "N", default_value_t = IPV6_PREFIX, value_parser = clap::value_parser!(u8).range(16..=128))]
    ipv6_prefix: u8,
}

/// Most files that are read.
const FILES_MAX: usize = 2_000;
/// Folders whose files are read, with the configuration's own.
const FOLDERS: [&str; 3] = ["", "jail.d", "filter.d"];

pub(super) fn run(args: &Fail2banImportArgs) -> Result<Exit, CommandError> {
    let files = read_files(&args.directory)?;
    let import = plan::formats::fail2ban::read(&files, args.ipv6_prefix);
    if !import.files.is_empty() {
        let failed = |path: &Path, error: std::io::Error| {
            CommandError::new(format_args!("{}: {error}", path.display()))
        };
        disk::create_directories(&args.output).map_err(|error| failed(&args.output, error))?;
        for (name, text) in &import.files {
            let path = args.output.join(name);
            let draft = disk::AtomicFile::of_new(&path);
            let written = draft.and_then(|mut draft| {
                draft.write_all(text.as_bytes())?;
                draft.commit()
            });
            written.map_err(|error| failed(&path, error))?;
        }
    }
    say(format_args!(
        "{} jails with {} patterns",
        HumanCount(import.files.len() as u64),
        HumanCount(import.patterns as u64)
    ));
    for left in &import.left {
        say(format_args!("not taken: {}", printable(left)));
    }
    if import.sources > 0 {
        let count = HumanCount(import.sources as u64);
        say(format_args!("{count} sources, which `tollhouse serve` reads"));
    }
    if import.files.is_empty() {
        say("no jail is switched on");
        return Ok(Exit::Found);
    }
    Ok(Exit::Fine)
}

/// Reads the files of a configuration. A file that is too large or no text is passed over, and said so.
fn read_files(directory: &Path) -> Result<Fail2banFiles, CommandError> {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        let path = directory.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(_) if !folder.is_empty() => continue,
            Err(error) => return Err(CommandError::new(format_args!("{}: {error}", path.display()))),
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.ends_with(".conf") && !name.ends_with(".local") {
                continue;
            }
            if files.len() >= FILES_MAX {
                say(format_args!("not taken: more than {FILES_MAX} files"));
                return Ok(Fail2banFiles(files));
            }
            let mut text = String::new();
            let read = File::open(entry.path())
                .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text));
            match read {
                Ok(_) => {
                    files.insert(if folder.is_empty() { name } else { format!("{folder}/{name}") }, text);
                }
                Err(error) => say(format_args!("not taken: {}: {error}", entry.path().display())),
            }
        }
    }
    Ok(Fail2banFiles(files))
}
