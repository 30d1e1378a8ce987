//! One file in the form of Python's `configparser`: sections, options, values over several lines, comments.

use super::{FILE_BYTES_MAX, Fail2banProblem};

/// Most options of a file.
const OPTIONS_MAX: usize = 10_000;

/// A value as written, with the line that it begins in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IniValue {
    /// The text; lines of a longer one are joined by line feeds.
    pub text: String,
    /// The file.
    pub file: String,
    /// The line of the option, from 1.
    pub line: usize,
}

/// A section of a file: options in their order, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IniSection {
    /// The name.
    pub name: String,
    /// The options.
    pub options: Vec<(String, IniValue)>,
}

/// Reads a file. A line that is neither a section nor an option is a problem, and is passed over.
pub fn read(file: &str, text: &str) -> (Vec<IniSection>, Vec<Fail2banProblem>) {
    let mut sections: Vec<IniSection> = Vec::new();
    let mut problems = Vec::new();
    let mut problem = |line: usize, message: &str| {
        problems.push(Fail2banProblem { file: file.to_owned(), line, message: message.to_owned() });
    };
    if text.len() > FILE_BYTES_MAX {
        problem(0, &format!("longer than {FILE_BYTES_MAX} bytes"));
        return (sections, problems);
    }
    let mut indent = 0;
    let mut in_option = false;
    let mut options = 0;
    for (index, full) in text.lines().enumerate() {
        let trimmed = full.trim();
        let is_comment = trimmed.starts_with(['#', ';']);
        let content = if is_comment { "" } else { without_comment(full).trim() };
        if content.is_empty() {
            // An empty line may be part of a value, a comment is not.
            if !is_comment && in_option && trimmed.is_empty() {
                extend(&mut sections, "");
            }
            continue;
        }
        let here = full.len() - full.trim_start().len();
        if in_option && here > indent {
            extend(&mut sections, content);
            continue;
        }
        indent = here;
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            in_option = false;
            match sections.iter().position(|section| section.name == name) {
                // A section that is continued moves to the end, where options are added.
                Some(at) => {
                    let section = sections.remove(at);
                    sections.push(section);
                }
                None => sections.push(IniSection { name: name.to_owned(), options: Vec::new() }),
            }
            continue;
        }
        let Some(at) = content.find(['=', ':']) else {
            in_option = false;
            problem(index + 1, "neither a section nor an option");
            continue;
        };
        let name = content[..at].trim().to_lowercase();
        let Some(section) = sections.last_mut() else {
            problem(index + 1, "an option before the first section");
            continue;
        };
        options += 1;
        if name.is_empty() || options > OPTIONS_MAX {
            in_option = false;
            problem(index + 1, "an option without a name, or one too many");
            continue;
        }
        let value =
            IniValue { text: content[at + 1..].trim().to_owned(), file: file.to_owned(), line: index + 1 };
        in_option = true;
        section.options.retain(|(known, _)| *known != name);
        section.options.push((name, value));
    }
    for section in &mut sections {
        for (_, value) in &mut section.options {
            value.text.truncate(value.text.trim_end().len());
        }
    }
    (sections, problems)
}

fn extend(sections: &mut [IniSection], content: &str) {
    if let Some((_, value)) = sections.last_mut().and_then(|section| section.options.last_mut()) {
        value.text.push('\n');
        value.text.push_str(content);
    }
}

/// Returns a line without a comment behind it: a semicolon after a space.
fn without_comment(line: &str) -> &str {
    let is_comment = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    match line.match_indices(';').map(|(at, _)| at).find(is_comment) {
        Some(at) => &line[..at],
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_span_lines_and_comments_do_not_count() {
        let text =
            "# c\n[A]\nOne = 1 ; c\ntwo: 2;x\n   3\n   # c\n\n   4\n\n[B]\nkey =\n  v\nwrong\n[A]\none = 5\n";
        let (sections, problems) = read("f", text);
        let option = |section: &str, name: &str| {
            let section = sections.iter().find(|known| known.name == section).expect("section");
            let (_, value) = section.options.iter().find(|(known, _)| known == name).expect("option");
            (value.text.clone(), value.line)
        };
        assert_eq!(option("A", "one"), ("5".to_owned(), 15));
        assert_eq!(option("A", "two"), ("2;x\n3\n\n4".to_owned(), 4));
        assert_eq!(option("B", "key"), ("\nv".to_owned(), 11));
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [13]);
    }
}
