//! The functions of a server that are called, as `redismodule.h` declares them. Redis since 6.2 and Valkey have them all under
//! these names.

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_ulonglong, c_void};
use std::sync::OnceLock;

pub(crate) const DONE: c_int = 0;
pub(crate) const FAILED: c_int = 1;
/// Modes of an opened key.
pub(crate) const READ: c_int = 1;
pub(crate) const WRITE: c_int = 1 << 1;
/// Types of a key.
pub(crate) const EMPTY: c_int = 0;
pub(crate) const STRING: c_int = 1;
pub(crate) const MODULE: c_int = 6;
/// Reading a torn file is an error that the module hears of, and does not end the server.
const HANDLE_IO_ERRORS: c_int = 1;
const API_VERSION: c_int = 1;

/// An opaque value of the server: a context, a key, a text, a stream.
pub(crate) type OpaquePointer = *mut c_void;
pub(crate) type CommandFunction = unsafe extern "C" fn(OpaquePointer, *const OpaquePointer, c_int) -> c_int;

/// The functions of the server's allocator.
pub(crate) struct MemoryFunctions {
    pub(crate) alloc: unsafe extern "C" fn(usize) -> OpaquePointer,
    pub(crate) realloc: unsafe extern "C" fn(OpaquePointer, usize) -> OpaquePointer,
    pub(crate) free: unsafe extern "C" fn(OpaquePointer),
}

/// The functions that the server calls for values of a data type.
#[repr(C)]
pub(crate) struct TypeMethods {
    pub(crate) version: u64,
    pub(crate) rdb_load: unsafe extern "C" fn(OpaquePointer, c_int) -> OpaquePointer,
    pub(crate) rdb_save: unsafe extern "C" fn(OpaquePointer, OpaquePointer),
    pub(crate) aof_rewrite: unsafe extern "C" fn(OpaquePointer, OpaquePointer, OpaquePointer),
    pub(crate) mem_usage: unsafe extern "C" fn(OpaquePointer) -> usize,
    pub(crate) digest: unsafe extern "C" fn(OpaquePointer, OpaquePointer),
    pub(crate) free: unsafe extern "C" fn(OpaquePointer),
    pub(crate) aux_load: OpaquePointer,
    pub(crate) aux_save: OpaquePointer,
    pub(crate) aux_save_triggers: c_int,
    pub(crate) free_effort: unsafe extern "C" fn(OpaquePointer, OpaquePointer) -> usize,
    pub(crate) unlink: OpaquePointer,
    pub(crate) copy: unsafe extern "C" fn(OpaquePointer, OpaquePointer, OpaquePointer) -> OpaquePointer,
    pub(crate) defrag: unsafe extern "C" fn(OpaquePointer, OpaquePointer, *mut OpaquePointer) -> c_int,
}

/// The version of [`TypeMethods`].
pub(crate) const METHODS_VERSION: u64 = 3;

