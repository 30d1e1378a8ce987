//! The module `tollhouse` for servers of Redis and Valkey: a data type for tables of cells, and the commands on them.
//!
//! ```text
//! server ─► api (its functions) ─► data_type: save, load, copy, ...  ─► cells::snapshot
//!                               └► commands                          ─► cells::command
//! ```
//!
//! Tables and the effects of commands are in `crates/cells`, without any `unsafe`. This crate is the seam to a server in C:
//! the binding is its own and names the few functions that are called, so that building needs no C compiler and no header
//! (`docs/internals/decisions.md`). The server calls on its main thread, but for letting go of a table.
//!
//! ```sh
//! cargo build --release -p tollhouse-module
//! redis-server --loadmodule target/release/libtollhouse_module.so
//! ```

mod allocator;
mod api;
mod commands;
mod data_type;

use std::ffi::{c_int, c_void};

/// Memory of tables is the server's: it counts, and is bounded by `maxmemory`.
#[global_allocator]
static ALLOCATOR: allocator::ServerAllocator = allocator::ServerAllocator;

/// Tells the server what there is. It calls this when it loads the module.
///
/// # Safety
/// `context` is the one that a server gives when it loads a module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut c_void,
    _arguments: *const *mut c_void,
    _count: c_int,
) -> c_int {
    // SAFETY: the caller is a server that loads a module, and nothing was called before.
    let is_loaded = unsafe { api::load(context) };
    if !is_loaded || !data_type::create(context) || !commands::create(context) {
        return api::FAILED;
    }
    api::DONE
}
