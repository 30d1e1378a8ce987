//! Lines of comma-separated values (RFC 4180), each a record: values by the names of columns.
//!
//! A value with separators stands in quotes, in which two quotes are one. A record does not go on with the next line.

use std::borrow::Cow;

/// Most columns of a line.
pub const CSV_COLUMNS_MAX: usize = 1_000;

/// The columns of lines, and what separates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumns {
    /// Names; those of the heading, if there are none.
    pub names: Vec<String>,
    /// The character between them.
    pub separator: u8,
}

impl CsvColumns {
    /// Returns true if the first line has the names.
    pub fn is_headed(&self) -> bool {
        self.names.is_empty()
    }

    /// Calls for each column that has a value. The heading is the line with the names, unless they are configured.
    ///
    /// # Errors
    /// If the line has more values than there are names, or a quote that does not end.
    pub fn read(
        &self,
        heading: &str,
        line: &str,
        mut add: impl FnMut(&str, Cow<'_, str>),
    ) -> Result<(), &'static str> {
        let mut named = CsvValues { rest: Some(heading), separator: self.separator };
        let mut names = self.names.iter();
        let mut values = CsvValues { rest: Some(line), separator: self.separator };
        let mut count = 0;
        while let Some(value) = values.next()? {
            count += 1;
            let name = match self.is_headed() {
                true => named.next()?,
                false => names.next().map(|name| Cow::Borrowed(name.as_str())),
            };
            let Some(name) = name.filter(|_| count <= CSV_COLUMNS_MAX) else {
                return Err("more values than columns");
            };
            let name = name.trim().trim_start_matches('\u{feff}');
            if !name.is_empty() && !value.is_empty() {
                add(name, value);
            }
        }
        Ok(())
    }
}

/// The values of a line.
struct CsvValues<'l> {
    rest: Option<&'l str>,
    separator: u8,
}

impl<'l> CsvValues<'l> {
    fn next(&mut self) -> Result<Option<Cow<'l, str>>, &'static str> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let separator = char::from(self.separator);
        let Some(quoted) = rest.strip_prefix('"') else {
            let (value, after) = match rest.split_once(separator) {
                Some((value, after)) => (value, Some(after)),
                None => (rest, None),
            };
            self.rest = after;
            return Ok(Some(Cow::Borrowed(value)));
        };
        let (mut value, mut rest) = (String::new(), quoted);
        loop {
            let (part, after) = rest.split_once('"').ok_or("a quote that does not end")?;
            value.push_str(part);
            match after.strip_prefix('"') {
                Some(after) => {
                    value.push('"');
                    rest = after;
                }
                None => {
                    // What stands between the quote and the separator belongs to the value, as others read it.
                    let (tail, after) = match after.split_once(separator) {
                        Some((tail, after)) => (tail, Some(after)),
                        None => (after, None),
                    };
                    value.push_str(tail);
                    self.rest = after;
                    return Ok(Some(Cow::Owned(value)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_names_of_their_columns() {
        let check = |names: &[&str], separator: char, heading: &str, line: &str, expected: &str| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let columns = CsvColumns { names, separator: separator as u8 };
            let mut shown = Vec::new();
            let read = columns.read(heading, line, |name, value| shown.push(format!("{name}={value}")));
            let shown = read.map_or_else(str::to_owned, |()| shown.join(" "));
            assert_eq!(shown, expected, "{line}");
        };
        check(&[], ',', "a,b,c", "1,2,3", "a=1 b=2 c=3");
        check(&[], ',', "\u{feff}a,\"b c\"", "1,\"x,\"\"y\"\"\"", "a=1 b c=x,\"y\"");
        check(&["x", "y"], ';', "", "1,5;", "x=1,5");
        check(&["x"], ',', "", "1,2", "more values than columns");
        check(&["x"], ',', "", "\"1", "a quote that does not end");
        check(&["x", "y"], ',', "", "\"1\"a,2", "x=1a y=2");
        check(&[], ',', "", "1", "");
        check(&[], ',', "a", "", "");
    }
}
