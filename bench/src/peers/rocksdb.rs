//! RocksDB through its C interface, which Debian's library has: MultiGet in batches, and then either merge operands or
//! whole values in one write batch. The write-ahead log is written with every batch and synced once a second.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::group::{Background, Groups, SECOND, key_bytes, observe};
use crate::cell::{Cell, Reading};
use crate::engine::{Engine, EngineOptions, Error};
use crate::workload::{Batch, Micros, Statistic};

/// Memory for tables that are not yet written.
const MEMTABLE_BYTES: u64 = 512 << 20;

pub(crate) fn open(opening: EngineOptions<'_>, merge: bool) -> Result<Box<dyn Engine>, Error> {
    let database = Arc::new(Database::open(&opening)?);
    let synced = database.clone();
    let sync = Background::every(SECOND, move || synced.sync());
    Ok(Box::new(Rocks { database, sync, statistic: opening.statistic, merge, groups: Groups::default() }))
}

struct Rocks {
    database: Arc<Database>,
    sync: Background,
    statistic: Statistic,
    merge: bool,
    groups: Groups,
}

impl Engine for Rocks {
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error> {
        self.groups.sort(batch);
        let keys: Vec<[u8; 8]> = self.groups.iter().map(|(key, _)| key_bytes(key)).collect();
        let (mut cell, mut delta) = (Cell::new(self.statistic), Cell::new(self.statistic));
        let (mut bytes, mut counted) = (Vec::new(), 0);
        let mut writes = WriteBatch::new();
        let mut groups = self.groups.iter();
        for keys in keys.chunks(MULTI_GET) {
            let found = self.database.get(keys)?;
            for ((key, value), (_, group)) in keys.iter().zip(found.iter()).zip(&mut groups) {
                cell.load(value);
                counted += observe(&mut cell, batch, group);
                if self.merge {
                    delta.load(&[]);
                    for (_, index) in group {
                        delta.add(batch.time(*index as usize), batch.counters[*index as usize]);
                    }
                    delta.store(&mut bytes);
                    writes.merge(key, &bytes);
                } else {
                    cell.store(&mut bytes);
                    writes.put(key, &bytes);
                }
            }
        }
        self.database.write(&writes)?;
        Ok(counted)
    }

    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error> {
        let mut cell = Cell::new(self.statistic);
        let mut readings = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.database.get(&[key_bytes(*key)])?;
            found.iter().for_each(|value| cell.load(value));
            readings.push(cell.reading(time));
        }
        Ok(readings)
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.database.sync()
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.sync.stop()?;
        self.settle()
    }
}

/// Keys of one MultiGet; more than a few hundred save nothing.
const MULTI_GET: usize = 1024;

/// An open database and what goes with it.
struct Database {
    handle: NonNull<ffi::Db>,
    family: NonNull<ffi::ColumnFamily>,
    options: NonNull<ffi::Options>,
    read: NonNull<ffi::ReadOptions>,
    write: NonNull<ffi::WriteOptions>,
}

// SAFETY: RocksDB's database handle may be used by several threads at once; the option objects are only read after
// `Database::open`, and freed by the one owner.
unsafe impl Send for Database {}
// SAFETY: as above; no method changes anything but through the database handle.
unsafe impl Sync for Database {}

