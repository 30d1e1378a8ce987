//! Several files as one: includes before and after, `.local` over `.conf`, folders of further files; `%(name)s` in values.

use std::collections::BTreeMap;

use super::ini::{self, IniValue};
use super::{Fail2banFiles, Fail2banProblem};

/// Most files that one configuration is made of.
const FILES_MAX: usize = 200;
/// Most levels of values in values.
const DEPTH_MAX: usize = 10;
/// Most bytes of a value with all that stands in it.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// The section whose options all others have.
const DEFAULT: &str = "DEFAULT";

/// Options by name.
pub type OptionMap = BTreeMap<String, IniValue>;

/// Files that were laid over each other.
#[derive(Clone, Debug, Default)]
pub struct MergedConfig {
    /// Sections but `DEFAULT`.
    sections: BTreeMap<String, OptionMap>,
    /// Names of sections in the order of the files.
    order: Vec<String>,
    defaults: OptionMap,
    /// Values of options before another file changed them: `%(known/name)s`.
    known: BTreeMap<String, OptionMap>,
    /// Problems of the files.
    pub problems: Vec<Fail2banProblem>,
}

impl MergedConfig {
    /// Reads the files of a name, such as `jail` or `filter.d/sshd`; `None` if there are none.
    pub fn read(files: &Fail2banFiles, name: &str) -> Option<MergedConfig> {
        let mut paths = vec![format!("{name}.conf")];
        paths.extend(files.inside(&format!("{name}.d"), ".conf").map(str::to_owned));
        paths.push(format!("{name}.local"));
        paths.extend(files.inside(&format!("{name}.d"), ".local").map(str::to_owned));
        paths.retain(|path| files.get(path).is_some());
        if paths.is_empty() {
            return None;
        }
        let mut config = MergedConfig::default();
        let mut all = Vec::new();
        for path in &paths {
            config.with_includes(files, path, &mut Vec::new(), &mut all);
        }
        for path in all {
            config.add(files, &path);
        }
        Some(config)
    }

    /// Lists a file with those that it includes.
    fn with_includes(
        &mut self,
        files: &Fail2banFiles,
        path: &str,
        seen: &mut Vec<String>,
        all: &mut Vec<String>,
    ) {
        if seen.iter().any(|known| known == path) {
            return;
        }
        let Some(text) = files.get(path) else { return };
        if all.len() >= FILES_MAX || seen.len() >= DEPTH_MAX {
            let message = format!(
                "more than {FILES_MAX} files, or {DEPTH_MAX} that include each other: it is left out"
            );
            self.problems.push(Fail2banProblem { file: path.to_owned(), line: 0, message });
            return;
        }
        let (sections, _) = ini::read(path, text);
        let included = |option: &str| {
            let section = sections.iter().find(|section| section.name == "INCLUDES")?;
            section.options.iter().find(|(name, _)| name == option).map(|(_, value)| value.clone())
        };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        seen.push(path.to_owned());
        for option in ["before", "after"] {
            if option == "after" {
                all.push(path.to_owned());
            }
            let Some(value) = included(option) else { continue };
            for name in value.text.lines().map(str::trim).filter(|name| !name.is_empty()) {
                if name.starts_with('/') || name.split('/').any(|part| part == "..") {
                    self.problems.push(Fail2banProblem {
                        file: path.to_owned(),
                        line: value.line,
                        message: format!("`{name}` lies outside of the configuration, and is left out"),
                    });
                    continue;
                }
                let target = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                self.with_includes(files, &target, seen, all);
                if let Some(stem) = target.strip_suffix(".conf") {
                    self.with_includes(files, &format!("{stem}.local"), seen, all);
                }
            }
        }
        seen.pop();
    }

    fn add(&mut self, files: &Fail2banFiles, path: &str) {
        let Some(text) = files.get(path) else { return };
        let (sections, problems) = ini::read(path, text);
        for problem in problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        for section in sections {
            if section.name == DEFAULT {
                self.defaults.extend(section.options);
                continue;
            }
            let name = section.name.split('?').next().unwrap_or_default().to_owned();
            // `[Init?family=inet6]`: options that hold under a condition.
            let condition = section.name[name.len()..].to_owned();
            if !self.sections.contains_key(&name) {
                self.order.push(name.clone());
            }
            let options = self.sections.entry(name.clone()).or_default();
            for (option, value) in section.options {
                let option = option + &condition;
                if let Some(old) = options.insert(option.clone(), value) {
                    self.known.entry(name.clone()).or_default().insert(option, old);
                }
            }
        }
    }

