//! The site that bad bundles are carried to: an honest bundle imported, a server on the store.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::OnceLock;

use kubepkg_core::keys::PrivateKey;
use kubepkg_core::time::Time;
use kubepkg_test_support::image::{self, Image};
use kubepkg_test_support::{Chart, Forge, ImageBuilder, Package, package};
use walkdir::WalkDir;

use crate::command::{Run, Scratch};

/// Where the index of the honest bundle comes from.
pub const URL: &str = "https://packages.example.com/stable/index.yaml";

/// The chart repository of the honest bundle.
pub const CHARTS: &str = "https://charts.example.com/stable";

/// An image for two platforms; one layer is large enough to be aligned.
pub const APP: &str = "registry.example.com/web/app:1.0";

/// An image of Docker's older form.
pub const BASE: &str = "registry.example.com/base:2";

/// What a server is asked before and after.
const ASKED: &[&str] = &[
    "/v2/_catalog",
    "/v2/registry.example.com/web/app/tags/list",
    "/v2/registry.example.com/web/app/manifests/1.0",
    "/v2/registry.example.com/base/tags/list",
    "/v2/registry.example.com/base/manifests/2",
    "/v2/charts.example.com/stable/web/tags/list",
    "/charts/charts.example.com/stable/index.yaml",
    "/repositories/packages.example.com/stable/index.yaml",
    "/repositories/packages.example.com/stable/index.yaml.sig",
    "/repositories/packages.example.com/stable/carried.json",
];

/// A good bundle and what it is made of.
pub struct Honest {
    pub forge: Forge,
    pub bytes: Vec<u8>,
    pub key: PrivateKey,
    pub app: Image,
    pub base: Image,
    pub chart: Chart,
    pub packages: Vec<Package>,
    pub generated: Time,
}

/// The good bundle, made once.
pub fn honest() -> &'static Honest {
    static HONEST: OnceLock<Honest> = OnceLock::new();
    HONEST.get_or_init(Honest::make)
}

impl Honest {
    fn make() -> Honest {
        let amd64 = ImageBuilder::new(1).layers(1, 70_000).build();
        let arm64 = ImageBuilder::new(2).platform("linux/arm64").build();
        let app = image::index(&[amd64, arm64]);
        let base = ImageBuilder::new(3).docker().build();
        let chart = Chart::new("web", "1.0.0", APP);
        let web = Package::new("web", "1.0.0")
            .chart(CHARTS, "web", "1.0.0", Some(chart.digest()))
            .image(&format!("{APP}@{}", app.digest()))
            .requires("base", "");
        let base_package =
            Package::new("base", "2.0.0").image(&format!("{BASE}@{}", base.digest()));
        let key = PrivateKey::generate().unwrap();
        let generated = Time::now();
        let packages = vec![base_package, web];

        let mut forge = Forge::default();
        let index = package::index(&packages, generated, None);
        sign_into(&mut forge, URL, &index, &key);
        for package in &packages {
            forge.package(URL, package);
        }
        forge.chart(CHARTS, &chart, &["web"]);
        forge.image(APP, &app, &["web"]);
        forge.image(BASE, &base, &["base"]);
        Honest {
            bytes: forge.bytes(),
            forge,
            key,
            app,
            base,
            chart,
            packages,
            generated,
        }
    }

    /// The bundle with another index, signed by the same key.
    pub fn with_index(&self, index: &[u8]) -> Forge {
        let mut forge = self.forge.clone();
        sign_into(&mut forge, URL, index, &self.key);
        forge
    }

    /// An index of the same packages.
    pub fn index(&self, generated: Time, expires: Option<Time>) -> Vec<u8> {
        package::index(&self.packages, generated, expires)
    }
}

/// Gives the repository at `url` this index, signed by `key`.
pub fn sign_into(forge: &mut Forge, url: &str, index: &[u8], key: &PrivateKey) {
    let signature = package::sign(index, key);
    forge.repository(
        url,
        &[
            ("index.yaml", index),
            ("index.yaml.sig", signature.as_bytes()),
        ],
    );
}

