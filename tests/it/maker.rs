//! Somebody without packages: an upstream, and the folder in which bundles of what it has are made,
//! imported and served.

use kubepkg_core::keys::PrivateKey;
use kubepkg_test_support::{Image, Upstream};

use crate::command::{Run, Scratch};
use crate::served::Mirror;

/// An upstream, and the folder of one who makes bundles from it.
pub struct Maker {
    pub upstream: Upstream,
    pub scratch: Scratch,
}

impl Maker {
    pub fn new() -> Maker {
        Maker {
            upstream: Upstream::start(),
            scratch: Scratch::new(),
        }
    }

    /// Puts an image there and gives `host/repository`.
    pub fn image(&self, repository: &str, tags: &[&str], image: &Image) -> String {
        self.upstream.put_image(repository, tags, image);
        format!("{}/{repository}", self.upstream.host())
    }

    pub fn create(&self, flags: &[&str]) -> Run {
        let call = [
            "bundle",
            "create",
            "-o",
            "site.tar",
            "--no-progress",
            "--force",
        ];
        self.scratch.run(&[&call[..], flags].concat())
    }

    pub fn import(&self, flags: &[&str]) -> Run {
        let call = ["bundle", "import", "site.tar", "--store", "store"];
        self.scratch.run(&[&call[..], flags].concat())
    }

    pub fn import_on_its_word(&self) -> Run {
        self.import(&["--allow-unpinned-images"]).ok()
    }

    pub fn serve(&self) -> Mirror {
        Mirror::start(&self.scratch, "store")
    }

    /// `/v2/<host in the mirror>/<repository>/`.
    pub fn place(&self, repository: &str) -> String {
        let host = self.upstream.host().replace(':', "_");
        format!("/v2/{host}/{repository}/")
    }

    pub fn key(&self, name: &str) {
        let key = PrivateKey::generate().unwrap();
        self.scratch
            .write(&format!("{name}.key"), key.to_pem().unwrap());
        let public = key.public().unwrap().to_pem();
        self.scratch.write(&format!("{name}.pub"), public);
    }
}