impl Database {
    fn open(opening: &EngineOptions<'_>) -> Result<Database, Error> {
        let path = CString::new(opening.directory.as_os_str().as_bytes())?;
        let name = c"default".as_ptr();
        let threads = i32::try_from(std::thread::available_parallelism()?.get())?;
        // SAFETY: the signatures are those of rocksdb/c.h. Every pointer given is of an object that the same block has
        // made and not yet freed, or of a local that outlives the call; the constructors never answer null. The merge
        // operator's state is the statistic as a number, so that there is nothing to free; the options take the
        // operator over, and share it with the database.
        let (handle, family, options) = unsafe {
            let options = ffi::rocksdb_options_create();
            ffi::rocksdb_options_set_create_if_missing(options, 1);
            ffi::rocksdb_options_increase_parallelism(options, threads);
            ffi::rocksdb_options_optimize_for_point_lookup(options, opening.memory_bytes >> 20);
            ffi::rocksdb_options_optimize_level_style_compaction(options, MEMTABLE_BYTES);
            let operator = ffi::rocksdb_mergeoperator_create(
                state_of(opening.statistic),
                no_destructor,
                full_merge,
                partial_merge,
                delete_value,
                operator_name,
            );
            ffi::rocksdb_options_set_merge_operator(options, operator);
            let mut family = null_mut();
            let const_options = options.cast_const();
            let handle = checked(|error| {
                ffi::rocksdb_open_column_families(
                    const_options,
                    path.as_ptr(),
                    1,
                    &name,
                    &const_options,
                    &mut family,
                    error,
                )
            });
            if handle.is_err() {
                ffi::rocksdb_options_destroy(options);
            }
            (handle?, family, options)
        };
        // SAFETY: these make option objects out of nothing.
        let (read, write) =
            unsafe { (ffi::rocksdb_readoptions_create(), ffi::rocksdb_writeoptions_create()) };
        Ok(Database {
            handle: made(handle)?,
            family: made(family)?,
            options: made(options)?,
            read: made(read)?,
            write: made(write)?,
        })
    }

    /// The values of keys that are in order; those of missing keys are empty.
    fn get(&self, keys: &[[u8; 8]]) -> Result<PinnedValues, Error> {
        let pointers: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths = vec![8; keys.len()];
        let mut errors = vec![null_mut(); keys.len()];
        let mut found = PinnedValues(vec![null_mut(); keys.len()]);
        // SAFETY: all arrays have as many elements as the call is told; keys have eight bytes each and live until it
        // returns. It fills in values, which `found` frees, and errors, which are freed below.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf(
                self.handle.as_ptr(),
                self.read.as_ptr(),
                self.family.as_ptr(),
                keys.len(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                found.0.as_mut_ptr(),
                errors.as_mut_ptr(),
                true,
            );
        }
        let mut failed = None;
        for error in errors.into_iter().filter(|error| !error.is_null()) {
            failed = Some(message(error));
        }
        failed.map_or(Ok(found), |why| Err(why.into()))
    }

    fn write(&self, writes: &WriteBatch) -> Result<(), Error> {
        // SAFETY: handle, options and batch are alive.
        checked(|error| unsafe {
            ffi::rocksdb_write(self.handle.as_ptr(), self.write.as_ptr(), writes.0.as_ptr(), error);
        })
    }

    fn sync(&self) -> Result<(), Error> {
        // SAFETY: the handle is alive.
        checked(|error| unsafe { ffi::rocksdb_flush_wal(self.handle.as_ptr(), 1, error) })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the one owner frees each once, the database last but for its options.
        unsafe {
            ffi::rocksdb_column_family_handle_destroy(self.family.as_ptr());
            ffi::rocksdb_close(self.handle.as_ptr());
            ffi::rocksdb_readoptions_destroy(self.read.as_ptr());
            ffi::rocksdb_writeoptions_destroy(self.write.as_ptr());
            ffi::rocksdb_options_destroy(self.options.as_ptr());
        }
    }
}

/// Values that a MultiGet has pinned.
struct PinnedValues(Vec<*mut ffi::PinnableSlice>);

impl PinnedValues {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|slice| {
            if slice.is_null() {
                return &[][..];
            }
            let mut length = 0;
            // SAFETY: the slice is alive as long as `self`, and so are the bytes that it points at.
            unsafe {
                let bytes = ffi::rocksdb_pinnableslice_value(*slice, &mut length);
                view(bytes, length)
            }
        })
    }
}

impl Drop for PinnedValues {
    fn drop(&mut self) {
        for slice in self.0.iter().filter(|slice| !slice.is_null()) {
            // SAFETY: each was made by the MultiGet and is freed once.
            unsafe { ffi::rocksdb_pinnableslice_destroy(*slice) };
        }
    }
}

struct WriteBatch(NonNull<ffi::WriteBatch>);

impl WriteBatch {
    fn new() -> WriteBatch {
        // SAFETY: makes an object out of nothing.
        let batch = unsafe { ffi::rocksdb_writebatch_create() };
        WriteBatch(NonNull::new(batch).expect("RocksDB answers objects or ends the process"))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: the batch is alive, and copies the bytes.
        unsafe {
            ffi::rocksdb_writebatch_put(
                self.0.as_ptr(),
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
            );
        }
    }

