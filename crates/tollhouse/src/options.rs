//! Flags that several commands share, and what they mean together: which engine works, or which server is asked.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use engine::{Directory, Engine, EngineOpenError, PreparedEvent};
use event::{Event, Span, Time};
use plan::preset::{self, Preset};
use plan::{Config, Overrides, Pipeline, Plan};

use crate::client::ApiClient;
use crate::clock::now;
use crate::console::say;
use crate::exit::CommandError;
use crate::features;
use crate::interrupt::Interrupt;
use crate::ledger_home;
#[cfg(feature = "mail-auth")]
use crate::lookups::LocalLookups;
use crate::trust::TrustOptions;

/// The engine to work with.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineOptions {
    /// Data directory [env: TOLLHOUSE_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file [default: the data directory's]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Setting that overrides file and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<SettingOverride>,
}

/// The token and the certificates with which a server is asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CredentialOptions {
    /// Bearer token for the server
    #[arg(long, env = "TOLLHOUSE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    trust: TrustOptions,
}

impl CredentialOptions {
    /// Returns a client of the server at an address.
    ///
    /// # Errors
    /// If the address is none, or a file of authorities or certificates cannot be used.
    pub(crate) fn client(&self, url: &str) -> Result<ApiClient, CommandError> {
        ApiClient::new(url, self.token.as_deref(), &self.trust)
    }
}

/// The server to ask.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerOptions {
    /// Server to ask instead of the data directory, such as http://127.0.0.1:8377
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "config", "set"])]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialOptions,
}

/// The server that a command works on, where there is no other way.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetServerOptions {
    /// Server, such as http://127.0.0.1:8377
    #[arg(long, value_name = "URL")]
    server: String,
    #[command(flatten)]
    credentials: CredentialOptions,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

impl TargetServerOptions {
    /// Returns a client of the server.
    ///
    /// # Errors
    /// If the address is none, or a file of authorities or certificates cannot be used.
    pub(crate) fn client(&self) -> Result<ApiClient, CommandError> {
        self.credentials.client(&self.server)
    }
}

/// The server to ask, of which there is one on this machine unless another is named.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NearServerOptions {
    /// Server to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8377")]
    server: String,
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl NearServerOptions {
    /// Returns a client of the server.
    ///
    /// # Errors
    /// If the address is none, or a file of authorities or certificates cannot be used.
    pub(crate) fn client(&self) -> Result<ApiClient, CommandError> {
        self.credentials.client(&self.server)
    }
}

/// `section.key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingOverride {
    path: String,
    value: String,
}

impl SettingOverride {
    /// An override of this path and value.
    pub(crate) fn new(path: &str, value: impl ToString) -> SettingOverride {
        SettingOverride { path: path.to_owned(), value: value.to_string() }
    }
}

impl FromStr for SettingOverride {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<SettingOverride, &'static str> {
        let (path, value) = text.split_once('=').ok_or("expected section.key=value")?;
        Ok(SettingOverride::new(path.trim(), value.trim()))
    }
}

/// The format of what a command prints.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct JsonOption {
    /// Print one JSON object a line, and nothing else, to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// The environment variable that stands in for `--data`.
const DATA_VARIABLE: &str = "TOLLHOUSE_DATA";

impl EngineOptions {
    /// The data directory that the flag or else the environment names.
    fn data(&self) -> Option<PathBuf> {
        named(&self.data)
    }

