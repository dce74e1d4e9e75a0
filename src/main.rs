//! The command `kubepkg`: the only place with a command line, a terminal, an environment
//! and a home directory. Everything else is a library that takes paths and gives typed errors.

mod cache;
mod cli;
mod commands;
mod config;
mod error;
mod interrupt;
mod output;
mod passphrase;
mod places;
mod printer;
mod progress;
mod report;
mod repositories;
mod root_files;
mod settings_pages;
mod signing;
mod state;
mod summary;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use cli::{Cli, Environment};
use printer::Printer;
use report::Report;

fn main() -> ExitCode {
    report::install_panic_hook();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match std::panic::catch_unwind(|| run(&arguments)) {
        Ok(code) => code,
        // the hook has said what happened
        Err(_) => ExitCode::from(report::BUG),
    }
}

fn run(arguments: &[OsString]) -> ExitCode {
    let environment = Environment::of_process();
    let cli = match Cli::read(arguments, &environment) {
        Ok(cli) => cli,
        Err(refused) => return refused.print(),
    };
    let printer = Printer::new(&cli.talk);
    printer::install_log(&cli.talk, &printer);
    for told in environment.unknown() {
        printer.warn(&told);
    }
    let json = cli.verb.wants_json();
    let store = cli.verb.store().map(ToOwned::to_owned);
    match commands::run(cli.verb, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        // who reads our output has enough of it: that is no failure
        Err(error) if report::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let mut report = Report::of(&error);
            if let Some(store) = &store {
                report.reword(|text| commands::store_folder::typeable(text, store));
            }
            printer.report(&report, json);
            ExitCode::from(report.exit)
        }
    }
}
