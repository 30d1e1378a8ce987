//! Programs that targets run: an argument vector, never a shell, with a bound on time and on what is kept of their words.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for a program.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes that are kept of what a program says.
const WORDS_MAX: u64 = 4096;

/// Runs a program with a text on its standard input.
///
/// # Errors
/// Says why it could not be run, or what it said when it failed.
pub(super) fn run(program: &str, arguments: &[String], input: Option<&str>) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let (status, words) = std::thread::scope(|scope| {
        let writer = stdin.zip(input).map(|(mut stdin, input)| {
            // A program that ends early says why by itself.
            scope.spawn(move || _ = stdin.write_all(input.as_bytes()))
        });
        let reader = stderr.map(|mut stderr| {
            scope.spawn(move || {
                let mut words = Vec::new();
                let _ = (&mut stderr).take(WORDS_MAX).read_to_end(&mut words);
                // The rest is read, so that the program does not wait, and let go of.
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                words
            })
        });
        let status = wait(&mut child);
        writer.map(std::thread::ScopedJoinHandle::join);
        let words = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        (status, words)
    });
    let words = String::from_utf8_lossy(&words);
    let first: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    match status {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{program} failed: {}", first.join("; "))),
        Err(why) => Err(format!("{program}: {why}")),
    }
}

fn wait(child: &mut Child) -> Result<bool, String> {
    let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if started.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} seconds", TIMEOUT.as_secs()));
            }
            Ok(None) => std::thread::sleep(pause),
            Err(error) => return Err(error.to_string()),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_their_arguments_whole_and_say_why_they_fail() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("a b; $(touch c)").display().to_string();
        run("tee", std::slice::from_ref(&file), Some("text")).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        let failed = run("cat", &["/nonexistent".to_owned()], None).unwrap_err();
        assert!(failed.starts_with("cat failed: cat: /nonexistent"), "{failed}");
        assert!(run("/nonexistent/program", &[], None).unwrap_err().contains("No such file"));
        // A program that does not read is not waited for.
        run("true", &[], Some(&"x".repeat(1 << 20))).unwrap();
    }
}
