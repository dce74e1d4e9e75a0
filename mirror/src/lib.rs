//! The OCI registry a site is served from, and its store.
//!
//! [`store`] keeps content and names on a file system, [`bucket`] in a bucket that several
//! mirrors share. [`route`] and [`namespace`] say, without
//! any I/O, what a request asks for and where that may be looked for; [`http`] answers it from
//! a [`source::Source`] and fills a [`sink::Sink`]; [`serve`] puts it on a socket. [`keeper`]
//! looks after a store while it is served; [`wanted`] counts what was asked for in vain,
//! [`manage`] is what operators ask and change by hand; [`metrics`] and [`facts`] are what the
//! server and its store tell of themselves. Nothing here asks another machine for anything.

pub mod access;
pub mod bucket;
mod changes;
pub mod facts;
pub mod http;
pub mod keeper;
pub mod manage;
pub mod metrics;
pub mod namespace;
mod owner;
pub mod route;
pub mod serve;
pub mod sink;
pub mod source;
pub mod store;
pub mod tls;
mod told;
pub mod wanted;