    fn merge(&mut self, key: &[u8], operand: &[u8]) {
        // SAFETY: as above.
        unsafe {
            ffi::rocksdb_writebatch_merge(
                self.0.as_ptr(),
                key.as_ptr(),
                key.len(),
                operand.as_ptr(),
                operand.len(),
            );
        }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: freed once, by its owner.
        unsafe { ffi::rocksdb_writebatch_destroy(self.0.as_ptr()) };
    }
}

fn made<T>(pointer: *mut T) -> Result<NonNull<T>, Error> {
    NonNull::new(pointer).ok_or_else(|| "RocksDB has answered a null pointer".into())
}

/// Calls what may set an error.
fn checked<T>(call: impl FnOnce(*mut *mut u8) -> T) -> Result<T, Error> {
    let mut error = null_mut();
    let answer = call(&mut error);
    if error.is_null() { Ok(answer) } else { Err(message(error).into()) }
}

/// The text of an error, which is freed.
fn message(error: *mut u8) -> String {
    // SAFETY: errors of RocksDB are texts that end with a zero, and the caller's to free.
    unsafe {
        let text = CStr::from_ptr(error.cast_const().cast()).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        format!("RocksDB: {text}")
    }
}

/// Bytes that C points at.
///
/// # Safety
/// The pointer is null or points at as many bytes, which live and stay unchanged for `'a`.
unsafe fn view<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if bytes.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

fn state_of(statistic: Statistic) -> *mut ffi::Void {
    match statistic {
        Statistic::Fixed => null_mut(),
        Statistic::Windowed => std::ptr::without_provenance_mut(1),
    }
}

fn statistic_of(state: *mut ffi::Void) -> Statistic {
    if state.is_null() { Statistic::Fixed } else { Statistic::Windowed }
}

extern "C" fn no_destructor(_: *mut ffi::Void) {}

extern "C" fn operator_name(_: *mut ffi::Void) -> *const u8 {
    c"statistics".as_ptr().cast()
}

/// # Safety
/// As RocksDB calls it: the value is null or has its length, as has each of the operands.
unsafe extern "C" fn full_merge(
    state: *mut ffi::Void,
    _key: *const u8,
    _key_length: usize,
    value: *const u8,
    value_length: usize,
    operands: *const *const u8,
    lengths: *const usize,
    count: i32,
    success: *mut u8,
    new_length: *mut usize,
) -> *mut u8 {
    let mut cell = Cell::new(statistic_of(state));
    // SAFETY: as RocksDB promises.
    cell.load(unsafe { view(value, value_length) });
    // SAFETY: likewise; the arrays have `count` elements.
    unsafe { merge(cell, operands, lengths, count, success, new_length) }
}

/// # Safety
/// As RocksDB calls it.
unsafe extern "C" fn partial_merge(
    state: *mut ffi::Void,
    _key: *const u8,
    _key_length: usize,
    operands: *const *const u8,
    lengths: *const usize,
    count: i32,
    success: *mut u8,
    new_length: *mut usize,
) -> *mut u8 {
    let cell = Cell::new(statistic_of(state));
    // SAFETY: as RocksDB promises.
    unsafe { merge(cell, operands, lengths, count, success, new_length) }
}

/// # Safety
/// The arrays have `count` elements; each operand has its length; the last two can be written to.
unsafe fn merge(
    mut cell: Cell,
    operands: *const *const u8,
    lengths: *const usize,
    count: i32,
    success: *mut u8,
    new_length: *mut usize,
) -> *mut u8 {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as the caller promises.
        cell.merge(unsafe { view(*operands.add(at), *lengths.add(at)) });
    }
    let mut bytes = Vec::new();
    cell.store(&mut bytes);
    // SAFETY: as the caller promises.
    unsafe {
        *success = 1;
        *new_length = bytes.len();
    }
    // Taken back by `delete_value`, which is told the length.
    Box::into_raw(bytes.into_boxed_slice()).cast()
}

