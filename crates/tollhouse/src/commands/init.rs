//! `tollhouse init`: a data directory with a secret and a configuration.

use std::fs;
use std::path::PathBuf;

use engine::Directory;
use plan::preset::{self, BUNDLES, Preset, PresetBundle};

use crate::console::{BOLD, say};
use crate::exit::{CommandError, Exit};
use crate::options::preset_named;

/// Create a data directory: a secret and a configuration
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse init --data ./data                              For mail
  tollhouse init --preset mail --preset web --data ./data   For mail and web events
  tollhouse init --preset site --data ./data                For a site behind a proxy: web and gate
  tollhouse init --preset sshd,postfix --data ./data        For logs, which `serve` then reads
  tollhouse init --secret-only --data /var/lib/tollhouse    For packages: no configuration

The secret, readable by you only, keys every stored hash. Without it nothing counted can be read:
keep a copy in a safe place.")]
pub(crate) struct InitArgs {
    /// Presets of pipelines; the first is the default pipeline
    #[arg(long = "preset", value_name = "NAME", default_value = "mail", value_delimiter = ',', value_parser = choice)]
    presets: Vec<PresetChoice>,
    /// Create only a missing secret, for a configuration elsewhere that `serve` gets by `--config`
    #[arg(long, conflicts_with = "presets")]
    secret_only: bool,
    /// Existing secret to use, such as that of a cluster's other nodes
    #[arg(long, value_name = "FILE", requires = "secret_only")]
    secret: Option<PathBuf>,
    /// Directory to create
    #[arg(long, value_name = "DIR", env = "TOLLHOUSE_DATA")]
    data: PathBuf,
}

/// A preset, or presets that go together.
#[derive(Clone, Copy, Debug)]
enum PresetChoice {
    Preset(&'static Preset),
    Bundle(&'static PresetBundle),
}

/// The choice that a name makes.
fn choice(name: &str) -> Result<PresetChoice, String> {
    match BUNDLES.iter().find(|bundle| bundle.name == name) {
        Some(bundle) => Ok(PresetChoice::Bundle(bundle)),
        None => preset_named(name).map(PresetChoice::Preset).map_err(|expected| {
            let bundles: Vec<&str> = BUNDLES.iter().map(|bundle| bundle.name).collect();
            format!("{expected}, {}", bundles.join(", "))
        }),
    }
}

pub(crate) fn run(args: InitArgs) -> Result<Exit, CommandError> {
    if args.secret_only {
        let secret = args.secret.as_deref().map(Directory::read_secret).transpose()?;
        let is_made = Directory::ensure_secret(&args.data, secret.as_ref())?;
        let what = if is_made { "Made the secret of" } else { "There is a secret already in" };
        say(format_args!("{what} {BOLD}{}{BOLD:#}; keep a copy of it in a safe place", args.data.display()));
        return Ok(Exit::Fine);
    }
    let mut presets: Vec<(&Preset, &str)> = Vec::new();
    let mut settings = String::new();
    let mut chosen: Vec<(&'static Preset, &'static str)> = Vec::new();
    for choice in args.presets {
        match choice {
            PresetChoice::Preset(preset) => chosen.push((preset, "")),
            PresetChoice::Bundle(bundle) => {
                let named = bundle.presets.iter();
                chosen.extend(named.filter_map(|(name, more)| Some((preset::find(name)?, *more))));
                settings += bundle.settings;
            }
        }
    }
    for (preset, more) in chosen {
        if presets.iter().any(|(other, _)| other.name == preset.name) {
            return Err(CommandError::new(format_args!("--preset {} is given twice", preset.name)));
        }
        let source = preset.source();
        if !source.is_empty() {
            settings += "\n";
            settings += &source;
        }
        presets.push((preset, more));
    }
    let directory = Directory::create_with(&args.data, &presets, &settings)?;
    let shown = args.data.display();
    say(format_args!("Made {BOLD}{shown}{BOLD:#}:"));
    let mut names: Vec<String> = fs::read_dir(directory.path())
        .map_err(|error| CommandError::new(format_args!("{shown}: {error}")))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    for name in names {
        let what = match name.as_str() {
            "secret" => "keys every hash; keep a copy in a safe place".to_owned(),
            "tollhouse.toml" => "the configuration".to_owned(),
            other => format!("the pipeline `{}`", other.trim_end_matches(".toml")),
        };
        say(format_args!("  {name:<16} {what}"));
    }
    say(format_args!(
        "\nNext:\n  tollhouse serve --data {shown}\n  tollhouse config check {} --effective",
        directory.config_path().display()
    ));
    Ok(Exit::Fine)
}
