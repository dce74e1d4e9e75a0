//! One verb per file: the flags a verb has, and what it does with the libraries.

pub mod bucket_place;
pub mod bundle_create;
pub mod bundle_import;
pub mod bundle_inspect;
pub mod bundle_sign;
pub mod bundle_verify;
pub mod images;
pub mod mirror_backup;
pub mod mirror_check;
pub mod mirror_copy;
pub mod mirror_gc;
mod mirror_keeping;
pub mod mirror_list;
pub mod mirror_prune;
mod mirror_reference;
pub mod mirror_rm;
pub mod mirror_serve;
pub mod mirror_stat;
pub mod mirror_tag;
pub mod mirror_user;
pub mod mirror_wanted;
pub mod node_config;
pub mod plan;
pub mod push;
pub mod repo_config;
pub mod repo_index;
pub mod repo_keygen;
pub mod repo_show;
pub mod repo_withdraw;
pub mod search;
pub mod some_store;
pub mod store_folder;
pub mod trust_reset;
pub mod trust_root;
pub mod trust_show;
pub mod trust_sign;
pub mod version;

use crate::cli::{
    BundleVerb, MirrorVerb, NodeConfigVerb, RepoVerb, TrustRootVerb, TrustVerb, Verb,
};
use crate::printer::Printer;

/// Does what was asked.
pub fn run(verb: Verb, printer: &Printer) -> anyhow::Result<()> {
    match verb {
        Verb::Bundle(BundleVerb::Create(arguments)) => bundle_create::run(*arguments, printer),
        Verb::Bundle(BundleVerb::Inspect(arguments)) => bundle_inspect::run(arguments, printer),
        Verb::Bundle(BundleVerb::Verify(arguments)) => bundle_verify::run(arguments, printer),
        Verb::Bundle(BundleVerb::Import(arguments)) => bundle_import::run(*arguments, printer),
        Verb::Bundle(BundleVerb::Sign(arguments)) => bundle_sign::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Serve(arguments)) => mirror_serve::run(*arguments, printer),
        Verb::Mirror(MirrorVerb::List(arguments)) => mirror_list::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Stat(arguments)) => mirror_stat::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Copy(arguments)) => mirror_copy::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Tag(arguments)) => mirror_tag::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Prune(arguments)) => mirror_prune::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Rm(arguments)) => mirror_rm::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Check(arguments)) => mirror_check::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Gc(arguments)) => mirror_gc::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Wanted(arguments)) => mirror_wanted::run(arguments, printer),
        Verb::Mirror(MirrorVerb::Backup(arguments)) => mirror_backup::run(arguments, printer),
        Verb::Mirror(MirrorVerb::User(verb)) => mirror_user::run(verb, printer),
        Verb::NodeConfig(NodeConfigVerb::Containerd(arguments)) => {
            node_config::run_containerd(arguments, printer)
        }
        Verb::NodeConfig(NodeConfigVerb::Talos(arguments)) => {
            node_config::run_talos(arguments, printer)
        }
        Verb::Repo(RepoVerb::Keygen(arguments)) => repo_keygen::run(arguments, printer),
        Verb::Repo(RepoVerb::Index(arguments)) => repo_index::run(arguments, printer),
        Verb::Repo(RepoVerb::Add(arguments)) => repo_config::run_add(arguments, printer),
        Verb::Repo(RepoVerb::List(arguments)) => repo_config::run_list(arguments, printer),
        Verb::Repo(RepoVerb::Remove(arguments)) => repo_config::run_remove(arguments, printer),
        Verb::Trust(TrustVerb::Root(TrustRootVerb::New(arguments))) => {
            trust_root::run_new(arguments, printer)
        }
        Verb::Trust(TrustVerb::Root(TrustRootVerb::Next(arguments))) => {
            trust_root::run_next(arguments, printer)
        }
        Verb::Trust(TrustVerb::Sign(arguments)) => trust_sign::run(arguments, printer),
        Verb::Trust(TrustVerb::Reset(arguments)) => trust_reset::run(arguments, printer),
        Verb::Trust(TrustVerb::Show(arguments)) => trust_show::run(arguments, printer),
        Verb::Repo(RepoVerb::Withdraw(arguments)) => repo_withdraw::run(arguments, printer),
        Verb::Repo(RepoVerb::Show(arguments)) => repo_show::run_show(arguments, printer),
        Verb::Repo(RepoVerb::Verify(arguments)) => repo_show::run_verify(arguments, printer),
        Verb::Images(arguments) => images::run(arguments, printer),
        Verb::Push(arguments) => push::run(arguments, printer),
        Verb::Search(arguments) => search::run(arguments, printer),
        Verb::Plan(arguments) => plan::run(arguments, printer),
        Verb::Version(arguments) => version::run(arguments, printer),
    }
}
