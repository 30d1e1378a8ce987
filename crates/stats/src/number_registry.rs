//! The numbers under which what has a name is stored: each is allotted once, and never given to anything else.
//!
//! ```text
//! 1 kind 3 from         space, what it is, number, name
//! 1 dropped 4 to        its number stays taken; the name is free
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use event::{Kind, Space};

use crate::catalog::Catalog;
use crate::kind::windows::Layout;

/// The section of the configuration that has a name of the registry, or that none has it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberedSection {
    /// A kind of keys.
    Kind,
    /// A distinct count.
    Distinct,
    /// A last value.
    Last,
    /// A label.
    Label,
    /// A classifier.
    Classifier,
    /// A limit.
    Limit,
    /// None any more: the number stays taken.
    Dropped,
}

impl NumberedSection {
    const WORDS: [(NumberedSection, &str); 7] = [
        (NumberedSection::Kind, "kind"),
        (NumberedSection::Distinct, "distinct"),
        (NumberedSection::Last, "last"),
        (NumberedSection::Label, "label"),
        (NumberedSection::Classifier, "classifier"),
        (NumberedSection::Limit, "limit"),
        (NumberedSection::Dropped, "dropped"),
    ];

    /// Returns the name of the section in configurations.
    pub fn name(self) -> &'static str {
        NumberedSection::WORDS.iter().find(|(known, _)| *known == self).map_or("", |(_, word)| word)
    }

    /// Returns the greatest number that one of the section can have. Above those of limits are the kinds that belong to each.
    pub const fn number_max(self) -> u16 {
        match self {
            NumberedSection::Limit => 0x1fff,
            _ => Catalog::KINDS - 3,
        }
    }
}

impl FromStr for NumberedSection {
    type Err = NumberRegistryError;

    fn from_str(text: &str) -> Result<NumberedSection, NumberRegistryError> {
        let known = NumberedSection::WORDS.iter().find(|(_, word)| *word == text);
        known.map(|(section, _)| *section).ok_or(NumberRegistryError::Text)
    }
}

/// A name with its section. It is shown as `SPACE/SECTION/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredName {
    /// The space in which it has its number.
    pub space: Space,
    /// The section that has it.
    pub section: NumberedSection,
    /// The name.
    pub name: String,
}

impl fmt::Display for RegisteredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.space.0, self.section.name(), self.name)
    }
}

/// Reasons for an invalid registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberRegistryError {
    /// All numbers of a section are taken.
    #[error("{0} cannot have a number: all {max} are taken, also by names that are in use no more", max = .0.section.number_max())]
    Exhausted(RegisteredName),
    /// A text that is no registry.
    #[error("it is no registry of numbers")]
    Text,
    /// The name does not exist.
    #[error("no name in the registry is `{0}`")]
    Unknown(String),
    /// Several names end so.
    #[error("`{0}` may be {1}")]
    Ambiguous(String, String),
    /// A name that is taken.
    #[error("{0} is there already, under the number {number}", number = .1.0)]
    Taken(RegisteredName, Kind),
    /// A text that is no name.
    #[error("`{0}` is no name: it has 1 to {max} letters, digits, `_`, `-` and `.`", max = NumberRegistry::NAME_BYTES_MAX)]
    Name(String),
}

/// All names that ever had a number, and the numbers. Cloning copies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberRegistry {
    by_number: BTreeMap<(Space, Kind), RegisteredName>,
    /// The kinds in use.
    by_name: HashMap<RegisteredName, Kind>,
}

impl NumberRegistry {
    /// The longest name.
    pub const NAME_BYTES_MAX: usize = Layout::NAME_BYTES_MAX;