macro_rules! functions {
    ($($name:ident $symbol:literal: fn($($argument:ty),* $(; $variadic:tt)?) $(-> $answer:ty)?;)*) => {
        /// The functions of the server.
        pub(crate) struct ServerFunctions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument,)* $($variadic)?) $(-> $answer)?,)*
        }

        impl ServerFunctions {
            /// Asks the server for each.
            ///
            /// # Safety
            /// `get` is the function by which a server tells its functions.
            unsafe fn find(get: GetFunction) -> Option<ServerFunctions> {
                Some(ServerFunctions {
                    $($name: {
                        // SAFETY: the server tells functions of this name with this signature.
                        let found = unsafe { find(get, $symbol) }?;
                        // SAFETY: a pointer to a function has the size of any other here.
                        unsafe { std::mem::transmute::<OpaquePointer, unsafe extern "C" fn($($argument,)* $($variadic)?) $(-> $answer)?>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    is_name_busy c"RedisModule_IsModuleNameBusy": fn(*const c_char) -> c_int;
    set_attributes c"RedisModule_SetModuleAttribs": fn(OpaquePointer, *const c_char, c_int, c_int);
    set_options c"RedisModule_SetModuleOptions": fn(OpaquePointer, c_int);
    create_command c"RedisModule_CreateCommand": fn(OpaquePointer, *const c_char, CommandFunction, *const c_char, c_int, c_int, c_int) -> c_int;
    create_data_type c"RedisModule_CreateDataType": fn(OpaquePointer, *const c_char, c_int, *mut TypeMethods) -> OpaquePointer;
    log c"RedisModule_Log": fn(OpaquePointer, *const c_char, *const c_char; ...);
    milliseconds c"RedisModule_Milliseconds": fn() -> c_longlong;
    text_of c"RedisModule_StringPtrLen": fn(OpaquePointer, *mut usize) -> *const c_char;
    create_text c"RedisModule_CreateString": fn(OpaquePointer, *const c_char, usize) -> OpaquePointer;
    free_text c"RedisModule_FreeString": fn(OpaquePointer, OpaquePointer);
    open_key c"RedisModule_OpenKey": fn(OpaquePointer, OpaquePointer, c_int) -> OpaquePointer;
    close_key c"RedisModule_CloseKey": fn(OpaquePointer);
    key_type c"RedisModule_KeyType": fn(OpaquePointer) -> c_int;
    delete_key c"RedisModule_DeleteKey": fn(OpaquePointer) -> c_int;
    string_bytes c"RedisModule_StringDMA": fn(OpaquePointer, *mut usize, c_int) -> *mut c_char;
    set_string c"RedisModule_StringSet": fn(OpaquePointer, OpaquePointer) -> c_int;
    set_expiry c"RedisModule_SetAbsExpire": fn(OpaquePointer, c_longlong) -> c_int;
    value_type c"RedisModule_ModuleTypeGetType": fn(OpaquePointer) -> OpaquePointer;
    value c"RedisModule_ModuleTypeGetValue": fn(OpaquePointer) -> OpaquePointer;
    set_value c"RedisModule_ModuleTypeSetValue": fn(OpaquePointer, OpaquePointer, OpaquePointer) -> c_int;
    reply_integer c"RedisModule_ReplyWithLongLong": fn(OpaquePointer, c_longlong) -> c_int;
    reply_list c"RedisModule_ReplyWithArray": fn(OpaquePointer, c_long) -> c_int;
    reply_bytes c"RedisModule_ReplyWithStringBuffer": fn(OpaquePointer, *const c_char, usize) -> c_int;
    reply_error c"RedisModule_ReplyWithError": fn(OpaquePointer, *const c_char) -> c_int;
    wrong_arity c"RedisModule_WrongArity": fn(OpaquePointer) -> c_int;
    replicate c"RedisModule_Replicate": fn(OpaquePointer, *const c_char, *const c_char; ...) -> c_int;
    save_bytes c"RedisModule_SaveStringBuffer": fn(OpaquePointer, *const c_char, usize);
    load_bytes c"RedisModule_LoadStringBuffer": fn(OpaquePointer, *mut usize) -> *mut c_char;
    is_torn c"RedisModule_IsIOError": fn(OpaquePointer) -> c_int;
    log_io c"RedisModule_LogIOError": fn(OpaquePointer, *const c_char, *const c_char; ...);
    emit c"RedisModule_EmitAOF": fn(OpaquePointer, *const c_char, *const c_char; ...);
    digest_bytes c"RedisModule_DigestAddStringBuffer": fn(OpaquePointer, *const c_char, usize);
    digest_end c"RedisModule_DigestEndSequence": fn(OpaquePointer);
    free_bytes c"RedisModule_Free": fn(OpaquePointer);
    defrag_move c"RedisModule_DefragAlloc": fn(OpaquePointer, OpaquePointer) -> OpaquePointer;
    defrag_stops c"RedisModule_DefragShouldStop": fn(OpaquePointer) -> c_int;
    defrag_store c"RedisModule_DefragCursorSet": fn(OpaquePointer, c_ulong) -> c_int;
    defrag_load c"RedisModule_DefragCursorGet": fn(OpaquePointer, *mut c_ulong) -> c_int;
}

/// Functions that only newer servers have: categories of rights.
pub(crate) struct CategoryFunctions {
    pub(crate) add: unsafe extern "C" fn(OpaquePointer, *const c_char) -> c_int,
    pub(crate) command: unsafe extern "C" fn(OpaquePointer, *const c_char) -> OpaquePointer,
    pub(crate) set: unsafe extern "C" fn(OpaquePointer, *const c_char) -> c_int,
}

type GetFunction = unsafe extern "C" fn(*const c_char, *mut OpaquePointer) -> c_int;

static MEMORY: OnceLock<MemoryFunctions> = OnceLock::new();
static SERVER: OnceLock<ServerFunctions> = OnceLock::new();
static CATEGORIES: OnceLock<Option<CategoryFunctions>> = OnceLock::new();

/// The server's allocator; `None` in a program that is no server.
#[inline]
pub(crate) fn memory() -> Option<&'static MemoryFunctions> {
    MEMORY.get()
}

/// The functions of the server.
///
/// # Panics
/// Where no server has loaded the module, which then calls nothing.
#[inline]
pub(crate) fn server() -> &'static ServerFunctions {
    SERVER.get().expect("a server has loaded the module")
}

pub(crate) fn categories() -> Option<&'static CategoryFunctions> {
    CATEGORIES.get()?.as_ref()
}

/// Asks for one function.
///
/// # Safety
/// `get` is the function by which a server tells its functions.
unsafe fn find(get: GetFunction, name: &CStr) -> Option<OpaquePointer> {
    let mut found: OpaquePointer = std::ptr::null_mut();
    // SAFETY: the name is a text of C, and there is a place for the answer.
    let is_found = unsafe { get(name.as_ptr(), &mut found) };
    (is_found == DONE && !found.is_null()).then_some(found)
}

/// Learns the functions of the server, and says the module's name. Nothing is allocated before its allocator is known.
///
/// # Safety
/// `context` is the one that a server gives when it loads a module; nothing was allocated by this module before.
pub(crate) unsafe fn load(context: OpaquePointer) -> bool {
    // SAFETY: a context begins with the function that tells the functions.
    let get = unsafe { *context.cast::<Option<GetFunction>>() };
    let Some(get) = get else { return false };
    // SAFETY: it is the server's, and its functions have these signatures.
    let memory = unsafe {
        let [alloc, realloc, free] =
            [c"RedisModule_Alloc", c"RedisModule_Realloc", c"RedisModule_Free"].map(|name| find(get, name));
        let (Some(alloc), Some(realloc), Some(free)) = (alloc, realloc, free) else { return false };
        MemoryFunctions {
            alloc: std::mem::transmute::<OpaquePointer, unsafe extern "C" fn(usize) -> OpaquePointer>(alloc),
            realloc: std::mem::transmute::<
                OpaquePointer,
                unsafe extern "C" fn(OpaquePointer, usize) -> OpaquePointer,
            >(realloc),
            free: std::mem::transmute::<OpaquePointer, unsafe extern "C" fn(OpaquePointer)>(free),
        }
    };
    if MEMORY.set(memory).is_err() {
        return false;
    }
    // SAFETY: as above.
    let Some(functions) = (unsafe { ServerFunctions::find(get) }) else { return false };
    // SAFETY: as above. Only some servers have them.
    let categories = unsafe {
        let names = [
            c"RedisModule_AddACLCategory",
            c"RedisModule_GetCommand",
            c"RedisModule_SetCommandACLCategories",
        ];
        match names.map(|name| find(get, name)) {
            [Some(add), Some(command), Some(set)] => Some(CategoryFunctions {
                add: std::mem::transmute::<
                    OpaquePointer,
                    unsafe extern "C" fn(OpaquePointer, *const c_char) -> c_int,
                >(add),
                command: std::mem::transmute::<
                    OpaquePointer,
                    unsafe extern "C" fn(OpaquePointer, *const c_char) -> OpaquePointer,
                >(command),
                set: std::mem::transmute::<
                    OpaquePointer,
                    unsafe extern "C" fn(OpaquePointer, *const c_char) -> c_int,
                >(set),
            }),
            _ => None,
        }
    };
    let _ = CATEGORIES.set(categories);
    let name = c"tollhouse".as_ptr();
    // SAFETY: the context is the one of loading, and the name a text of C.
    unsafe {
        if (functions.is_name_busy)(name) != 0 {
            return false;
        }
        (functions.set_attributes)(context, name, c_int::from(cells::request::VERSION), API_VERSION);
        (functions.set_options)(context, HANDLE_IO_ERRORS);
    }
    SERVER.set(functions).is_ok()
}

/// Writes a line into the server's log.
pub(crate) fn log(context: OpaquePointer, text: &str) {
    let Ok(text) = std::ffi::CString::new(text) else { return };
    // SAFETY: the context is the server's; the format takes one text of C.
    unsafe { (server().log)(context, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr()) }
}

/// Writes a line about a stream that is read into the server's log.
pub(crate) fn log_io(stream: OpaquePointer, text: &str) {
    let Ok(text) = std::ffi::CString::new(text) else { return };
    // SAFETY: the stream is the server's; the format takes one text of C.
    unsafe { (server().log_io)(stream, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr()) }
}

/// The bytes of a text of the server.
///
/// # Safety
/// The text is the server's, and stays what it is for as long as the bytes are used.
pub(crate) unsafe fn bytes_of<'a>(text: OpaquePointer) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the text is the server's; its bytes are as many as it says.
    unsafe {
        let bytes = (server().text_of)(text, &mut length);
        if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes.cast(), length) }
    }
}

/// Calls what may panic; answers `None` if it does, as no panic may reach the server.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).ok()
}

// The server's numbers have these sizes on every system that it runs on with 64 bits.
const _: () = assert!(size_of::<c_ulong>() == 8 && size_of::<c_uint>() == 4 && size_of::<c_ulonglong>() == 8);
