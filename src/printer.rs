//! stdout carries the answer, stderr the talk.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

use crate::cli::{ColorChoice, LogFormat, Talk};
use crate::error::CommandError;
use crate::report::Report;

/// Who reads stdout has closed it.
#[derive(Debug)]
pub struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output has gone away")
    }
}

impl std::error::Error for OutputClosed {}

/// Writes answers and talk. Clones share the terminal.
#[derive(Clone)]
pub struct Printer {
    quiet: bool,
    paint: bool,
    progress: Show,
    bars: MultiProgress,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Not at all.
    Nothing,
    /// A bar that is drawn anew.
    Bar,
    /// A line now and then.
    Lines,
}

impl Printer {
    /// A printer that talks as the user wants it.
    pub fn new(talk: &Talk) -> Printer {
        let terminal = io::stderr().is_terminal();
        let bars = MultiProgress::new();
        let progress = match () {
            () if talk.quiet || talk.no_progress => Show::Nothing,
            () if terminal => Show::Bar,
            () => Show::Lines,
        };
        if progress != Show::Bar {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        Printer {
            quiet: talk.quiet,
            paint: paints(talk.color, terminal),
            progress,
            bars,
        }
    }

    /// How progress is shown.
    pub fn show(&self) -> Show {
        self.progress
    }

    /// The bars on the terminal.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Writes a line (or several) of the answer to stdout.
    pub fn answer(&self, text: &str) -> anyhow::Result<()> {
        self.raw_answer(format!("{}\n", printable(text)).as_bytes())
    }

    /// Writes the answer as JSON to stdout.
    pub fn answer_json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.raw_answer(&text)
    }

    /// Writes bytes to stdout as they are.
    pub fn raw_answer(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        });
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
            Err(error) => Err(CommandError::io("cannot write the answer", error)
                .at("standard output")
                .into()),
        }
    }

    /// Says what was done; not with `--quiet`.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.talk(&printable(text));
        }
    }

    /// Says what the user should know even with `--quiet`.
    pub fn warn(&self, text: &str) {
        let label = self.painted("warning:", "33");
        self.talk(&format!("{label} {}", printable(text)));
    }

    /// Tells of a failure.
    pub fn report(&self, report: &Report, json: bool) {
        if json && let Ok(text) = serde_json::to_string(report) {
            return self.talk(&text);
        }
        for (label, text) in report.lines() {
            let color = if label == "error" { "31;1" } else { "1" };
            let label = self.painted(&format!("{label}:"), color);
            // a text of several lines stays under its label
            self.talk(&format!(
                "{label} {}",
                printable(text).replace('\n', "\n  ")
            ));
        }
    }

    fn painted(&self, text: &str, code: &str) -> String {
        if self.paint {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn talk(&self, line: &str) {
        self.bars.suspend(|| {
            // nobody is left to be told when stderr is gone
            let _ = writeln!(io::stderr().lock(), "{line}");
        });
    }
}

/// `text` with control characters shown instead of obeyed: names in a bundle that was not
/// verified yet must not move the cursor of who looks at it.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim_end_matches('\n').chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.extend(c.escape_debug()),
            c => out.push(c),
        }
    }
    out
}

fn paints(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            terminal && !set("NO_COLOR") && !dumb
        }
    }
}

/// Sends what the libraries log to stderr, between the bars.
pub fn install_log(talk: &Talk, printer: &Printer) {
    let level = match (talk.quiet, talk.verbose) {
        (true, _) => "error",
        (_, 0) => "warn",
        // a bucket's library shows addresses and answers as they are, with what is secret in them
        (_, 1) => "info,hyper=warn,reqwest=warn,object_store=error",
        (_, 2) => "debug,hyper=info,reqwest=info,h2=info,object_store=error",
        (_, _) => "trace",
    };
    let bars = printer.bars.clone();
    let log = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(level))
        .with_ansi(printer.paint)
        .with_target(talk.verbose > 1)
        .with_writer(move || LogWriter(bars.clone()));
    // a second installation can only come from a test, and then the first one stays
    let _ = match talk.log_format {
        LogFormat::Text if talk.verbose == 0 => log.without_time().try_init(),
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}

/// Writes log lines without tearing the bars.
struct LogWriter(MultiProgress);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().lock().write(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// Rows as columns two spaces apart, with an upper-case heading.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.len()).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| printable(cell).replace('\n', " "))
                .collect()
        })
        .collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut heading.iter().copied())];
    lines.extend(
        rows.iter()
            .map(|row| line(&mut row.iter().map(String::as_str))),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = vec![
            vec!["web".to_owned(), "1.0".to_owned()],
            vec!["cert-manager".to_owned(), "1.21.2".to_owned()],
        ];
        assert_eq!(
            table(&["NAME", "VERSION"], &rows),
            "NAME          VERSION\nweb           1.0\ncert-manager  1.21.2"
        );
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\x1b[2Jb\rc\nd\n"), "a\\u{1b}[2Jb\\rc\nd");
    }
}
