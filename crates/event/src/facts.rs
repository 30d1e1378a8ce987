//! One row of named columns. The stages fill it from left to right; `judge` only reads it.

use std::fmt;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::{Type, Value};

/// The index of a column in its [`Schema`], and of its value in a [`Facts`] row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u16);

/// A column of the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Dotted name, e.g. `mail.subject`.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
    /// One sentence for the reference, without a full stop.
    pub doc: String,
    /// True if the journal keeps the value. Large texts are seen by keys and rules and then let go.
    pub journalled: bool,
}

/// The columns of a row, in order.
#[derive(Debug, Default)]
pub struct Schema {
    columns: Vec<Column>,
    by_name: HashMap<String, Slot>,
    /// Columns that are not journalled.
    transient: Vec<Slot>,
}

/// Collects columns; each stage adds its own.
#[derive(Debug, Default)]
pub struct SchemaBuilder(Schema);

/// A column that could not be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnError {
    /// The name is taken by a column of this type.
    Taken(Type),
    /// The schema has [`Schema::COLUMNS_MAX`] columns already.
    Full,
}

impl fmt::Display for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnError::Taken(kind) => write!(f, "there already is a fact of this name, of type {kind}"),
            ColumnError::Full => write!(f, "a row has at most {} facts", Schema::COLUMNS_MAX),
        }
    }
}

impl std::error::Error for ColumnError {}

impl SchemaBuilder {
    /// Adds a column.
    pub fn add(&mut self, column: Column) -> Result<Slot, ColumnError> {
        if let Some(taken) = self.0.slot(&column.name) {
            return Err(ColumnError::Taken(self.0.column(taken).kind));
        }
        if self.0.columns.len() >= Schema::COLUMNS_MAX {
            return Err(ColumnError::Full);
        }
        let slot = Slot(self.0.columns.len() as u16);
        self.0.by_name.insert(column.name.clone(), slot);
        if !column.journalled {
            self.0.transient.push(slot);
        }
        self.0.columns.push(column);
        Ok(slot)
    }

    /// Keeps the values of a column out of the journal.
    pub fn leave_out(&mut self, slot: Slot) {
        if let Some(column) = self.0.columns.get_mut(usize::from(slot.0))
            && std::mem::replace(&mut column.journalled, false)
        {
            self.0.transient.push(slot);
        }
    }

    /// The schema so far.
    pub fn schema(&self) -> &Schema {
        &self.0
    }

    /// No more columns.
    pub fn finish(self) -> Schema {
        self.0
    }
}

impl Schema {
    /// Most columns that a row can have.
    pub const COLUMNS_MAX: usize = 8192;

    /// Rebuilds a schema from its columns, e.g. as a journal stored them; of two columns with one name the
    /// later is found by it.
    pub fn from_columns(columns: Vec<Column>) -> Schema {
        let by_name =
            columns.iter().zip(0..).map(|(column, slot)| (column.name.clone(), Slot(slot))).collect();
        let of = columns.iter().zip(0..).filter(|(column, _)| !column.journalled);
        let transient = of.map(|(_, slot)| Slot(slot)).collect();
        Schema { columns, by_name, transient }
    }

    /// The columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns whose values the journal does not keep.
    pub fn transient(&self) -> &[Slot] {
        &self.transient
    }

    /// The slot of a column, if there is one of this name.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The column in a slot of this schema.
    pub fn column(&self, slot: Slot) -> &Column {
        &self.columns[usize::from(slot.0)]
    }

    /// A row with no value yet.
    pub fn empty_row(&self) -> Facts {
        Facts { values: vec![None; self.columns.len()] }
    }
}

/// One row: a value, or none, for every column of its schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts {
    values: Vec<Option<Value>>,
}

impl Facts {
    /// A row of these values, in the schema's order.
    pub fn from_values(values: Vec<Option<Value>>) -> Facts {
        Facts { values }
    }

    /// The value in a slot; `None` where it is missing.
    pub fn get(&self, slot: Slot) -> Option<&Value> {
        self.values.get(usize::from(slot.0))?.as_ref()
    }

