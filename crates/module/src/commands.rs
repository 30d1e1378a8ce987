//! The commands, between the server and `cells::command`.
//!
//! ```text
//! TOLLHOUSE.X key ... clock request     `clock` is 0: the server's. It is what the master had for replicas and files
//! ```

use std::ffi::{CString, c_int};

use cells::CellTable;
use cells::command::{CommandKeys, CommandReply, RefusedCommand, TableCommand, execute};

use crate::api::{
    self, CommandFunction, EMPTY, MODULE, OpaquePointer, READ, STRING, WRITE, bytes_of, guarded, server,
};
use crate::data_type::{data_type, give, with_registry};

/// Most keys of a command.
const KEYS_MAX: usize = 4096;

macro_rules! commands {
    ($($function:ident: $command:ident;)*) => {
        $(unsafe extern "C" fn $function(context: OpaquePointer, arguments: *const OpaquePointer, count: c_int) -> c_int {
            // SAFETY: the server gives as many arguments as it says.
            unsafe { run(TableCommand::$command, context, arguments, count) }
        })*

        fn function(command: TableCommand) -> CommandFunction {
            match command { $(TableCommand::$command => $function,)* }
        }
    };
}

commands! {
    version: Version;
    read: Read;
    cells: Cells;
    write: Write;
    claim: Claim;
    take: Take;
    sweep: Sweep;
    scan: Scan;
    remove: Remove;
    load: Load;
}

/// Tells the server about the commands.
pub(crate) fn create(context: OpaquePointer) -> bool {
    if let Some(categories) = api::categories() {
        // SAFETY: the context is the one of loading.
        unsafe { (categories.add)(context, c"tollhouse".as_ptr()) };
    }
    TableCommand::ALL.into_iter().all(|command| {
        let flags = match command {
            TableCommand::Version => c"readonly fast",
            command if command.grows() => c"write deny-oom",
            command if command.writes() => c"write",
            _ => c"readonly",
        };
        // All arguments are keys but the last two.
        let (first, last, step) = if command.keys_min() == 0 { (0, 0, 0) } else { (1, -3, 1) };
        let Ok(name) = CString::new(command.name()) else { return false };
        // SAFETY: the context is the one of loading, and texts are of C.
        unsafe {
            let function = function(command);
            let made = (server().create_command)(
                context,
                name.as_ptr(),
                function,
                flags.as_ptr(),
                first,
                last,
                step,
            );
            if let Some(categories) = api::categories() {
                let known = (categories.command)(context, name.as_ptr());
                let rights = if command.writes() { c"tollhouse write" } else { c"tollhouse read" };
                if !known.is_null() {
                    (categories.set)(known, rights.as_ptr());
                }
            }
            made == api::DONE
        }
    })
}

/// The keys of a command. Each is opened when it is first asked for, and closed at the end.
struct ServerKeys<'a> {
    context: OpaquePointer,
    names: &'a [OpaquePointer],
    open: Vec<Option<OpaquePointer>>,
    /// Tables that were asked for already; null for others.
    tables: Vec<OpaquePointer>,
    is_written: bool,
}

impl ServerKeys<'_> {
    fn handle(&mut self, key: usize) -> OpaquePointer {
        let (context, name) = (self.context, self.names[key]);
        let mode = if self.is_written { READ | WRITE } else { READ };
        // SAFETY: the context and the name are those of the command.
        let open = || unsafe { (server().open_key)(context, name, mode) };
        *self.open[key].get_or_insert_with(open)
    }

    fn type_of(&mut self, key: usize) -> c_int {
        let handle = self.handle(key);
        // SAFETY: the handle is that of an open key, or null for one that is not there.
        if handle.is_null() { EMPTY } else { unsafe { (server().key_type)(handle) } }
    }

    fn value(&mut self, key: usize) -> Result<Option<OpaquePointer>, RefusedCommand> {
        if !self.tables[key].is_null() {
            return Ok(Some(self.tables[key]));
        }
        let handle = self.handle(key);
        match self.type_of(key) {
            EMPTY => Ok(None),
            // SAFETY: the handle is that of an open key, which holds a value of a module.
            MODULE if unsafe { (server().value_type)(handle) } == data_type() => {
                // SAFETY: as above.
                self.tables[key] = unsafe { (server().value)(handle) };
                Ok(Some(self.tables[key]))
            }
            _ => Err(RefusedCommand::WrongType),
        }
    }
}

