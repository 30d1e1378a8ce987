//! Files of CrowdSec, read from disk: a hub's folder, or an installation's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use logs::crowdsec::data_files::{CrowdsecDataFiles, DATA_FILE_BYTES_MAX};
use logs::crowdsec::enrichment::DATABASE_BYTES_MAX;
use logs::crowdsec::{CROWDSEC_FILE_BYTES_MAX, CrowdsecFiles};

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
/// Folders of files that scenarios look into, where CrowdSec is installed.
const INSTALLED_DATA: [&str; 2] = ["/usr/share/crowdsec/data", "/var/lib/crowdsec/data"];
/// Endings of lists that scenarios look into.
const LIST_ENDINGS: [&str; 3] = ["txt", "json", "regex"];
/// The ending of databases of addresses.
const DATABASE_ENDING: &str = "mmdb";

/// Reads the files of a folder, each by its path below it. What is not taken is told.
///
/// # Errors
/// If the folder cannot be read.
pub fn read(directory: &Path, told: &mut Vec<String>) -> io::Result<CrowdsecFiles> {
    fs::read_dir(directory)?;
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        read_folder(directory, &directory.join(folder), DEPTH_MAX, CROWDSEC_FILE_BYTES_MAX, &mut files, told);
    }
    // The hub's own folder has none: patterns come with CrowdSec.
    if !files.keys().any(|path| path.starts_with("patterns/")) {
        let installed = Path::new(INSTALLED);
        read_folder(installed, &installed.join("patterns"), 1, CROWDSEC_FILE_BYTES_MAX, &mut files, told);
    }
    for name in BESIDE {
        read_file(name.to_owned(), &directory.join(name), CROWDSEC_FILE_BYTES_MAX, &mut files, told);
    }
    Ok(CrowdsecFiles(files))
}

/// Reads a folder into texts by their paths below a root. What is no text, or too large, is passed over, and told.
pub fn read_folder(
    root: &Path,
    folder: &Path,
    depth: usize,
    bytes_max: usize,
    files: &mut BTreeMap<String, String>,
    told: &mut Vec<String>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Installed files are links into the hub.
        if path.is_dir() {
            if depth > 0 {
                read_folder(root, &path, depth - 1, bytes_max, files, told);
            }
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
            && !name.ends_with(".md")
        {
            read_file(name.to_owned(), &path, bytes_max, files, told);
        }
    }
}

fn read_file(
    name: String,
    path: &Path,
    bytes_max: usize,
    files: &mut BTreeMap<String, String>,
    told: &mut Vec<String>,
) {
    if files.len() >= FILES_MAX || !path.is_file() {
        return;
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() > bytes_max => told.push(format!("{}: too large", path.display())),
        Ok(_) => {
            files.insert(name, text);
        }
        Err(error) => told.push(format!("{}: {error}", path.display())),
    }
}

/// Reads the files that scenarios look into: of the folder that is named, or else of `data` in the hub's, or of CrowdSec's own.
pub fn data(directory: &Path, named: Option<&Path>, told: &mut Vec<String>) -> CrowdsecDataFiles {
    let mut places = Vec::new();
    match named {
        Some(named) => places.push(named.to_owned()),
        None => {
            places.push(directory.join("data"));
            if directory.starts_with(INSTALLED) {
                places.extend(INSTALLED_DATA.map(PathBuf::from));
            }
        }
    }
    let mut data = CrowdsecDataFiles::default();
    for place in places {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten().take(FILES_MAX) {
            let (path, name) = (entry.path(), entry.file_name());
            let Some(ending) = path.extension().and_then(|ending| ending.to_str()) else { continue };
            if ending.eq_ignore_ascii_case(DATABASE_ENDING) {
                if let Err(why) = add_database(&path, &mut data) {
                    told.push(format!("{}: {why}", path.display()));
                }
                continue;
            }
            let is_list = LIST_ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
            let mut files = BTreeMap::new();
            if is_list && let Some(name) = name.to_str() {
                read_file(name.to_owned(), &path, DATA_FILE_BYTES_MAX, &mut files, told);
            }
            for (name, text) in &files {
                data.add(name, text);
            }
        }
    }
    data
}

fn add_database(path: &Path, data: &mut CrowdsecDataFiles) -> Result<(), String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(DATABASE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    data.enrichment.add_database(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("parsers/s00-raw/a.yaml", b"name: a");
        write("parsers/s00-raw/a.md", b"# a");
        write("scenarios/s.yaml", b"\xff");
        write("data/words.txt", b"a\n# b\n");
        write("data/places.mmdb", b"none");
        write("data/picture.png", b"none");
        let mut told = Vec::new();
        let files = read(folder.path(), &mut told).unwrap();
        let names: Vec<&str> = files.0.keys().map(String::as_str).collect();
        assert!(names.contains(&"parsers/s00-raw/a.yaml") && !names.contains(&"parsers/s00-raw/a.md"));
        let data = data(folder.path(), None, &mut told);
        assert!(data.has("words.txt") && !data.has("picture.png"));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("s.yaml") && told[1].contains("places.mmdb"), "{told:?}");
        assert!(read(&folder.path().join("nothing"), &mut told).is_err());
    }
}
