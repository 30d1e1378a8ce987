//! Definitions of cells, as requests and snapshots bring them.

use std::collections::HashMap;
use std::sync::Arc;

use stats::CellPlan;
use stats::cell_export::CellDefinition;

/// Longest field of a form, in bytes.
const FIELD_BYTES_MAX: usize = 16 << 10;
/// The number of forms from which on those are forgotten that no table has.
const KNOWN_MAX: usize = 4096;

/// The form of cells: a definition, and the operations on its cells.
#[derive(Debug)]
pub struct TableForm {
    /// The number under which nodes know it.
    pub id: u32,
    /// The definition.
    pub definition: CellDefinition,
    /// The operations on the cells.
    pub plan: CellPlan,
    field: Box<[u8]>,
}

impl TableForm {
    /// Returns the field that says a form: its number, and the words of its definition.
    pub fn field_of(id: u32, definition: &CellDefinition) -> Vec<u8> {
        let mut field = id.to_le_bytes().to_vec();
        field.extend(definition.encode().into_iter().flat_map(u64::to_le_bytes));
        field
    }

    /// Reads such a field. Takes anything.
    ///
    /// # Errors
    /// Says what it cannot be.
    pub fn decode(field: &[u8]) -> Result<TableForm, &'static str> {
        if field.len() > FIELD_BYTES_MAX {
            return Err("a definition is too long");
        }
        let (id, words) = field.split_first_chunk::<4>().ok_or("a form has no number")?;
        let (words, []) = words.as_chunks::<8>() else { return Err("a definition is no words") };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let unknown = "a definition is none that this release knows";
        let definition = CellDefinition::decode(&words).ok_or(unknown)?;
        let plan = definition.plan().map_err(|_| unknown)?;
        Ok(TableForm { id: u32::from_le_bytes(*id), definition, plan, field: field.into() })
    }

    /// The field that says it.
    pub fn field(&self) -> &[u8] {
        &self.field
    }
}

/// The forms that were seen, so that each is compiled and kept once.
#[derive(Debug, Default)]
pub struct FormRegistry {
    known: HashMap<Box<[u8]>, Arc<TableForm>>,
}

impl FormRegistry {
    /// Finds the form of a field, or reads it.
    ///
    /// # Errors
    /// Says what the field cannot be.
    pub fn find(&mut self, field: &[u8]) -> Result<Arc<TableForm>, &'static str> {
        if let Some(known) = self.known.get(field) {
            return Ok(known.clone());
        }
        let form = Arc::new(TableForm::decode(field)?);
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, known| Arc::strong_count(known) > 1);
        }
        if self.known.len() < KNOWN_MAX {
            self.known.insert(field.into(), form.clone());
        }
        Ok(form)
    }
}