    /// Names of sections in the order of the files.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str).filter(|name| *name != "INCLUDES")
    }

    /// Returns true if a section has been written.
    pub fn has_section(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// The names of a section's own options.
    pub fn own_options(&self, section: &str) -> impl Iterator<Item = &str> {
        self.sections.get(section).into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Sets an option that all sections have unless a file says otherwise.
    pub fn set_default(&mut self, name: &str, text: &str) {
        let value = IniValue { text: text.to_owned(), file: String::new(), line: 0 };
        self.defaults.entry(name.to_owned()).or_insert(value);
    }

    /// Sets what `%(known/name)s` means in a section.
    pub fn set_known(&mut self, section: &str, name: &str, text: &str) {
        let value = IniValue { text: text.to_owned(), file: String::new(), line: 0 };
        self.known.entry(section.to_owned()).or_default().entry(name.to_owned()).or_insert(value);
    }

    /// An option as written, with where.
    pub fn raw(&self, section: &str, name: &str) -> Option<&IniValue> {
        self.sections.get(section).and_then(|options| options.get(name)).or_else(|| self.defaults.get(name))
    }

    /// Returns an option with all that stands in it; `None` if there is none. Given values come before the files'.
    pub fn get(
        &self,
        section: &str,
        name: &str,
        given: &BTreeMap<String, String>,
    ) -> Option<Result<String, Fail2banProblem>> {
        let name = name.to_lowercase();
        let origin = self.raw(section, &name);
        let text = match given.get(&name) {
            Some(text) => text.clone(),
            None => origin?.text.clone(),
        };
        let mut out = String::new();
        let result = self.interpolate(section, &text, given, 0, &mut out).map(|()| out);
        Some(result.map_err(|message| Fail2banProblem {
            file: origin.map_or_else(String::new, |origin| origin.file.clone()),
            line: origin.map_or(0, |origin| origin.line),
            message: format!("`{name}`: {message}"),
        }))
    }

    /// Returns an option named as `section/option` in tags: `<lt_file/datepattern>`.
    pub fn get_in(&self, section: &str, name: &str) -> Option<Result<String, Fail2banProblem>> {
        let section = if section.eq_ignore_ascii_case("default") { DEFAULT } else { section };
        if section != DEFAULT && !self.has_section(section) {
            return None;
        }
        self.get(section, name, &BTreeMap::new())
    }

    fn interpolate(
        &self,
        section: &str,
        text: &str,
        given: &BTreeMap<String, String>,
        depth: usize,
        out: &mut String,
    ) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} values inside of each other"));
        }
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('(') {
                let end = after.find(')').ok_or("`%(` without an end")?;
                let name = after[..end].to_lowercase();
                rest = after[end + 1..].strip_prefix('s').ok_or("`%(name)` without an `s`")?;
                let value =
                    self.named(section, &name, given).ok_or_else(|| format!("`%({name})s` is nowhere"))?;
                self.interpolate(section, &value, given, depth + 1, out)?;
            } else {
                return Err("`%` stands for itself only as `%%`".to_owned());
            }
            if out.len() > VALUE_BYTES_MAX {
                return Err(format!("longer than {VALUE_BYTES_MAX} bytes"));
            }
        }
        out.push_str(rest);
        if out.len() > VALUE_BYTES_MAX { Err(format!("longer than {VALUE_BYTES_MAX} bytes")) } else { Ok(()) }
    }

    /// The text that a name stands for.
    fn named(&self, section: &str, name: &str, given: &BTreeMap<String, String>) -> Option<String> {
        if let Some(text) = given.get(name) {
            return Some(text.clone());
        }
        if name == "__name__" {
            return Some(section.to_owned());
        }
        if let Some(value) = self.raw(section, name) {
            return Some(value.text.clone());
        }
        let (of, option) = name.split_once('/')?;
        let of = self.sections.keys().find(|known| known.to_lowercase() == of).map_or(of, String::as_str);
        let value = match of {
            "known" => self.known.get(section).and_then(|options| options.get(option)),
            "default" => None,
            of => self.sections.get(of).and_then(|options| options.get(option)),
        };
        value.or_else(|| self.defaults.get(option)).map(|value| value.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Fail2banFiles {
        Fail2banFiles(texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn later_files_win_and_earlier_values_are_known() {
        let files = files(&[
            (
                "jail.conf",
                "[INCLUDES]\nbefore = p.conf\n[DEFAULT]\nbantime = 10m\n[s]\nlog = %(path)s\nx = a\n",
            ),
            ("p.conf", "[DEFAULT]\npath = /p\nbantime = 1m\n"),
            ("p.local", "[DEFAULT]\npath = /q\n"),
            ("jail.d/z.conf", "[s]\nx = %(known/x)s b 100%%\n"),
            ("jail.local", "[s]\nbantime = %(default/bantime)s %(__name__)s\n[t]\n"),
        ]);
        let config = MergedConfig::read(&files, "jail").expect("config");
        let check = |section: &str, name: &str, expected: &str| {
            let text = config.get(section, name, &BTreeMap::new()).expect("option").expect("value");
            assert_eq!(text, expected, "{section}/{name}");
        };
        check("s", "log", "/q");
        check("s", "x", "a b 100%");
        check("s", "bantime", "10m s");
        check("t", "bantime", "10m");
        assert_eq!(config.sections().collect::<Vec<_>>(), ["s", "t"]);
        assert!(config.problems.is_empty());
    }

    #[test]
    fn values_that_are_none_name_their_place() {
        let check = |text: &str, expected: &str| {
            let files = files(&[("f.conf", text)]);
            let config = MergedConfig::read(&files, "f").expect("config");
            let problem = config.get("A", "x", &BTreeMap::new()).expect("option").expect_err("problem");
            assert_eq!(problem.to_string(), expected);
        };
        check("[A]\nx = %(y)s", "f.conf:2: `x`: `%(y)s` is nowhere");
        check("[A]\n\nx = 5%", "f.conf:3: `x`: `%` stands for itself only as `%%`");
        check("[A]\nx = %(x)s", "f.conf:2: `x`: more than 10 values inside of each other");
        let wide = format!(
            "[A]\nx = {}\ny = {}\nz = {}\n",
            "%(y)s".repeat(1000),
            "%(z)s".repeat(1000),
            "z".repeat(1000)
        );
        check(&wide, "f.conf:2: `x`: longer than 1048576 bytes");
    }
}