    /// All of them, in the order of space and number.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &RegisteredName)> {
        self.by_number.iter().map(|((_, number), name)| (*number, name))
    }

    /// The number of a name.
    pub fn number(&self, name: &RegisteredName) -> Option<Kind> {
        self.by_name.get(name).copied()
    }

    /// The name that has a number.
    pub fn name(&self, space: Space, number: Kind) -> Option<&RegisteredName> {
        self.by_number.get(&(space, number))
    }

    /// Returns the number of a name, which gets the one above all others of its space if it has none.
    ///
    /// # Errors
    /// [`NumberRegistryError::Exhausted`].
    pub fn allot(&mut self, name: RegisteredName) -> Result<Kind, NumberRegistryError> {
        if let Some(number) = self.number(&name) {
            return Ok(number);
        }
        let of_space = (name.space, Kind(0))..=(name.space, Kind(u16::MAX));
        let last = self.by_number.range(of_space).next_back().map_or(0, |((_, number), _)| number.0);
        let number = Kind(last + 1);
        if number.0 > name.section.number_max() {
            return Err(NumberRegistryError::Exhausted(name));
        }
        self.put(number, name);
        Ok(number)
    }

    /// Returns the registry with the names of another: under the numbers that they have there, where nothing has these.
    ///
    /// # Errors
    /// [`NumberRegistryError::Exhausted`].
    pub fn with(&self, other: &NumberRegistry) -> Result<NumberRegistry, NumberRegistryError> {
        let mut all = self.clone();
        for (number, name) in other.iter() {
            let is_free = !all.by_number.contains_key(&(name.space, number));
            match name.section {
                NumberedSection::Dropped if !is_free => {}
                _ if all.number(name).is_some() => {}
                _ if is_free => all.put(number, name.clone()),
                _ => {
                    all.allot(name.clone())?;
                }
            }
        }
        Ok(all)
    }

    /// Returns the registry with all of another that neither has a name nor a number which is here.
    pub fn restored(&self, other: &NumberRegistry) -> NumberRegistry {
        let mut all = self.clone();
        for (number, name) in other.iter() {
            if all.number(name).is_none() && !all.by_number.contains_key(&(name.space, number)) {
                all.put(number, name.clone());
            }
        }
        all
    }

    /// Returns true if all names that another has in use have the same numbers here.
    pub fn includes(&self, other: &NumberRegistry) -> bool {
        other.by_name.iter().all(|(name, number)| self.number(name) == Some(*number))
    }

    /// Finds the name in use that a text means: as it is shown, or as much of its end as no other has.
    ///
    /// # Errors
    /// [`NumberRegistryError::Unknown`], [`NumberRegistryError::Ambiguous`].
    pub fn find(&self, text: &str) -> Result<&RegisteredName, NumberRegistryError> {
        let is_meant = |name: &&RegisteredName| {
            let shown = name.to_string();
            name.section != NumberedSection::Dropped
                && (shown == text || shown.ends_with(&format!("/{text}")))
        };
        let meant: Vec<&RegisteredName> = self.by_number.values().filter(is_meant).collect();
        match meant[..] {
            [] => Err(NumberRegistryError::Unknown(text.to_owned())),
            [one] => Ok(one),
            _ => {
                let all: Vec<String> = meant.iter().map(ToString::to_string).collect();
                Err(NumberRegistryError::Ambiguous(text.to_owned(), all.join(" or ")))
            }
        }
    }

    /// Gives a number another name; what is stored under it is that of the new name from then on.
    ///
    /// # Errors
    /// [`NumberRegistryError`] if there is no such name, or the new one is taken or is none.
    pub fn rename(&mut self, old: &RegisteredName, new: &str) -> Result<(), NumberRegistryError> {
        let number = self.number(old).ok_or_else(|| NumberRegistryError::Unknown(old.to_string()))?;
        if !is_name(new) {
            return Err(NumberRegistryError::Name(new.to_owned()));
        }
        let renamed = RegisteredName { name: new.to_owned(), ..old.clone() };
        if let Some(number) = self.number(&renamed) {
            return Err(NumberRegistryError::Taken(renamed, number));
        }
        self.by_name.remove(old);
        self.put(number, renamed);
        Ok(())
    }

    /// Lets go of a name: its number is never given again, and the name begins anew where it is used again.
    ///
    /// # Errors
    /// [`NumberRegistryError::Unknown`].
    pub fn drop_name(&mut self, name: &RegisteredName) -> Result<(), NumberRegistryError> {
        let number =
            self.by_name.remove(name).ok_or_else(|| NumberRegistryError::Unknown(name.to_string()))?;
        self.put(number, RegisteredName { section: NumberedSection::Dropped, ..name.clone() });
        Ok(())
    }

    fn put(&mut self, number: Kind, name: RegisteredName) {
        if name.section != NumberedSection::Dropped {
            self.by_name.insert(name.clone(), number);
        }
        self.by_number.insert((name.space, number), name);
    }

    /// Adds a line of a registry's text, or of one of a name that somebody else has allotted.
    ///
    /// # Errors
    /// [`NumberRegistryError::Text`] if it is none, or says otherwise than another line.
    pub fn add_line(&mut self, line: &str) -> Result<(), NumberRegistryError> {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or(NumberRegistryError::Text);
        let space = Space(word()?.parse().map_err(|_| NumberRegistryError::Text)?);
        let section: NumberedSection = word()?.parse()?;
        let number: u16 = word()?.parse().map_err(|_| NumberRegistryError::Text)?;
        let name = RegisteredName { space, section, name: word()?.to_owned() };
        let number = Kind(number);
        let is_sound = words.next().is_none()
            && is_name(&name.name)
            && (1..=section.number_max()).contains(&number.0)
            && self.number(&name).is_none()
            && !self.by_number.contains_key(&(space, number));
        if !is_sound {
            return Err(NumberRegistryError::Text);
        }
        self.put(number, name);
        Ok(())
    }
}

/// The text of a registry, a line for each name.
impl fmt::Display for NumberRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(number, name)| {
            let RegisteredName { space, section, name } = name;
            writeln!(f, "{} {} {} {name}", space.0, section.name(), number.0)
        })
    }
}

impl FromStr for NumberRegistry {
    type Err = NumberRegistryError;