/// # Safety
/// The value is one that [`merge`] answered, with its length, and is not used again.
unsafe extern "C" fn delete_value(_: *mut ffi::Void, value: *const u8, length: usize) {
    if !value.is_null() {
        let bytes = std::ptr::slice_from_raw_parts_mut(value.cast_mut(), length);
        // SAFETY: made by `Box::into_raw` with this length, as the caller promises.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// The functions of rocksdb/c.h in use.
mod ffi {
    pub(super) type Void = std::ffi::c_void;

    macro_rules! opaque {
        ($($name:ident)*) => { $(
            #[repr(C)]
            pub(super) struct $name {
                _private: [u8; 0],
            }
        )* };
    }
    opaque!(Db ColumnFamily Options ReadOptions WriteOptions WriteBatch PinnableSlice MergeOperator);

    pub(super) type FullMerge = unsafe extern "C" fn(
        *mut Void,
        *const u8,
        usize,
        *const u8,
        usize,
        *const *const u8,
        *const usize,
        i32,
        *mut u8,
        *mut usize,
    ) -> *mut u8;
    pub(super) type PartialMerge = unsafe extern "C" fn(
        *mut Void,
        *const u8,
        usize,
        *const *const u8,
        *const usize,
        i32,
        *mut u8,
        *mut usize,
    ) -> *mut u8;

    unsafe extern "C" {
        pub(super) fn rocksdb_options_create() -> *mut Options;
        pub(super) fn rocksdb_options_destroy(options: *mut Options);
        pub(super) fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: u8);
        pub(super) fn rocksdb_options_increase_parallelism(options: *mut Options, threads: i32);
        pub(super) fn rocksdb_options_optimize_for_point_lookup(options: *mut Options, cache_mb: u64);
        pub(super) fn rocksdb_options_optimize_level_style_compaction(options: *mut Options, memtables: u64);
        pub(super) fn rocksdb_options_set_merge_operator(options: *mut Options, operator: *mut MergeOperator);
        pub(super) fn rocksdb_mergeoperator_create(
            state: *mut Void,
            destructor: extern "C" fn(*mut Void),
            full_merge: FullMerge,
            partial_merge: PartialMerge,
            delete_value: unsafe extern "C" fn(*mut Void, *const u8, usize),
            name: extern "C" fn(*mut Void) -> *const u8,
        ) -> *mut MergeOperator;
        pub(super) fn rocksdb_open_column_families(
            options: *const Options,
            path: *const std::ffi::c_char,
            count: i32,
            names: *const *const std::ffi::c_char,
            family_options: *const *const Options,
            families: *mut *mut ColumnFamily,
            error: *mut *mut u8,
        ) -> *mut Db;
        pub(super) fn rocksdb_column_family_handle_destroy(family: *mut ColumnFamily);
        pub(super) fn rocksdb_close(db: *mut Db);
        pub(super) fn rocksdb_readoptions_create() -> *mut ReadOptions;
        pub(super) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
        pub(super) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
        pub(super) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
        pub(super) fn rocksdb_batched_multi_get_cf(
            db: *mut Db,
            options: *const ReadOptions,
            family: *mut ColumnFamily,
            count: usize,
            keys: *const *const u8,
            lengths: *const usize,
            values: *mut *mut PinnableSlice,
            errors: *mut *mut u8,
            sorted: bool,
        );
        pub(super) fn rocksdb_pinnableslice_value(
            slice: *const PinnableSlice,
            length: *mut usize,
        ) -> *const u8;
        pub(super) fn rocksdb_pinnableslice_destroy(slice: *mut PinnableSlice);
        pub(super) fn rocksdb_writebatch_create() -> *mut WriteBatch;
        pub(super) fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
        pub(super) fn rocksdb_writebatch_put(
            batch: *mut WriteBatch,
            key: *const u8,
            key_length: usize,
            value: *const u8,
            value_length: usize,
        );
        pub(super) fn rocksdb_writebatch_merge(
            batch: *mut WriteBatch,
            key: *const u8,
            key_length: usize,
            value: *const u8,
            value_length: usize,
        );
        pub(super) fn rocksdb_write(
            db: *mut Db,
            options: *const WriteOptions,
            batch: *mut WriteBatch,
            error: *mut *mut u8,
        );
        pub(super) fn rocksdb_flush_wal(db: *mut Db, sync: u8, error: *mut *mut u8);
        pub(super) fn rocksdb_free(pointer: *mut Void);
    }
}
