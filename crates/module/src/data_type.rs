//! The data type: what the server does with a table beside commands.

use std::ffi::{c_int, c_ulong};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use cells::command::{TableCommand, load_request};
use cells::snapshot::{self, SnapshotReader};
use cells::{CellTable, FormRegistry, TableKey};

use crate::api::{self, METHODS_VERSION, OpaquePointer, TypeMethods, guarded, server};

/// The version of what is written into the server's files.
const ENCODING: c_int = 1;

/// A pointer to the type, as the server knows it.
struct DataType(OpaquePointer);

// SAFETY: the server never moves or frees it, and it is only given back to the server.
unsafe impl Send for DataType {}
// SAFETY: as above.
unsafe impl Sync for DataType {}

static DATA_TYPE: OnceLock<DataType> = OnceLock::new();
static REGISTRY: Mutex<Option<FormRegistry>> = Mutex::new(None);

/// Tells the server about the type.
pub(crate) fn create(context: OpaquePointer) -> bool {
    let mut methods = TypeMethods {
        version: METHODS_VERSION,
        rdb_load,
        rdb_save,
        aof_rewrite,
        mem_usage,
        digest,
        free,
        aux_load: null_mut(),
        aux_save: null_mut(),
        aux_save_triggers: 0,
        free_effort,
        unlink: null_mut(),
        copy,
        defrag,
    };
    // SAFETY: the context is the one of loading; the server copies the methods.
    let made = unsafe { (server().create_data_type)(context, c"tollcells".as_ptr(), ENCODING, &mut methods) };
    !made.is_null() && DATA_TYPE.set(DataType(made)).is_ok()
}

/// The type as the server knows it.
pub(crate) fn data_type() -> OpaquePointer {
    DATA_TYPE.get().map_or(null_mut(), |found| found.0)
}

/// Uses the forms that are known.
pub(crate) fn with_registry<T>(call: impl FnOnce(&mut FormRegistry) -> T) -> T {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    call(registry.get_or_insert_default())
}

/// A value that the server keeps.
pub(crate) fn give(table: CellTable) -> OpaquePointer {
    Box::into_raw(Box::new(table)).cast()
}

/// A value of the server's, to be read.
///
/// # Safety
/// The value is a table of this module, and nobody changes it meanwhile.
unsafe fn table<'a>(value: OpaquePointer) -> &'a CellTable {
    // SAFETY: the caller's promise.
    unsafe { &*value.cast::<CellTable>() }
}

/// Bytes of a stream.
fn load_bytes(stream: OpaquePointer) -> Option<Vec<u8>> {
    let mut length = 0;
    // SAFETY: the stream is the server's. Its bytes are copied, and given back.
    unsafe {
        let bytes = (server().load_bytes)(stream, &mut length);
        if bytes.is_null() {
            return None;
        }
        let copy = std::slice::from_raw_parts(bytes.cast::<u8>(), length).to_vec();
        (server().free_bytes)(bytes.cast());
        ((server().is_torn)(stream) == 0).then_some(copy)
    }
}

fn save_bytes(stream: OpaquePointer, bytes: &[u8]) {
    // SAFETY: the stream is the server's, which copies the bytes.
    unsafe { (server().save_bytes)(stream, bytes.as_ptr().cast(), bytes.len()) }
}

fn loaded(stream: OpaquePointer, encoding: c_int) -> Result<CellTable, &'static str> {
    const TORN: &str = "it is torn";
    if encoding != ENCODING {
        return Err("it is of another version than this module's");
    }
    let mut table = CellTable::default();
    let head = load_bytes(stream).ok_or(TORN)?;
    let mut reader = with_registry(|registry| SnapshotReader::begin(&head, &mut table, registry))?;
    loop {
        let piece = load_bytes(stream).ok_or(TORN)?;
        if piece.is_empty() {
            return if table.is_empty() { Err("it has no cells") } else { Ok(table) };
        }
        reader.piece(&piece, &mut table)?;
    }
}

unsafe extern "C" fn rdb_load(stream: OpaquePointer, encoding: c_int) -> OpaquePointer {
    let table = guarded(|| loaded(stream, encoding)).unwrap_or(Err("reading it failed"));
    match table {
        Ok(table) => give(table),
        Err(why) => {
            api::log_io(stream, &format!("a table of cells is refused: {why}"));
            null_mut()
        }
    }
}

