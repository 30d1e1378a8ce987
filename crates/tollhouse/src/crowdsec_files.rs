//! Files of CrowdSec, read from disk: a hub's folder, or an installation's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use logs::crowdsec::data_files::{CrowdsecDataFiles, DATA_FILE_BYTES_MAX};
use logs::crowdsec::{CROWDSEC_FILE_BYTES_MAX, CrowdsecFiles};

use crate::console::say;
use crate::exit::CommandError;

/// Most files that are read.
const FILES_MAX: usize = 20_000;
/// Most folders inside of one another.
const DEPTH_MAX: usize = 6;
/// Folders of a hub's files.
const FOLDERS: [&str; 5] = ["parsers", "scenarios", "postoverflows", "patterns", "acquis.d"];
/// Files beside them.
const BESIDE: [&str; 3] = ["acquis.yaml", "acquis.yml", "profiles.yaml"];
/// The folder of an installation.
const INSTALLED: &str = "/etc/crowdsec";
/// The folder of files that scenarios look into, where CrowdSec is installed.
const INSTALLED_DATA: &str = "/var/lib/crowdsec/data";

/// Reads the files of a folder, each by its path below it.
pub(crate) fn read(directory: &Path) -> Result<CrowdsecFiles, CommandError> {
    fs::read_dir(directory)
        .map_err(|error| CommandError::new(format_args!("{}: {error}", directory.display())))?;
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        read_folder(directory, &directory.join(folder), DEPTH_MAX, CROWDSEC_FILE_BYTES_MAX, &mut files);
    }
    // The hub's own folder has none: patterns come with CrowdSec.
    if !files.keys().any(|path| path.starts_with("patterns/")) {
        let installed = Path::new(INSTALLED);
        read_folder(installed, &installed.join("patterns"), 1, CROWDSEC_FILE_BYTES_MAX, &mut files);
    }
    for name in BESIDE {
        read_file(name.to_owned(), &directory.join(name), CROWDSEC_FILE_BYTES_MAX, &mut files);
    }
    Ok(CrowdsecFiles(files))
}

/// Reads a folder into texts by their paths below a root. What is no text, or too large, is passed over, and said so.
pub(crate) fn read_folder(
    root: &Path,
    folder: &Path,
    depth: usize,
    bytes_max: usize,
    files: &mut BTreeMap<String, String>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Installed files are links into the hub.
        if path.is_dir() {
            if depth > 0 {
                read_folder(root, &path, depth - 1, bytes_max, files);
            }
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
            && !name.ends_with(".md")
        {
            read_file(name.to_owned(), &path, bytes_max, files);
        }
    }
}

fn read_file(name: String, path: &Path, bytes_max: usize, files: &mut BTreeMap<String, String>) {
    if files.len() >= FILES_MAX || !path.is_file() {
        return;
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() > bytes_max => say(format_args!("not taken: {}: too large", path.display())),
        Ok(_) => {
            files.insert(name, text);
        }
        Err(error) => say(format_args!("not taken: {}: {error}", path.display())),
    }
}

/// Reads the files that scenarios look into: of the folder that is named, or else of `data` in the hub's, or of CrowdSec's own.
pub(crate) fn data(directory: &Path, named: Option<&Path>) -> CrowdsecDataFiles {
    let places = match named {
        Some(named) => vec![named.to_owned()],
        None if directory.starts_with(INSTALLED) => {
            vec![directory.join("data"), PathBuf::from(INSTALLED_DATA)]
        }
        None => vec![directory.join("data")],
    };
    let mut data = CrowdsecDataFiles::default();
    for place in places {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten().take(FILES_MAX) {
            let (path, name) = (entry.path(), entry.file_name());
            let is_list = path.extension().is_some_and(|extension| {
                ["txt", "json", "regex"].iter().any(|known| extension.eq_ignore_ascii_case(known))
            });
            let mut files = BTreeMap::new();
            if is_list && let Some(name) = name.to_str() {
                read_file(name.to_owned(), &path, DATA_FILE_BYTES_MAX, &mut files);
            }
            for (name, text) in &files {
                data.add(name, text);
            }
        }
    }
    data
}