    /// Returns the settings that the environment and the flags lay over the files.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { environment: environment(), flags: self.flags(), missing: features::MISSING }
    }

    fn flags(&self) -> Vec<(String, String)> {
        self.set.iter().map(|SettingOverride { path, value }| (path.clone(), value.clone())).collect()
    }

    /// The data directory, which must be named and exist.
    pub(crate) fn directory(&self) -> Result<Directory, CommandError> {
        open_directory(self.data())
    }

    /// The plan of the data directory's configuration.
    pub(crate) fn plan(&self, directory: &Directory) -> Result<Plan, CommandError> {
        let config = self.config.clone().unwrap_or_else(|| directory.config_path());
        Ok(Plan::compile_with(&Config::load(&config, &self.overrides()), &directory.numbers()?)?)
    }

    /// The engine of the data directory, which must be named. `instead` says what can be done where a server runs on it.
    pub(crate) fn open_engine(&self, instead: &str) -> Result<Engine, CommandError> {
        let directory = self.directory()?;
        let plan = self.plan(&directory)?;
        ledger_home::open(&directory, plan).map_err(|error| stopped(&error, instead))
    }

    /// Opens the engine of the data directory, which must be named, for a command that ends by itself.
    pub(crate) fn open(&self, instead: &str) -> Result<LocalEngine, CommandError> {
        self.open_engine(instead).map(LocalEngine::new)
    }

    /// The engine of the data directory if one is named, else one in memory that works by the configuration file or
    /// by this preset, and keeps nothing.
    pub(crate) fn open_or_ephemeral(
        &self,
        preset: Option<&Preset>,
        default: &str,
        instead: &str,
    ) -> Result<LocalEngine, CommandError> {
        if let (Some(_), Some(_)) = (preset, self.data.as_ref().or(self.config.as_ref())) {
            return Err(CommandError::new(
                "--preset is for an engine in memory: leave out --data and --config",
            ));
        }
        if preset.is_none() && self.data().is_some() {
            return self.open(instead);
        }
        let config = match &self.config {
            Some(path) => Config::load(path, &self.overrides()),
            None => Config::from_preset(preset.map_or(default, |preset| preset.name), &self.overrides()),
        };
        let engine = Engine::ephemeral(Plan::compile(&config)?).map_err(CommandError::new)?;
        Ok(LocalEngine::new(engine))
    }
}

/// The configuration to read, for commands that need no statistics.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigOptions {
    /// Main configuration file [default: the data directory's]
    #[arg(value_name = "FILE", conflicts_with_all = ["config", "preset"])]
    file: Option<PathBuf>,
    /// Built-in preset, instead of a file
    #[arg(long, value_name = "NAME", value_parser = preset_named, conflicts_with = "config")]
    preset: Option<&'static Preset>,
    #[command(flatten)]
    engine: EngineOptions,
}

impl ConfigOptions {
    /// The configuration and what it is called. What is wrong in it is not yet known.
    pub(crate) fn load(&self) -> Result<(String, Config), CommandError> {
        self.load_or(None)
    }

    /// Returns true if a file, a preset or a data directory is named.
    pub(crate) fn is_named(&self) -> bool {
        let EngineOptions { config, .. } = &self.engine;
        self.file.is_some() || self.preset.is_some() || config.is_some() || self.engine.data().is_some()
    }

    /// The configuration and what it is called, or where nothing is named a preset.
    pub(crate) fn load_or(&self, default: Option<&str>) -> Result<(String, Config), CommandError> {
        let overrides = self.engine.overrides();
        if let Some(preset) = self.preset {
            return Ok((format!("preset {}", preset.name), Config::from_preset(preset.name, &overrides)));
        }
        let path = match (self.file.clone().or_else(|| self.engine.config.clone()), default) {
            (Some(path), _) => path,
            (None, Some(preset)) if self.engine.data().is_none() => {
                return Ok((format!("preset {preset}"), Config::from_preset(preset, &overrides)));
            }
            (None, _) => self.engine.directory()?.config_path(),
        };
        Ok((path.display().to_string(), Config::load(&path, &overrides)))
    }

    /// The engine of the data directory, for commands that need one all the same.
    pub(crate) fn engine(&self) -> &EngineOptions {
        &self.engine
    }
}

/// The pipelines of a plan, or the one of this name.
pub(crate) fn pipelines<'a>(
    plan: &'a Plan,
    name: Option<&str>,
) -> Result<Vec<&'a Arc<Pipeline>>, CommandError> {
    match name {
        None => Ok(plan.pipelines.iter().collect()),
        Some(name) => {
            plan.pipeline(Some(name)).map(|pipeline| vec![pipeline]).ok_or_else(|| no_pipeline(plan, name))
        }
    }
}

fn no_pipeline(plan: &Plan, name: &str) -> CommandError {
    let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
    CommandError::new(format_args!("there is no pipeline `{name}`"))
        .help(format!("expected one of: {}", names.join(", ")))
}

/// A data directory alone, for commands that need no configuration.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DataOption {
    /// Data directory [env: TOLLHOUSE_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl DataOption {
    /// The data directory, which must be named and exist.
    pub(crate) fn directory(&self) -> Result<Directory, CommandError> {
        open_directory(named(&self.data))
    }
}

