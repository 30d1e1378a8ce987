//! The names that conditions on logged decisions may use: the facts and readings that a version of a pipeline has logged.

use event::{Slot, Type};
use journal::VersionDescription;
use judge::{
    Condition, Diagnostic, Library, Mode, NameCategory, ReadingRequest, Scope, ScopeError, Severity,
    TextFunction,
};

/// Memory that the regular expressions of a condition may take together.
const REGEX_BYTES: usize = 4 << 20;
/// The most that a condition may cost a row, in the unit of [`Condition::cost`].
const COST_MAX: u32 = 20_000;
/// The longest condition, in bytes.
const SOURCE_BYTES_MAX: usize = 4096;

/// A version's columns as names of conditions.
struct LoggedScope<'a> {
    description: &'a VersionDescription,
    regex_bytes: usize,
}

/// Compiles a condition on the rows of a version.
///
/// # Errors
/// All that is wrong with it, as far as this version goes.
pub(super) fn compile(source: &str, description: &VersionDescription) -> Result<Condition, Vec<Diagnostic>> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("a condition has at most {SOURCE_BYTES_MAX} bytes");
        return Err(vec![problem(message)]);
    }
    let mut scope = LoggedScope { description, regex_bytes: REGEX_BYTES };
    let condition = judge::compile(source, &Library::default(), &mut scope)?;
    if condition.cost() > COST_MAX {
        let message = format!("it costs {} a row, and {COST_MAX} are allowed", condition.cost());
        return Err(vec![problem(message)]);
    }
    Ok(condition)
}

fn problem(message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Error, message, range: 0..0, help: None }
}

impl LoggedScope<'_> {
    fn column(&self, name: &str) -> Option<(Slot, Type)> {
        let slot = self.description.slot(name)?;
        let column = self.description.columns.get(usize::from(slot.0)).filter(|column| column.journalled)?;
        Some((slot, column.kind))
    }

    fn kinds(&self, is_wanted: impl Fn(&journal::KindDescription) -> bool) -> Vec<String> {
        let kinds = self.description.kinds.iter().filter(|kind| is_wanted(kind));
        kinds.map(|kind| kind.name.clone()).collect()
    }
}

fn is_distinct(kind: &journal::KindDescription) -> bool {
    kind.piece.is_none()
}

impl Scope for LoggedScope<'_> {
    fn regex_bytes(&mut self) -> Option<&mut usize> {
        Some(&mut self.regex_bytes)
    }

    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        self.column(name).filter(|_| !name.contains('('))
    }

    fn model(&self, name: &str) -> Option<(Slot, Mode)> {
        let (slot, _) = self.column(&format!("model.{name}"))?;
        Some((slot, Mode::Enforce))
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        let name = request.to_string();
        let logged = self.column(&name).map(|(slot, _)| slot);
        logged.ok_or_else(|| ScopeError::Unavailable(format!("`{name}` was not logged, as no rule read it")))
    }

    fn is_kind(&self, name: &str) -> bool {
        self.description.kinds.iter().any(|kind| kind.name == name && !is_distinct(kind))
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.description.kinds.iter().any(|kind| kind.name == name && !kind.aggregate.is_empty())
    }

    fn is_distinct(&self, name: &str) -> bool {
        self.description.kinds.iter().any(|kind| kind.name == name && is_distinct(kind))
    }

    fn is_fraction(&self, request: &ReadingRequest<'_>) -> bool {
        request.column_type() == Type::Integer
            && self.column(&request.to_string()).is_some_and(|(_, kind)| kind == Type::Float)
    }

    fn text_function(&self, name: &str) -> Option<TextFunction> {
        plan::text_function(name)
    }

    fn names(&self, of: NameCategory) -> Vec<String> {
        let columns = || self.description.columns.iter().filter(|column| column.journalled);
        match of {
            NameCategory::Fact => {
                let facts = columns().filter(|column| !column.name.contains('('));
                facts.map(|column| column.name.clone()).collect()
            }
            NameCategory::Kind => self.kinds(|kind| !is_distinct(kind)),
            NameCategory::Distinct => self.kinds(is_distinct),
            NameCategory::Model => {
                let names = columns().filter_map(|column| column.name.strip_prefix("model."));
                names.map(str::to_owned).collect()
            }
        }
    }
}