/// Everything of a store that somebody can see: names, sites, memory and commits on disk, and
/// what its server answers.
#[derive(Debug, PartialEq, Eq)]
struct Visible {
    files: BTreeMap<String, Vec<u8>>,
    served: BTreeMap<&'static str, String>,
}

/// A site with a filled and served store and the key it trusts.
pub struct Site {
    pub scratch: Scratch,
    server: Serving,
    before: Visible,
    tries: Cell<u32>,
}

impl Site {
    pub fn new() -> Site {
        let scratch = Scratch::new();
        let honest = honest();
        scratch.write("release.pub", honest.key.public().unwrap().to_pem());
        let stranger = PrivateKey::generate().unwrap();
        scratch.write("stranger.pub", stranger.public().unwrap().to_pem());
        scratch.write("honest.tar", &honest.bytes);
        scratch
            .run(&[
                "bundle",
                "import",
                "honest.tar",
                "--store",
                "store",
                "--public-key",
                "release.pub",
            ])
            .ok();
        let server = Serving::start(&scratch, "store");
        let before = visible(&scratch.path("store"), &server);
        assert!(before.files.len() > 6, "{:?}", before.files.keys());
        for (target, answer) in &before.served {
            assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
        }
        Site {
            scratch,
            server,
            before,
            tries: Cell::new(0),
        }
    }

    /// This file is refused by `verify`, by an import into a new store and by one into the
    /// filled store, each time in the same words, and nothing changes.
    #[track_caller]
    pub fn refuses(&self, bundle: &[u8], flags: &[&str], code: i32, says: &str) -> Told {
        self.scratch.write("site.tar", bundle);
        self.refuses_file(flags, code, says)
    }

    /// [`Site::refuses`] with the site's key.
    #[track_caller]
    pub fn refuses_by(&self, bundle: &[u8], says: &str) -> Told {
        self.refuses(bundle, &["--public-key", "release.pub"], 3, says)
    }

    /// [`Site::refuses`] for the file `site.tar` as it lies there.
    #[track_caller]
    pub fn refuses_file(&self, flags: &[&str], code: i32, says: &str) -> Told {
        let told = self.refuses_anew(flags, code, says);
        let filled = self.refuses_import(flags, code, says);
        assert_eq!(
            told.timeless(),
            filled.timeless(),
            "a filled store makes a difference"
        );
        told
    }

    /// The file `site.tar` is refused by `verify` and by an import into a new store, in the
    /// same words, and nothing is left behind.
    #[track_caller]
    pub fn refuses_anew(&self, flags: &[&str], code: i32, says: &str) -> Told {
        let verify = [&["bundle", "verify", "site.tar"], flags].concat();
        let told = Told::of(self.scratch.run(&verify), code, says);
        let new = format!("new-{}", self.tries.replace(self.tries.get() + 1));
        let fresh = self.import(&new, flags, code, says);
        assert_eq!(
            told.timeless(),
            fresh.timeless(),
            "verify and import differ"
        );
        let left = files(&self.scratch.path(&new));
        let generation = left.get("generation").map(Vec::as_slice);
        assert!(
            left.len() <= 1 && generation.is_none_or(|n| n.iter().all(|b| b"0\n".contains(b))),
            "left behind: {left:?}"
        );
        told
    }

    /// The filled store refuses `site.tar` and stays as it is.
    #[track_caller]
    pub fn refuses_import(&self, flags: &[&str], code: i32, says: &str) -> Told {
        let told = self.import("store", flags, code, says);
        let after = visible(&self.scratch.path("store"), &self.server);
        assert_eq!(self.before.files, after.files);
        assert_eq!(self.before.served, after.served);
        told
    }

    #[track_caller]
    fn import(&self, store: &str, flags: &[&str], code: i32, says: &str) -> Told {
        let import = [&["bundle", "import", "site.tar", "--store", store], flags].concat();
        Told::of(self.scratch.run(&import), code, says)
    }

