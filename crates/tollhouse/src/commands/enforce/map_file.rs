//! `tollhouse enforce file`: a file that a proxy reads, and a program that has it read it again.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use disk::AtomicFile;
use event::Time;

use super::mirror::{BanMirror, TargetChange};
use super::{EnforcementTarget, program};

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MapFormat {
    /// `192.0.2.0/24 1;`, for nginx: `geo $banned { default 0; include FILE; }`
    NginxGeo,
    /// `deny 192.0.2.0/24;`, for nginx: `include FILE;`
    NginxDeny,
    /// One a line, for HAProxy: `http-request deny if { src -f FILE }`
    Haproxy,
    /// `remote_ip` lines, for Caddy: `@banned { import FILE }`
    Caddy,
    /// One a line
    Plain,
}

/// A file that a proxy reads.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MapFileOptions {
    /// Format of the file
    #[arg(long, value_enum)]
    pub(super) format: MapFormat,
    /// File to write, replaced whole
    #[arg(long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Least seconds between writes
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub(super) pause: u64,
    /// Program and arguments to reload the proxy
    #[arg(last = true, value_name = "PROGRAM")]
    pub(super) reload: Vec<String>,
}

/// A file that is kept in step.
pub(super) struct MapFileTarget {
    pub(super) options: MapFileOptions,
    written: Option<(Instant, String)>,
}

impl MapFileTarget {
    pub(super) fn new(options: MapFileOptions) -> MapFileTarget {
        MapFileTarget { options, written: None }
    }

    fn text(&self, mirror: &BanMirror) -> String {
        let line = |network: String| match self.options.format {
            MapFormat::NginxGeo => format!("{network} 1;\n"),
            MapFormat::NginxDeny => format!("deny {network};\n"),
            MapFormat::Caddy => format!("remote_ip {network}\n"),
            MapFormat::Haproxy | MapFormat::Plain => format!("{network}\n"),
        };
        let text: String = mirror.shown().keys().map(|network| line(network.to_string())).collect();
        match self.options.format {
            // A matcher without conditions would match everybody.
            MapFormat::Caddy if text.is_empty() => line("255.255.255.255".to_owned()),
            _ => text,
        }
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut draft = AtomicFile::of(&self.options.output)?;
        draft.write_all(text.as_bytes())?;
        // The proxy reads it as somebody else.
        draft.file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        draft.commit().map(drop)
    }
}

impl EnforcementTarget for MapFileTarget {
    fn all(&self, mirror: &BanMirror, _: Time) -> Option<String> {
        Some(self.text(mirror))
    }

    fn changes(&self, _: &[TargetChange], _: Time) -> Option<String> {
        None
    }

    fn is_due(&self) -> bool {
        let pause = Duration::from_secs(self.options.pause);
        self.written.as_ref().is_none_or(|(written, _)| written.elapsed() >= pause)
    }

    fn run(&mut self, text: &str) -> Result<(), String> {
        if self.written.as_ref().is_some_and(|(_, written)| written == text) {
            return Ok(());
        }
        let path = self.options.output.display().to_string();
        self.write(text).map_err(|error| format!("{path}: {error}"))?;
        if let [program, arguments @ ..] = self.options.reload.as_slice() {
            program::run(program, arguments, None)?;
        }
        self.written = Some((Instant::now(), text.to_owned()));
        Ok(())
    }
}
