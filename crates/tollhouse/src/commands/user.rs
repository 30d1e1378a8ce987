//! `tollhouse user`: the people of a data directory.

use std::io::Read;

use access::{
    AccessFileError, Role, ScopeSet, StoredPassword, TokenError, TokenFile, UnknownRole, UserFile,
    generated_password,
};
use engine::Directory;
use serde::Serialize;

use crate::audit::{note_tokens, user};
use crate::clock::now;
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{DataOption, JsonOption};

/// Add, list, change and remove the people who may log in
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse user add ann --role reviewer --data ./data     Prints a new password, once
  tollhouse user add bob --role viewer --password-stdin --data ./data < secret.txt
  tollhouse user change ann --role editor --data ./data
  tollhouse user remove bob --data ./data

Roles: viewer, reviewer, editor, administrator; each includes the one before. A server on the data
directory applies changes within a second and ends the sessions of those concerned.")]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(clap::Subcommand)]
enum UserCommand {
    Add(UserAddArgs),
    List(UserListArgs),
    Change(UserChangeArgs),
    Remove(UserRemoveArgs),
}

/// Add a person and print a new password, which is stored nowhere
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse user add ann --role reviewer --data ./data")]
pub(crate) struct UserAddArgs {
    /// Name: letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    name: String,
    /// Role: viewer, reviewer, editor or administrator
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Role,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    data: DataOption,
}

/// List the people and their roles
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse user list --data ./data")]
pub(crate) struct UserListArgs {
    #[command(flatten)]
    data: DataOption,
    #[command(flatten)]
    json: JsonOption,
}

/// Give a person another role, or a new password
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse user change ann --role editor --data ./data
  tollhouse user change ann --new-password --data ./data      Prints it, once")]
pub(crate) struct UserChangeArgs {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// New role
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
    /// Create and print a new password
    #[arg(long)]
    new_password: bool,
    /// Read the new password from standard input
    #[arg(long, conflicts_with = "new_password")]
    password_stdin: bool,
    #[command(flatten)]
    data: DataOption,
}

/// Remove a person
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse user remove bob --data ./data")]
pub(crate) struct UserRemoveArgs {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    data: DataOption,
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|error: UnknownRole| error.to_string())
}

/// The line of `--json`.
#[derive(Serialize)]
struct UserLine<'a> {
    name: &'a str,
    role: Role,
    scopes: ScopeSet,
    created: String,
}

/// A password, and whether it was made here and is to be shown.
struct ChosenPassword {
    text: String,
    is_new: bool,
}

impl ChosenPassword {
    fn choose(from_stdin: bool) -> Result<ChosenPassword, CommandError> {
        if !from_stdin {
            let made = generated_password()
                .map_err(|error| CommandError::new(format_args!("there are no random numbers: {error}")))?;
            return Ok(ChosenPassword { text: made, is_new: true });
        }
        let mut text = String::new();
        let read = std::io::stdin().take(4096).read_to_string(&mut text);
        read.map_err(|error| CommandError::new(format_args!("standard input: {error}")))?;
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
        Ok(ChosenPassword { text, is_new: false })
    }

    fn stored(&self) -> Result<StoredPassword, CommandError> {
        StoredPassword::of(&self.text).map_err(CommandError::new)
    }

    fn show(&self) -> Result<(), CommandError> {
        if !self.is_new {
            return Ok(());
        }
        let mut out = Output::new(false);
        out.line(&self.text)?;
        out.flush()?;
        say("The password is shown this once.");
        Ok(())
    }
}

pub(crate) fn run(args: UserArgs) -> Result<Exit, CommandError> {
    match args.command {
        UserCommand::Add(args) => add(&args),
        UserCommand::List(args) => list(&args),
        UserCommand::Change(args) => change(&args),
        UserCommand::Remove(args) => remove(&args),
    }
}

/// Notes a change of people for the audit log.
fn note(directory: &Directory, action: &str, name: &str, role: Role) -> Result<(), CommandError> {
    let file = TokenFile::in_directory(directory.path());
    let noted = file.change(|store| {
        store.note_user(action, name, role.scopes(), now(), &user());
        Ok::<(), TokenError>(())
    });
    noted.map_err(refused)?;
    note_tokens(directory)
}

fn add(args: &UserAddArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let password = ChosenPassword::choose(args.password_stdin)?;
    let stored = password.stored()?;
    let file = UserFile::in_directory(directory.path());
    file.change(|store| store.add(&args.name, args.role, stored, now())).map_err(refused)?;
    password.show()?;
    note(&directory, "user.add", &args.name, args.role)?;
    Ok(Exit::Fine)
}

fn list(args: &UserListArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let store = UserFile::in_directory(directory.path()).read().map_err(refused)?.unwrap_or_default();
    let mut out = Output::new(args.json.json);
    let mut table = TextTable::default();
    for stored in &store.users {
        let scopes = stored.role.scopes();
        let created = stored.created.to_string();
        if out.is_json() {
            out.json(&UserLine { name: &stored.name, role: stored.role, scopes, created })?;
            continue;
        }
        let cells = [
            (stored.name.clone(), BOLD),
            (stored.role.to_string(), BOLD),
            (scopes.to_string(), DIM),
            (created, DIM),
        ];
        table.row(cells.into_iter().map(|(text, style)| TableCell::text(text, style)));
    }
    if !out.is_json() {
        out.line(table)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn change(args: &UserChangeArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let is_asked = args.new_password || args.password_stdin;
    if args.role.is_none() && !is_asked {
        return Err(CommandError::new("nothing is to be changed")
            .help("give --role, --new-password or --password-stdin"));
    }
    let password = if is_asked { Some(ChosenPassword::choose(args.password_stdin)?) } else { None };
    let stored = password.as_ref().map(ChosenPassword::stored).transpose()?;
    let file = UserFile::in_directory(directory.path());
    let changed = file.change(|store| store.change(&args.name, args.role, stored));
    let (_, store) = changed.map_err(refused)?;
    if let Some(password) = &password {
        password.show()?;
    }
    if let Some(user) = store.users.iter().find(|user| user.name == args.name) {
        note(&directory, "user.change", &args.name, user.role)?;
    }
    Ok(Exit::Fine)
}

fn remove(args: &UserRemoveArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let file = UserFile::in_directory(directory.path());
    let (removed, _) = file.change(|store| store.remove(&args.name)).map_err(refused)?;
    note(&directory, "user.remove", &args.name, removed.role)?;
    say(format_args!("`{}` is removed.", args.name));
    Ok(Exit::Fine)
}

fn refused(error: AccessFileError) -> CommandError {
    CommandError::new(error)
}