unsafe extern "C" fn rdb_save(stream: OpaquePointer, value: OpaquePointer) {
    guarded(|| {
        // SAFETY: the server gives a value of this type, and changes nothing while it saves.
        let table = unsafe { table(value) };
        save_bytes(stream, &snapshot::head(table));
        snapshot::pieces(table, |piece| save_bytes(stream, piece));
        save_bytes(stream, &[]);
    });
}

unsafe extern "C" fn aof_rewrite(stream: OpaquePointer, key: OpaquePointer, value: OpaquePointer) {
    guarded(|| {
        // SAFETY: the server gives a value of this type, and changes nothing while it saves.
        let table = unsafe { table(value) };
        let head = snapshot::head(table);
        let name = TableCommand::Load.name();
        let Ok(name) = std::ffi::CString::new(name) else { return };
        snapshot::pieces(table, |piece| {
            let request = load_request(&head, piece);
            // SAFETY: the format takes a text of the server, a text of C, and bytes with their number.
            unsafe {
                (server().emit)(
                    stream,
                    name.as_ptr(),
                    c"scb".as_ptr(),
                    key,
                    c"0".as_ptr(),
                    request.as_ptr(),
                    request.len(),
                );
            }
        });
    });
}

unsafe extern "C" fn mem_usage(value: OpaquePointer) -> usize {
    // SAFETY: the server gives a value of this type.
    unsafe { table(value) }.memory_bytes()
}

unsafe extern "C" fn digest(digest: OpaquePointer, value: OpaquePointer) {
    guarded(|| {
        // SAFETY: the server gives a value of this type.
        let table = unsafe { table(value) };
        let add = |bytes: &[u8]| {
            // SAFETY: the digest is the server's, which reads the bytes.
            unsafe { (server().digest_bytes)(digest, bytes.as_ptr().cast(), bytes.len()) }
        };
        // Numbers of forms may differ from server to server, so what they stand for is told.
        table.each(|form, key, content| {
            add(form.field());
            add(&key.shingle.to_le_bytes());
            add(&key.flags().to_le_bytes());
            add(content);
            // SAFETY: the digest is the server's.
            unsafe { (server().digest_end)(digest) }
        });
    });
}

unsafe extern "C" fn free(value: OpaquePointer) {
    guarded(|| {
        // SAFETY: the server gives a value that it got from `give`, and uses it no more.
        drop(unsafe { Box::from_raw(value.cast::<CellTable>()) });
    });
}

unsafe extern "C" fn free_effort(_key: OpaquePointer, value: OpaquePointer) -> usize {
    // SAFETY: the server gives a value of this type.
    unsafe { table(value) }.leaf_count()
}

unsafe extern "C" fn copy(_from: OpaquePointer, _to: OpaquePointer, value: OpaquePointer) -> OpaquePointer {
    // SAFETY: the server gives a value of this type.
    guarded(|| give(unsafe { table(value) }.clone())).unwrap_or(null_mut())
}

/// Moves the leaves to where the server wants them, as many as it has time for.
unsafe extern "C" fn defrag(context: OpaquePointer, _key: OpaquePointer, value: *mut OpaquePointer) -> c_int {
    guarded(|| {
        let mut from: c_ulong = 0;
        // SAFETY: the context is the server's. There is no cursor at first.
        let goes_on = unsafe { (server().defrag_load)(context, &mut from) } == api::DONE;
        // SAFETY: the server gives the place of a value of this type, which nobody else uses now.
        let table = unsafe { &mut *(*value).cast::<CellTable>() };
        let start = if goes_on { TableKey::of(from, 0, false) } else { TableKey::default() };
        for (at, (key, leaf)) in table.leaves_mut(start).enumerate() {
            // SAFETY: the context is the server's.
            if at % 16 == 15 && unsafe { (server().defrag_stops)(context) } != 0 {
                // SAFETY: the context is the server's.
                unsafe { (server().defrag_store)(context, key.shingle) };
                return 1;
            }
            if leaf.capacity() == 0 {
                continue;
            }
            let (length, capacity) = (leaf.len(), leaf.capacity());
            let bytes = std::mem::ManuallyDrop::new(std::mem::take(leaf)).as_mut_ptr();
            // SAFETY: the bytes came from the server's allocator, and are used nowhere else.
            let moved = unsafe { (server().defrag_move)(context, bytes.cast()) };
            let bytes = if moved.is_null() { bytes } else { moved.cast() };
            // SAFETY: the server has moved the whole of the allocation, or left it where it was.
            *leaf = unsafe { Vec::from_raw_parts(bytes, length, capacity) };
        }
        0
    })
    .unwrap_or(0)
}