    fn from_str(text: &str) -> Result<NumberRegistry, NumberRegistryError> {
        let mut registry = NumberRegistry::default();
        text.lines().try_for_each(|line| registry.add_line(line))?;
        Ok(registry)
    }
}

fn is_name(text: &str) -> bool {
    (1..=NumberRegistry::NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(space: u16, section: NumberedSection, name: &str) -> RegisteredName {
        RegisteredName { space: Space(space), section, name: name.to_owned() }
    }

    fn kind(name: &str) -> RegisteredName {
        named(1, NumberedSection::Kind, name)
    }

    #[test]
    fn numbers_are_allotted_in_order_and_remembered() {
        let mut registry = NumberRegistry::default();
        let label = named(1, NumberedSection::Label, "from");
        let elsewhere = named(2, NumberedSection::Kind, "from");
        for (name, number) in
            [(kind("from"), 1), (kind("ip"), 2), (label, 3), (elsewhere, 1), (kind("from"), 1)]
        {
            assert_eq!(registry.allot(name), Ok(Kind(number)));
        }
        let text = registry.to_string();
        assert_eq!(text, "1 kind 1 from\n1 kind 2 ip\n1 label 3 from\n2 kind 1 from\n");
        assert_eq!(text.parse(), Ok(registry));
    }

    #[test]
    fn a_number_is_never_given_again() {
        let mut registry = NumberRegistry::default();
        for name in ["a", "b"] {
            registry.allot(kind(name)).unwrap();
        }
        registry.rename(&kind("b"), "c").unwrap();
        assert_eq!((registry.number(&kind("b")), registry.number(&kind("c"))), (None, Some(Kind(2))));
        assert_eq!(registry.allot(kind("b")), Ok(Kind(3)));
        assert_eq!(registry.rename(&kind("b"), "c"), Err(NumberRegistryError::Taken(kind("c"), Kind(2))));
        registry.drop_name(&kind("b")).unwrap();
        assert_eq!(registry.drop_name(&kind("b")), Err(NumberRegistryError::Unknown("1/kind/b".to_owned())));
        assert_eq!(registry.allot(kind("b")), Ok(Kind(4)));
        registry.drop_name(&kind("b")).unwrap();
        assert_eq!(registry.to_string(), "1 kind 1 a\n1 kind 2 c\n1 dropped 3 b\n1 dropped 4 b\n");
        assert_eq!(registry.to_string().parse(), Ok(registry));
    }

    #[test]
    fn names_are_found_by_as_much_of_them_as_no_other_has() {
        let mut registry = NumberRegistry::default();
        for name in [kind("ip"), named(1, NumberedSection::Label, "ip"), kind("n.ip")] {
            registry.allot(name).unwrap();
        }
        assert_eq!(registry.find("kind/ip"), Ok(&kind("ip")));
        assert_eq!(registry.find("1/kind/ip"), Ok(&kind("ip")));
        assert_eq!(registry.find("n.ip"), Ok(&kind("n.ip")));
        assert_eq!(registry.find("p"), Err(NumberRegistryError::Unknown("p".to_owned())));
        assert_eq!(registry.find("ip").unwrap_err().to_string(), "`ip` may be 1/kind/ip or 1/label/ip");
    }

    #[test]
    fn registries_are_united_without_a_number_meaning_two_things() {
        let of = |text: &str| text.parse::<NumberRegistry>().unwrap();
        let here = of("1 kind 1 a\n1 kind 2 b\n1 dropped 3 c\n");
        let there = of("1 kind 1 b\n1 kind 3 c\n1 kind 7 d\n1 dropped 8 e\n");
        let both = here.with(&there).unwrap();
        assert_eq!(
            both.to_string(),
            "1 kind 1 a\n1 kind 2 b\n1 dropped 3 c\n1 kind 4 c\n1 kind 7 d\n1 dropped 8 e\n"
        );
        assert!(both.includes(&here) && !both.includes(&there) && !here.includes(&both));
        assert_eq!(both.with(&there), Ok(both));
    }

    #[test]
    fn numbers_end() {
        let last = NumberedSection::Limit.number_max();
        let mut registry: NumberRegistry = format!("9 limit {last} a\n").parse().unwrap();
        let more = named(9, NumberedSection::Limit, "b");
        assert_eq!(registry.allot(more.clone()), Err(NumberRegistryError::Exhausted(more)));
    }

    #[test]
    fn other_texts_are_no_registries() {
        for text in [
            "\n",
            "1 kind 1",
            "1 kind 1 a b",
            "1 kind 0 a",
            "1 kind 32763 a",
            "1 limit 8192 a",
            "1 thing 1 a",
            "65536 kind 1 a",
            "1 kind 1 ä",
            "1 kind 1 a\n1 kind 2 a",
            "1 kind 1 a\n1 kind 1 b",
        ] {
            assert_eq!(text.parse::<NumberRegistry>(), Err(NumberRegistryError::Text), "{text}");
        }
    }
}