/// The data directory that the flag or else the environment names.
fn named(flag: &Option<PathBuf>) -> Option<PathBuf> {
    flag.clone()
        .or_else(|| std::env::var_os(DATA_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from))
}

fn open_directory(path: Option<PathBuf>) -> Result<Directory, CommandError> {
    let path = path.ok_or_else(|| {
        CommandError::new("no data directory is named")
            .help(format!("give --data DIR or set {DATA_VARIABLE}"))
    })?;
    Ok(Directory::open(&path)?)
}

impl ServerOptions {
    /// The server, if one is named.
    pub(crate) fn client(&self) -> Result<Option<ApiClient>, CommandError> {
        self.server.as_deref().map(|url| self.credentials.client(url)).transpose()
    }
}

/// The beginning of the names of variables that are settings.
const SETTING_PREFIX: &str = "TOLLHOUSE_";

/// The environment's settings, and those that are credentials: what is secret is no variable, which every child inherits.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut settings: Vec<(String, String)> =
        std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with(SETTING_PREFIX)).collect();
    if let Some(directory) = std::env::var_os("CREDENTIALS_DIRECTORY") {
        for (name, value) in credentials(Path::new(&directory)) {
            // A variable is meant to differ from what is installed.
            if settings.iter().all(|(known, _)| *known != name) {
                settings.push((name, value));
            }
        }
    }
    settings
}

/// Longest credential that is read.
const CREDENTIAL_BYTES_MAX: u64 = 64 << 10;

/// The settings among the files of a directory of credentials, as systemd and Kubernetes make them: a file has the name of a
/// variable, and its content is the value, without the end of its last line.
fn credentials(directory: &Path) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(SETTING_PREFIX))?;
        let mut value = String::new();
        let read = std::fs::File::open(entry.path())
            .and_then(|file| file.take(CREDENTIAL_BYTES_MAX).read_to_string(&mut value));
        if let Err(error) = read {
            say(format_args!("warning: the credential {} cannot be read: {error}", entry.path().display()));
            return None;
        }
        value.truncate(value.trim_end_matches(['\r', '\n']).len());
        Some((name, value))
    };
    let mut found: Vec<_> = entries.filter_map(|entry| read(entry.ok()?)).collect();
    found.sort_unstable();
    found
}