    /// Fills a slot. A slot beyond the row's schema is ignored.
    pub fn set(&mut self, slot: Slot, value: impl Into<Value>) {
        if let Some(place) = self.values.get_mut(usize::from(slot.0)) {
            *place = Some(value.into());
        }
    }

    /// Empties a slot.
    pub fn clear(&mut self, slot: Slot) -> Option<Value> {
        self.values.get_mut(usize::from(slot.0)).and_then(Option::take)
    }

    /// Empties every slot.
    pub fn clear_all(&mut self) {
        self.values.iter_mut().filter(|value| value.is_some()).for_each(|value| *value = None);
    }

    /// All slots in the schema's order.
    pub fn values(&self) -> &[Option<Value>] {
        &self.values
    }
}

/// Declares the columns that a stage fills: a struct of [`Slot`]s and the registration that makes it, from one
/// list of names, types and one-sentence docs. A column marked `transient` is not journalled. Groups of columns that
/// several stages have in common stand behind `with`, each with the function that registers it.
///
/// ```
/// event::columns! {
///     /// What the example fills.
///     pub struct ExampleColumns {
///         size: Integer "example.size" "Size in bytes",
///         body: String "example.body" "The text" transient,
///     }
/// }
/// let mut builder = event::SchemaBuilder::default();
/// let columns = ExampleColumns::register(&mut builder).unwrap();
/// let mut row = builder.finish().empty_row();
/// row.set(columns.size, 12usize);
/// assert_eq!(row.get(columns.size), Some(&event::Value::Integer(12)));
/// ```
#[macro_export]
macro_rules! columns {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($field:ident: $kind:ident $column:literal $doc:literal $($transient:ident)?,)*
    } $(with { $($group:ident: $of:ty = $register:expr, $group_doc:literal,)* })?) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(#[doc = $doc] pub $field: $crate::Slot,)*
            $($(#[doc = $group_doc] pub $group: $of,)*)?
        }

        impl $name {
            /// Adds these columns to a schema.
            pub fn register(builder: &mut $crate::SchemaBuilder) -> Result<$name, $crate::ColumnError> {
                $name::register_as(builder, &|column| column)
            }

            /// Adds these columns to a schema, each as it is renamed.
            pub fn register_as(
                builder: &mut $crate::SchemaBuilder,
                rename: &dyn Fn($crate::Column) -> $crate::Column,
            ) -> Result<$name, $crate::ColumnError> {
                Ok($name {
                    $($field: builder.add(rename($crate::Column {
                        name: $column.to_owned(),
                        kind: $crate::Type::$kind,
                        doc: $doc.to_owned(),
                        journalled: $crate::columns!(@journalled $($transient)?),
                    }))?,)*
                    $($($group: $register(builder)?,)*)?
                })
            }
        }
    };
    (@journalled) => { true };
    (@journalled transient) => { false };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once() {
        let mut builder = SchemaBuilder::default();
        let column = |kind| Column { name: "a".into(), kind, doc: String::new(), journalled: true };
        let slot = builder.add(column(Type::Integer)).unwrap();
        assert_eq!(builder.add(column(Type::Bool)), Err(ColumnError::Taken(Type::Integer)));
        let large = Column { name: "b".into(), kind: Type::String, doc: String::new(), journalled: false };
        let large = builder.add(large).unwrap();
        builder.leave_out(large);
        let late = Column { name: "c".into(), kind: Type::String, doc: String::new(), journalled: true };
        let late = builder.add(late).unwrap();
        builder.leave_out(late);
        let schema = builder.finish();
        assert_eq!(schema.transient(), [large, late]);
        assert_eq!(Schema::from_columns(schema.columns().to_vec()).transient(), [large, late]);
        assert_eq!(schema.slot("a"), Some(slot));
        let mut row = schema.empty_row();
        assert_eq!(row.get(slot), None);
        row.set(slot, 1i64);
        assert_eq!(row.clear(slot), Some(Value::Integer(1)));
        row.set(Slot(99), 1i64);
        assert_eq!(row.get(Slot(99)), None);
    }
}
