//! How machines come to pull from here: the CA they have to know, settings for nodes.

use maud::{Markup, html};

use super::Shown;
use crate::http::page::command::CA_FILE;

/// How nodes are made to pull from here.
pub(super) fn section(shown: &Shown<'_>) -> Markup {
    let address = &shown.address;
    html! {
        @if shown.settings {
            section aria-labelledby="nodes" {
                h2 id="nodes" { "Node settings" }
                p {
                    "With these a node pulls from this mirror under the names images already have. \
                    They name the mirror as " span.name { (address.host()) } ": open this page \
                    under the address nodes use."
                }
                @if let Some(fingerprint) = address.ca() { (trust(shown, fingerprint)) }
                h3 { "containerd" }
                p { "Where " code { "config_path" } " of containerd's registry settings points:" }
                pre.copy {
                    code {
                        (address.curl("", "/node-config/containerd"))
                        " | tar -x -C /etc/containerd/certs.d"
                    }
                }
                h3 { "Talos" }
                pre.copy {
                    code {
                        (address.curl(" -o registry-mirrors.yaml", "/node-config/talos")) "\n"
                        "talosctl patch machineconfig --nodes NODES --patch @registry-mirrors.yaml"
                    }
                }
            }
        }
    }
}

/// How the CA comes to a machine that does not know it. What this page says of it came the same
/// way, so it is compared with what the mirror's own log says.
fn trust(shown: &Shown<'_>, fingerprint: &str) -> Markup {
    let address = &shown.address;
    html! {
        h3 { "The CA of this mirror" }
        p {
            "Clients do not know it by themselves. Settings for nodes carry it; for the commands on this \
            page bring it once into the folder you work in, as " code { (CA_FILE) } ":"
        }
        pre.copy { code { (address.bring_ca()) } }
        p {
            "The SHA-256 is to be the one the mirror said when it was started, and "
            code { "kubepkg mirror serve --check" } " says on its host. Here it is "
            span.key { (fingerprint) } ". docker reads the CA from a place of its own:"
        }
        pre.copy { code { (address.docker_ca()) } }
    }
}