    /// The file `site.tar` is accepted by `verify` and by a new store, and this is said.
    #[track_caller]
    pub fn accepts_file(&self, flags: &[&str], says: &str) {
        let verify = [&["bundle", "verify", "site.tar"], flags].concat();
        self.scratch.run(&verify).ok().says(says);
        let new = format!("new-{}", self.tries.replace(self.tries.get() + 1));
        let import = [&["bundle", "import", "site.tar", "--store", &new], flags].concat();
        self.scratch.run(&import).ok().says(says);
    }

    /// What was changed on purpose counts as the state before.
    pub fn remember(&mut self) {
        self.before = visible(&self.scratch.path("store"), &self.server);
    }
}

/// A refusal as a person reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub error: String,
    pub place: String,
    pub causes: String,
    pub hint: String,
}

impl Told {
    /// What every refusal has: one line of what, a hint, and no file said twice.
    #[track_caller]
    fn of(run: Run, code: i32, says: &str) -> Told {
        let run = run.fails(code, says);
        let lines = |label: &str| -> Vec<&str> {
            run.stderr
                .lines()
                .filter_map(|line| line.strip_prefix(label))
                .collect()
        };
        let told = Told {
            error: lines("error: ").join("\n"),
            place: lines("where: ").join("\n"),
            causes: lines("caused by: ").join("\n"),
            hint: lines("hint: ").join("\n"),
        };
        assert!(!told.error.is_empty() && !told.hint.is_empty(), "{told:?}");
        for place in ["site.tar", &told.place] {
            let twice = !place.is_empty() && told.error.contains(place);
            assert!(!twice, "the place is told twice: {told:?}");
        }
        told
    }

    /// What does not depend on the second it was told in.
    fn timeless(&self) -> String {
        let words = |text: &str| -> Vec<String> {
            text.split(' ')
                .map(|word| {
                    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
                    match bare.parse::<Time>() {
                        Ok(_) => "TIME".to_owned(),
                        Err(_) => word.to_owned(),
                    }
                })
                .collect()
        };
        let lines = [&self.error, &self.place, &self.causes, &self.hint];
        lines.map(|line| words(line).join(" ")).join("\n")
    }

    /// It says where.
    #[track_caller]
    pub fn at(self, place: &str) -> Told {
        assert!(self.place.contains(place), "not at {place}: {self:?}");
        self
    }

    /// It says why, in the message or among the causes.
    #[track_caller]
    pub fn why(self, text: &str) -> Told {
        assert!(
            self.error.contains(text) || self.causes.contains(text),
            "no {text:?}: {self:?}"
        );
        self
    }

    /// It says what to do.
    #[track_caller]
    pub fn hints(self, text: &str) -> Told {
        assert!(self.hint.contains(text), "no {text:?}: {self:?}");
        self
    }
}

fn visible(store: &Path, server: &Serving) -> Visible {
    Visible {
        files: files(store),
        served: ASKED
            .iter()
            .map(|target| (*target, server.get(target)))
            .collect(),
    }
}

/// The files of a store that names live in.
fn files(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let parts = ["names", "sites", "trust", "commits", "generation"];
    parts
        .iter()
        .flat_map(|part| WalkDir::new(store.join(part)))
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let path = entry.path().strip_prefix(store).unwrap();
            let bytes = std::fs::read(entry.path()).unwrap();
            (path.to_str().unwrap().to_owned(), bytes)
        })
        .collect()
}

/// `mirror serve`, until it is dropped.
struct Serving {
    child: Child,
    address: String,
    /// Kept open: the server goes on talking.
    _talk: BufReader<ChildStderr>,
}

impl Serving {
    fn start(scratch: &Scratch, store: &str) -> Serving {
        let mut child = scratch
            .command(&[
                "mirror",
                "serve",
                "--store",
                store,
                "--listen",
                "127.0.0.1:0",
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(talk.read_line(&mut line).unwrap() > 0, "the server ended");
            if let Some((_, address)) = line.trim().split_once(" at http://") {
                break address.to_owned();
            }
        };
        Serving {
            child,
            address,
            _talk: talk,
        }
    }

    /// The whole answer but its date.
    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let of_the_moment =
            |line: &&str| line.starts_with("date:") || line.starts_with("x-request-id:");
        let lines = answer.lines().filter(|line| !of_the_moment(line));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // it may have ended by itself, which its answers have shown
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
