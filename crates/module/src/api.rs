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
pub(crate) type Opaque = *mut c_void;
pub(crate) type CommandFunction = unsafe extern "C" fn(Opaque, *const Opaque, c_int) -> c_int;

/// The functions of the server's allocator.
pub(crate) struct MemoryFunctions {
    pub(crate) alloc: unsafe extern "C" fn(usize) -> Opaque,
    pub(crate) realloc: unsafe extern "C" fn(Opaque, usize) -> Opaque,
    pub(crate) free: unsafe extern "C" fn(Opaque),
}

/// The functions that the server calls for values of a data type.
#[repr(C)]
pub(crate) struct TypeMethods {
    pub(crate) version: u64,
    pub(crate) rdb_load: unsafe extern "C" fn(Opaque, c_int) -> Opaque,
    pub(crate) rdb_save: unsafe extern "C" fn(Opaque, Opaque),
    pub(crate) aof_rewrite: unsafe extern "C" fn(Opaque, Opaque, Opaque),
    pub(crate) mem_usage: unsafe extern "C" fn(Opaque) -> usize,
    pub(crate) digest: unsafe extern "C" fn(Opaque, Opaque),
    pub(crate) free: unsafe extern "C" fn(Opaque),
    pub(crate) aux_load: Opaque,
    pub(crate) aux_save: Opaque,
    pub(crate) aux_save_triggers: c_int,
    pub(crate) free_effort: unsafe extern "C" fn(Opaque, Opaque) -> usize,
    pub(crate) unlink: Opaque,
    pub(crate) copy: unsafe extern "C" fn(Opaque, Opaque, Opaque) -> Opaque,
    pub(crate) defrag: unsafe extern "C" fn(Opaque, Opaque, *mut Opaque) -> c_int,
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
                        unsafe { std::mem::transmute::<Opaque, unsafe extern "C" fn($($argument,)* $($variadic)?) $(-> $answer)?>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    is_name_busy c"RedisModule_IsModuleNameBusy": fn(*const c_char) -> c_int;
    set_attributes c"RedisModule_SetModuleAttribs": fn(Opaque, *const c_char, c_int, c_int);
    set_options c"RedisModule_SetModuleOptions": fn(Opaque, c_int);
    create_command c"RedisModule_CreateCommand": fn(Opaque, *const c_char, CommandFunction, *const c_char, c_int, c_int, c_int) -> c_int;
    create_data_type c"RedisModule_CreateDataType": fn(Opaque, *const c_char, c_int, *mut TypeMethods) -> Opaque;
    log c"RedisModule_Log": fn(Opaque, *const c_char, *const c_char; ...);
    milliseconds c"RedisModule_Milliseconds": fn() -> c_longlong;
    text_of c"RedisModule_StringPtrLen": fn(Opaque, *mut usize) -> *const c_char;
    create_text c"RedisModule_CreateString": fn(Opaque, *const c_char, usize) -> Opaque;
    free_text c"RedisModule_FreeString": fn(Opaque, Opaque);
    open_key c"RedisModule_OpenKey": fn(Opaque, Opaque, c_int) -> Opaque;
    close_key c"RedisModule_CloseKey": fn(Opaque);
    key_type c"RedisModule_KeyType": fn(Opaque) -> c_int;
    delete_key c"RedisModule_DeleteKey": fn(Opaque) -> c_int;
    string_bytes c"RedisModule_StringDMA": fn(Opaque, *mut usize, c_int) -> *mut c_char;
    set_string c"RedisModule_StringSet": fn(Opaque, Opaque) -> c_int;
    set_expiry c"RedisModule_SetAbsExpire": fn(Opaque, c_longlong) -> c_int;
    value_type c"RedisModule_ModuleTypeGetType": fn(Opaque) -> Opaque;
    value c"RedisModule_ModuleTypeGetValue": fn(Opaque) -> Opaque;
    set_value c"RedisModule_ModuleTypeSetValue": fn(Opaque, Opaque, Opaque) -> c_int;
    reply_integer c"RedisModule_ReplyWithLongLong": fn(Opaque, c_longlong) -> c_int;
    reply_list c"RedisModule_ReplyWithArray": fn(Opaque, c_long) -> c_int;
    reply_bytes c"RedisModule_ReplyWithStringBuffer": fn(Opaque, *const c_char, usize) -> c_int;
    reply_error c"RedisModule_ReplyWithError": fn(Opaque, *const c_char) -> c_int;
    wrong_arity c"RedisModule_WrongArity": fn(Opaque) -> c_int;
    replicate c"RedisModule_Replicate": fn(Opaque, *const c_char, *const c_char; ...) -> c_int;
    save_bytes c"RedisModule_SaveStringBuffer": fn(Opaque, *const c_char, usize);
    load_bytes c"RedisModule_LoadStringBuffer": fn(Opaque, *mut usize) -> *mut c_char;
    is_torn c"RedisModule_IsIOError": fn(Opaque) -> c_int;
    log_io c"RedisModule_LogIOError": fn(Opaque, *const c_char, *const c_char; ...);
    emit c"RedisModule_EmitAOF": fn(Opaque, *const c_char, *const c_char; ...);
    digest_bytes c"RedisModule_DigestAddStringBuffer": fn(Opaque, *const c_char, usize);
    digest_end c"RedisModule_DigestEndSequence": fn(Opaque);
    free_bytes c"RedisModule_Free": fn(Opaque);
    defrag_move c"RedisModule_DefragAlloc": fn(Opaque, Opaque) -> Opaque;
    defrag_stops c"RedisModule_DefragShouldStop": fn(Opaque) -> c_int;
    defrag_store c"RedisModule_DefragCursorSet": fn(Opaque, c_ulong) -> c_int;
    defrag_load c"RedisModule_DefragCursorGet": fn(Opaque, *mut c_ulong) -> c_int;
}

/// Functions that only newer servers have: categories of rights.
pub(crate) struct CategoryFunctions {
    pub(crate) add: unsafe extern "C" fn(Opaque, *const c_char) -> c_int,
    pub(crate) command: unsafe extern "C" fn(Opaque, *const c_char) -> Opaque,
    pub(crate) set: unsafe extern "C" fn(Opaque, *const c_char) -> c_int,
}

type GetFunction = unsafe extern "C" fn(*const c_char, *mut Opaque) -> c_int;

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
unsafe fn find(get: GetFunction, name: &CStr) -> Option<Opaque> {
    let mut found: Opaque = std::ptr::null_mut();
    // SAFETY: the name is a text of C, and there is a place for the answer.
    let is_found = unsafe { get(name.as_ptr(), &mut found) };
    (is_found == DONE && !found.is_null()).then_some(found)
}

/// Learns the functions of the server, and says the module's name. Nothing is allocated before its allocator is known.
///
/// # Safety
/// `context` is the one that a server gives when it loads a module; nothing was allocated by this module before.
pub(crate) unsafe fn load(context: Opaque) -> bool {
    // SAFETY: a context begins with the function that tells the functions.
    let get = unsafe { *context.cast::<Option<GetFunction>>() };
    let Some(get) = get else { return false };
    // SAFETY: it is the server's, and its functions have these signatures.
    let memory = unsafe {
        let [alloc, realloc, free] =
            [c"RedisModule_Alloc", c"RedisModule_Realloc", c"RedisModule_Free"].map(|name| find(get, name));
        let (Some(alloc), Some(realloc), Some(free)) = (alloc, realloc, free) else { return false };
        MemoryFunctions {
            alloc: std::mem::transmute::<Opaque, unsafe extern "C" fn(usize) -> Opaque>(alloc),
            realloc: std::mem::transmute::<Opaque, unsafe extern "C" fn(Opaque, usize) -> Opaque>(realloc),
            free: std::mem::transmute::<Opaque, unsafe extern "C" fn(Opaque)>(free),
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
                add: std::mem::transmute::<Opaque, unsafe extern "C" fn(Opaque, *const c_char) -> c_int>(add),
                command: std::mem::transmute::<Opaque, unsafe extern "C" fn(Opaque, *const c_char) -> Opaque>(
                    command,
                ),
                set: std::mem::transmute::<Opaque, unsafe extern "C" fn(Opaque, *const c_char) -> c_int>(set),
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
pub(crate) fn log(context: Opaque, text: &str) {
    let Ok(text) = std::ffi::CString::new(text) else { return };
    // SAFETY: the context is the server's; the format takes one text of C.
    unsafe { (server().log)(context, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr()) }
}

/// Writes a line about a stream that is read into the server's log.
pub(crate) fn log_io(stream: Opaque, text: &str) {
    let Ok(text) = std::ffi::CString::new(text) else { return };
    // SAFETY: the stream is the server's; the format takes one text of C.
    unsafe { (server().log_io)(stream, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr()) }
}

/// The bytes of a text of the server.
///
/// # Safety
/// The text is the server's, and stays what it is for as long as the bytes are used.
pub(crate) unsafe fn bytes_of<'a>(text: Opaque) -> &'a [u8] {
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
