//! Files of CrowdSec for commands: what is not taken is said.

use std::collections::BTreeMap;
use std::path::Path;

use logs::crowdsec::CrowdsecFiles;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use sources::crowdsec_files;

use crate::console::{printable, say};
use crate::exit::CommandError;

/// Reads the files of a folder, each by its path below it.
pub(crate) fn read(directory: &Path) -> Result<CrowdsecFiles, CommandError> {
    let mut told = Vec::new();
    let read = crowdsec_files::read(directory, &mut told);
    say_all(&told);
    read.map_err(|error| CommandError::new(format_args!("{}: {error}", directory.display())))
}

/// Reads a folder into texts by their paths below a root.
pub(crate) fn read_folder(
    root: &Path,
    folder: &Path,
    depth: usize,
    bytes_max: usize,
    files: &mut BTreeMap<String, String>,
) {
    let mut told = Vec::new();
    crowdsec_files::read_folder(root, folder, depth, bytes_max, files, &mut told);
    say_all(&told);
}

/// Reads the files that scenarios look into.
pub(crate) fn data(directory: &Path, named: Option<&Path>) -> CrowdsecDataFiles {
    let mut told = Vec::new();
    let data = crowdsec_files::data(directory, named, &mut told);
    say_all(&told);
    data
}

fn say_all(told: &[String]) {
    told.iter().for_each(|told| say(format_args!("not taken: {}", printable(told))));
}