impl Drop for ServerKeys<'_> {
    /// Closes the keys, and removes tables without cells.
    fn drop(&mut self) {
        for key in 0..self.open.len() {
            let Some(handle) = self.open[key] else { continue };
            if handle.is_null() {
                continue;
            }
            let is_empty = self.is_written && matches!(self.table(key), Ok(Some(table)) if table.is_empty());
            // SAFETY: the handle is that of an open key, and is used no more.
            unsafe {
                if is_empty {
                    (server().delete_key)(handle);
                }
                (server().close_key)(handle);
            }
        }
    }
}

impl CommandKeys for ServerKeys<'_> {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn table(&mut self, key: usize) -> Result<Option<&mut CellTable>, RefusedCommand> {
        // SAFETY: the value is a table of this module. Names differ, so no other key has it; it is lent for as long as `self`
        // is, and read only where the key is open to be read.
        Ok(self.value(key)?.map(|value| unsafe { &mut *value.cast::<CellTable>() }))
    }

    fn make_table(&mut self, key: usize) -> &mut CellTable {
        let value = match self.value(key) {
            Ok(Some(value)) => value,
            _ => {
                let value = give(CellTable::default());
                // SAFETY: the handle is that of a key that is open to be written; the server owns the value from now on.
                unsafe { (server().set_value)(self.handle(key), data_type(), value) };
                self.tables[key] = value;
                value
            }
        };
        // SAFETY: as for `table`.
        unsafe { &mut *value.cast::<CellTable>() }
    }

    fn text(&mut self, key: usize) -> Result<Option<&[u8]>, RefusedCommand> {
        match self.type_of(key) {
            EMPTY => Ok(None),
            STRING => {
                let mut length = 0;
                // SAFETY: the handle is that of an open key, which holds a text; nobody changes it while `self` is lent.
                unsafe {
                    let bytes = (server().string_bytes)(self.handle(key), &mut length, READ);
                    let is_empty = bytes.is_null() || length == 0;
                    Ok(Some(if is_empty { &[] } else { std::slice::from_raw_parts(bytes.cast(), length) }))
                }
            }
            _ => Err(RefusedCommand::WrongType),
        }
    }

    fn set_text(&mut self, key: usize, text: &[u8], until: Option<i64>) {
        self.tables[key] = std::ptr::null_mut();
        // SAFETY: the handle is that of a key that is open to be written; the server copies the bytes.
        unsafe {
            let value = (server().create_text)(self.context, text.as_ptr().cast(), text.len());
            (server().set_string)(self.handle(key), value);
            (server().free_text)(self.context, value);
        }
        if let Some(until) = until {
            self.keep(key, until);
        }
    }

    fn keep(&mut self, key: usize, until: i64) {
        let handle = self.handle(key);
        // SAFETY: the handle is that of a key that is open to be written.
        unsafe { (server().set_expiry)(handle, until) };
    }

    fn remove(&mut self, key: usize) {
        let handle = self.handle(key);
        self.tables[key] = std::ptr::null_mut();
        // SAFETY: the handle is that of a key that is open to be written.
        unsafe { (server().delete_key)(handle) };
    }
}

