//! Drives the real command as a user does: arguments in; exit code, stdout, stderr and files
//! out. Nothing here needs a network.
#![expect(clippy::unwrap_used, reason = "what cannot be set up is a failed test")]

mod architecture;
mod beside;
mod between;
mod bucket;
mod collecting;
mod command;
mod configuration;
mod create_faults;
mod create_input;
mod create_selection;
mod golden;
mod help;
mod images;
mod index;
mod index_rules;
mod journey;
mod json;
mod keygen;
mod killed;
mod lessons;
mod main_job;
mod maker;
mod monitoring;
mod partial;
mod plan;
mod provenance;
mod pruning;
mod publisher;
mod publishing;
mod push;
mod refused;
mod registry;
mod roots;
mod samples;
mod secure;
mod served;
mod service;
mod serving;
mod signing;
mod starting;
mod tending;
mod trust;
mod usage;
mod version;