/// Returns true if another process has the data directory open.
pub(crate) fn is_locked(error: &EngineOpenError) -> bool {
    matches!(error, EngineOpenError::Device(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// The advice on what to do instead of working on the data directory of a server, for commands that have [`ServerOptions`].
pub(crate) const ASK_THE_SERVER: &str = "ask it: give --server URL instead of --data";

/// The reason for a data directory that cannot be used, with the mend.
pub(crate) fn stopped(error: &EngineOpenError, instead: &str) -> CommandError {
    let failure = CommandError::new(error);
    if is_locked(error) {
        failure.help(format!("stop the server that runs on it first; or {instead}"))
    } else {
        failure
    }
}

/// An engine of this process. What it holds is on disk once it is closed, and it is closed however the command ends.
pub(crate) struct LocalEngine {
    engine: Arc<Engine>,
    /// Name service, where it is asked. In a box, as most commands have none.
    #[cfg(feature = "mail-auth")]
    lookups: Option<Box<LocalLookups>>,
    /// The user's wish to stop.
    pub(crate) interrupt: Interrupt,
    closed: bool,
}

impl LocalEngine {
    /// Watches for the user's wish to stop.
    pub(crate) fn new(engine: Engine) -> LocalEngine {
        let engine = Arc::new(engine);
        LocalEngine {
            interrupt: Interrupt::watch(Some(Arc::clone(&engine))),
            engine,
            #[cfg(feature = "mail-auth")]
            lookups: None,
            closed: false,
        }
    }

    /// From now on messages are looked up in name service, by the configuration's settings.
    #[cfg(feature = "mail-auth")]
    pub(crate) fn look_up(&mut self) -> Result<(), CommandError> {
        self.lookups = Some(Box::new(LocalLookups::open(&self.engine)?));
        Ok(())
    }

    #[cfg(not(feature = "mail-auth"))]
    pub(crate) fn look_up(&mut self) -> Result<(), CommandError> {
        Err(plan::MissingFeature(plan::BuildFeature::MailAuth).into())
    }

    /// All of an event that comes before statistics; waits for name service, where it is asked.
    pub(crate) fn prepare(&self, pipeline: &Arc<Pipeline>, event: Event, arrival: Time) -> PreparedEvent {
        #[cfg(feature = "mail-auth")]
        if let Some(lookups) = &self.lookups {
            return lookups.prepare(&self.engine, pipeline, event, arrival);
        }
        self.engine.prepare(pipeline, event, arrival)
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The pipeline of this name, else the first that `fits`, else the default one.
    pub(crate) fn pipeline(
        &self,
        name: Option<&str>,
        fits: impl Fn(&Pipeline) -> bool,
    ) -> Result<Arc<Pipeline>, CommandError> {
        let plan = self.engine.plan();
        let found = match name {
            Some(name) => plan.pipeline(Some(name)),
            None => plan.pipelines.iter().find(|pipeline| fits(pipeline)).or_else(|| plan.pipelines.first()),
        };
        found.map(Arc::clone).ok_or_else(|| no_pipeline(&plan, name.unwrap_or_default()))
    }

    /// Writes and syncs everything.
    pub(crate) fn close(mut self) -> Result<(), CommandError> {
        self.closed = true;
        self.finish()
    }

    /// Housekeeping as of the latest event, which may be a message of years ago judged at its own time; yet never
    /// ahead of the clock, or one date from the future would forget everything.
    fn finish(&self) -> Result<(), CommandError> {
        let latest = self.engine.latest_arrival();
        let upkeep = latest.map_or(Ok(()), |latest| self.engine.maintain_replayed(latest.min(now())));
        self.engine.close()?;
        Ok(upkeep?)
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        if !self.closed
            && let Err(error) = self.finish()
        {
            crate::console::report(&error);
        }
    }
}

/// The place to ask a question about the past.
pub(crate) enum Backend {
    /// The data directory.
    Local(LocalEngine),
    /// A server.
    Remote(ApiClient),
}

impl Backend {
    /// The server if one is named, else the data directory.
    pub(crate) fn open(engine: &EngineOptions, server: &ServerOptions) -> Result<Backend, CommandError> {
        match server.client()? {
            Some(client) => Ok(Backend::Remote(client)),
            None => engine.open(ASK_THE_SERVER).map(Backend::Local),
        }
    }
}

/// The preset of a name, for flags.
pub(crate) fn preset_named(name: &str) -> Result<&'static Preset, String> {
    preset::find(name).ok_or_else(|| {
        let names: Vec<&str> = preset::pipelines().map(|preset| preset.name).collect();
        format!("expected one of: {}", names.join(", "))
    })
}

/// A point in time, as RFC 3339, a date, or seconds since 1970.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    text.parse().or_else(|error: event::TimeError| {
        format!("{text}T00:00:00Z").parse().map_err(|_: event::TimeError| error.to_string())
    })
}

/// A length of time.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: event::SpanError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_dates_are_read() {
        let setting =
            |path: &str, value: &str| SettingOverride { path: path.to_owned(), value: value.to_owned() };
        assert_eq!("ledger.durability=sync".parse(), Ok(setting("ledger.durability", "sync")));
        assert_eq!("a.b = c=d".parse(), Ok(setting("a.b", "c=d")));
        assert!("ledger.durability".parse::<SettingOverride>().is_err());
        assert_eq!(time("1970-01-02"), Ok(Time::from_seconds(86_400)));
        assert!(time("tomorrow").is_err());
    }

    #[test]
    fn credentials_are_settings_without_their_last_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("TOLLHOUSE_SERVER_TOKENS", "[\"one\"]\n");
        write("TOLLHOUSE_CLUSTER_PASSWORD", " kept as it is ");
        write("other", "of another program");
        std::fs::create_dir(directory.path().join("TOLLHOUSE_FOLDER")).unwrap();
        let expected =
            [("TOLLHOUSE_CLUSTER_PASSWORD", " kept as it is "), ("TOLLHOUSE_SERVER_TOKENS", "[\"one\"]")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(credentials(directory.path()), expected);
        assert_eq!(credentials(Path::new("/nowhere")), []);
    }
}