/// Runs a command for the server.
///
/// # Safety
/// The context and the arguments are those of a command that the server runs.
unsafe fn run(
    command: TableCommand,
    context: OpaquePointer,
    arguments: *const OpaquePointer,
    count: c_int,
) -> c_int {
    let ended = guarded(|| {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the server gives as many arguments as it says.
        let arguments = unsafe { std::slice::from_raw_parts(arguments, count) };
        let [_, names @ .., clock, request] = arguments else {
            if command == TableCommand::Version {
                return answer(context, command, &[], 0, &[]);
            }
            // SAFETY: the context is that of the command.
            return unsafe { (server().wrong_arity)(context) };
        };
        // SAFETY: the arguments stay what they are while the command runs.
        let (clock, request) = unsafe { (bytes_of(*clock), bytes_of(*request)) };
        let said = std::str::from_utf8(clock).ok().and_then(|clock| clock.parse::<i64>().ok());
        match said {
            // SAFETY: the function takes nothing.
            Some(0) => answer(context, command, names, unsafe { (server().milliseconds)() }, request),
            Some(clock) => answer(context, command, names, clock, request),
            None => refuse(context, "ERR the clock of a command is no number"),
        }
    });
    ended.unwrap_or_else(|| {
        api::log(context, "a command has failed: this is an error of the module");
        refuse(context, "ERR the module has failed")
    })
}

fn refuse(context: OpaquePointer, why: &str) -> c_int {
    let why = CString::new(why).unwrap_or_default();
    // SAFETY: the context is that of the command, and the text is of C.
    unsafe { (server().reply_error)(context, why.as_ptr()) }
}

fn answer(
    context: OpaquePointer,
    command: TableCommand,
    names: &[OpaquePointer],
    clock: i64,
    request: &[u8],
) -> c_int {
    if names.len() > KEYS_MAX {
        return refuse(context, "ERR a command has too many keys");
    }
    // Two keys that are one would be lent twice.
    // SAFETY: the arguments stay what they are while the command runs.
    let mut texts: Vec<&[u8]> = names.iter().map(|name| unsafe { bytes_of(*name) }).collect();
    texts.sort_unstable();
    if texts.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse(context, "ERR a command names a key twice");
    }
    let mut keys = ServerKeys {
        context,
        names,
        open: names.iter().map(|_| None).collect(),
        tables: vec![std::ptr::null_mut(); names.len()],
        is_written: command.writes(),
    };
    let done = with_registry(|registry| execute(command, &mut keys, request, clock, registry));
    drop(keys);
    match done {
        Ok(reply) => {
            if command.writes() {
                replicate(context, command, names, clock, request);
            }
            say(context, &reply)
        }
        Err(RefusedCommand::WrongType) => {
            refuse(context, "WRONGTYPE Operation against a key holding the wrong kind of value")
        }
        Err(RefusedCommand::Request(why)) => refuse(context, &format!("ERR {why}")),
    }
}

/// Tells replicas and the server's log of commands what was done: the same at the same time.
fn replicate(
    context: OpaquePointer,
    command: TableCommand,
    names: &[OpaquePointer],
    clock: i64,
    request: &[u8],
) {
    let (Ok(name), Ok(clock)) = (CString::new(command.name()), CString::new(clock.to_string())) else {
        return;
    };
    // SAFETY: the format takes texts of the server with their number, a text of C, and bytes with their number.
    unsafe {
        (server().replicate)(
            context,
            name.as_ptr(),
            c"vcb".as_ptr(),
            names.as_ptr(),
            names.len(),
            clock.as_ptr(),
            request.as_ptr(),
            request.len(),
        );
    }
}

fn say(context: OpaquePointer, reply: &CommandReply) -> c_int {
    // SAFETY: the context is that of the command; the server copies bytes.
    unsafe {
        match reply {
            CommandReply::Integer(number) => (server().reply_integer)(context, *number),
            CommandReply::Bytes(bytes) => (server().reply_bytes)(context, bytes.as_ptr().cast(), bytes.len()),
            CommandReply::List(list) => {
                (server().reply_list)(context, list.len() as _);
                list.iter().for_each(|reply| {
                    say(context, reply);
                });
                api::DONE
            }
        }
    }
}
