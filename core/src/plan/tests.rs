//! Plans: order, notes, JSON, and the files beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::Digest;
use crate::index::{Index, IndexPackage, Withdrawn};
use crate::lock::{Lock, LockError};
use crate::name::PackageName;
use crate::resolve::{Install, Pack, Request, ResolveError, install, pack};
use crate::select::{Catalog, Source};
use crate::time::Time;

/// An installed distribution, and a source written by hand.
const INSTALLED: &str = "\
apiVersion: kubepkg.dev/v1
kind: Installed
apis: [cert-manager.io/v1]
packages:
  - name: web
    version: 1.0.0
    crds: [sites.example.com, old.example.com]
    requires:
      - {package: db, version: \">=1\", values: {server: {replicas: 3}}}
  - {name: db, version: 1.0.0, build: 1, variant: small, ready: false}
  - {name: old, version: 1.0.0, requires: [{package: older}]}
  - {name: older, version: 1.0.0}
---
apiVersion: kubepkg.dev/v1
kind: PackageSource
metadata: {name: local}
spec:
  variants: [{name: default}]
";

const WEB: &str = r#"{"version":"2.0.0",
  "crds":["sites.example.com","pages.example.com"],
  "permissions":{"clusterWide":true,"rules":[{"verbs":["get"],"apiGroups":["apps"],"resources":["deployments"]}]},
  "variants":[{"name":"default",
    "requires":[{"package":"db","version":">=1"},{"capability":"cache"},{"package":"local"}],
    "components":[{"name":"migrate","install":{"phase":"PreUpgrade"}},{"name":"web"}]}]}"#;

const CACHE: &str = r#"{"version":"1.0.0","provides":["cache"],"variants":[{"name":"default","requires":[{"package":"web"}]}]}"#;

fn catalog(packages: &[(&str, &[&str])]) -> Catalog {
    let packages: BTreeMap<_, _> = packages
        .iter()
        .map(|(name, specs)| {
            let version = |spec: &&str| IndexVersion::of(serde_json::from_str(spec).unwrap());
            let package = IndexPackage {
                versions: specs.iter().map(version).collect(),
                ..IndexPackage::default()
            };
            ((*name).to_owned(), package)
        })
        .collect();
    Catalog::new(vec![Source {
        name: "https://r.example.com/index.yaml".to_owned(),
        priority: 0,
        index: Arc::new(Index {
            packages,
            ..Index::default()
        }),
    }])
}

fn requests(texts: &[&str]) -> Vec<Request> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn planned(texts: &[&str], remove: &[&str]) -> Plan {
    let file = installed::read(INSTALLED).unwrap();
    let catalog = catalog(&[("web", &[WEB]), ("cache", &[CACHE])]).with_hand_written(file.sources);
    let requests = requests(texts);
    let remove: Vec<PackageName> = remove.iter().map(|name| name.parse().unwrap()).collect();
    let wanted = Install {
        remove: &remove,
        ..Install::new(&requests, &file.state)
    };
    Plan::of(&install(&catalog, &wanted).unwrap(), &file.state)
}

#[test]
fn requirements_come_before_those_that_need_them_and_removals_first() {
    let plan = planned(&["web"], &["older", "old"]);
    let rows: Vec<String> = plan
        .changes
        .iter()
        .map(|change| format!("{} {}: {}", change.action, change.package, change.why[0]))
        .collect();
    assert_eq!(
        rows,
        [
            "remove old: requested",
            "remove older: requested",
            "keep db: required by web 2.0.0",
            "install local: required by web 2.0.0",
            "upgrade web: requested",
            "install cache: required by web 2.0.0 via cache",
        ]
    );
    assert!(!plan.is_nothing());
    assert_eq!(plan.counts()[&Action::Install], 2);
}

#[test]
fn the_notes_say_what_a_change_does() {
    let plan = planned(&["web"], &[]);
    let notes = |package: &str| {
        let change = plan.changes.iter().find(|c| c.package == package).unwrap();
        change
            .notes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        notes("web"),
        [
            "owns CRDs: sites.example.com, pages.example.com",
            "adds CRDs: pages.example.com; does not own any more: old.example.com",
            "needs cluster-wide permissions: get deployments in apps",
            "runs migrate before anything else changes",
            "not rollback-safe: when the upgrade fails, it must be mended, not taken back",
        ]
    );
    assert_eq!(
        notes("local"),
        ["a PackageSource written by hand decides the version, not a repository"]
    );
}

#[test]
fn the_json_form_is_stable() {
    let plan = planned(&["web"], &[]);
    let document = PlanDocument::from(&plan);
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["apiVersion"], PLAN_API_VERSION);
    let db = &json["changes"][0];
    assert_eq!(
        *db,
        serde_json::json!({
            "action": "keep",
            "package": "db",
            "from": {"version": "1.0.0", "build": 1, "variant": "small"},
            "to": {"version": "1.0.0", "build": 1, "variant": "small"},
            "requested": false,
            "why": [{"text": "required by web 2.0.0", "package": "web", "version": "2.0.0"}],
            "notes": [],
        })
    );
    let web = &json["changes"][2];
    assert_eq!(web["notes"][2]["kind"], "permissions");
    assert_eq!(web["notes"][2]["clusterWide"], true);
    let read: PlanDocument = serde_json::from_value(json).unwrap();
    assert_eq!(read, document);
}

#[test]
fn a_withdrawn_version_and_a_downgrade_are_noted() {
    let mut db = catalog(&[(
        "db",
        &[r#"{"version":"0.9.0","variants":[{"name":"small"}]}"#],
    )]);
    let mut source = db.sources()[0].clone();
    let index = Arc::make_mut(&mut source.index);
    index.packages.get_mut("db").unwrap().versions[0].withdrawn = Some(Withdrawn {
        since: Time::from_unix(0),
        reason: "loses data".to_owned(),
        replacement: Some("1.0.0".to_owned()),
        lifted: None,
    });
    db = Catalog::new(vec![source]);
    let mut state = installed::read(INSTALLED).unwrap().state;
    state.packages.retain(|name, _| name == "db");
    let requests = requests(&["db@0.9.0"]);
    let plan = Plan::of(
        &install(&db, &Install::new(&requests, &state)).unwrap(),
        &state,
    );
    assert_eq!(plan.changes[0].action, Action::Downgrade);
    let notes: Vec<_> = plan.changes[0]
        .notes
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        notes[..2],
        [
            "WITHDRAWN since 1970-01-01T00:00:00Z: loses data; use 1.0.0".to_owned(),
            "DOWNGRADE from 1.0.0".to_owned(),
        ]
    );
}

#[test]
fn a_file_of_installed_packages_is_read_strictly() {
    let file = installed::read(INSTALLED).unwrap();
    assert!(!file.state.packages["db"].ready && file.state.packages["web"].ready);
    assert_eq!(file.sources[0].name(), "local");
    let refused = |change: (&str, &str), part: &str| {
        let text = INSTALLED.replacen(change.0, change.1, 1);
        let error = installed::read(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused(("build: 1", "built: 1"), "built");
    refused(
        ("package: db, ", "package: db, capability: x, "),
        "either a package or a capability",
    );
    refused(("\">=1\"", "\">>1\""), "web requires db");
    refused(
        ("name: older, version: 1.0.0}", "name: old, version: 1.0.0}"),
        "old stands there twice",
    );
    refused(
        ("name: older, version: 1.0.0", "name: older, version: one"),
        "no version",
    );
    refused(("kind: PackageSource", "kind: Secret"), "kind \"Secret\"");
    refused(("kind: Installed", "kind: PackageSource"), "");
    refused(("v1\nkind: Installed", "v2\nkind: Installed"), "apiVersion");
    refused(("  variants: [", "  varieties: ["), "varieties");
}

#[test]
fn a_lock_gives_the_same_packages_again_or_says_what_differs() {
    let one =
        r#"{"version":"1.0.0","variants":[{"name":"default","requires":[{"package":"db"}]}]}"#;
    let two = one.replacen("1.0.0", "2.0.0", 1);
    let db = r#"{"version":"1.0.0","build":3}"#;
    let before = catalog(&[("app", &[one]), ("db", &[db])]);
    let wanted = requests(&["app"]);
    let state = State::default();
    let found = install(&before, &Install::new(&wanted, &state)).unwrap();
    let name = "https://r.example.com/index.yaml".to_owned();
    let indexes = [(name, Digest::sha256("index"))].into();
    let lock = Lock::of(&found, &before, &state, &indexes);
    let text = lock.write();
    assert_eq!(Lock::read(&text).unwrap(), lock, "{text}");

    // a newer version has come: the lock still gives the old one
    let after = catalog(&[("app", &[one, &two]), ("db", &[db])]);
    let with = Install {
        lock: Some(&lock),
        ..Install::new(&wanted, &state)
    };
    let again = install(&after, &with).unwrap();
    let none = BTreeMap::new();
    let relocked = Lock::of(&again, &after, &state, &none);
    assert_eq!(relocked.packages, lock.packages);
    let packed = Pack {
        lock: Some(&lock),
        ..Pack::new(&wanted)
    };
    assert_eq!(
        pack(&after, &packed).unwrap().packages[0].listed.version,
        "1.0.0"
    );

    let differs = |catalog: &Catalog| match install(catalog, &with).unwrap_err() {
        ResolveError::Lock(error) => error.to_string(),
        error => panic!("{error}"),
    };
    let gone = catalog(&[("app", &[&two]), ("db", &[db])]);
    assert!(differs(&gone).contains("app 1.0.0: the repository does not offer this version"));
    let changed = catalog(&[
        ("app", &[one]),
        ("db", &[r#"{"version":"1.0.0","build":3,"images":["x"]}"#]),
    ]);
    assert!(differs(&changed).contains("db 1.0.0 build 3: its spec is sha256:"));
    let mut other = before.sources()[0].clone();
    other.name = "https://other.example.com/index.yaml".to_owned();
    let other = Catalog::new(vec![other]);
    assert!(differs(&other).contains("https://other.example.com/index.yaml supplies it"));
    let error = differs(&Catalog::new(Vec::new()));
    assert!(
        error.contains("no repository carries the package"),
        "{error}"
    );
    assert!(matches!(Lock::read("kind: Lock"), Err(LockError::Yaml(_))));
    let later = text.replace("kubepkg.dev/v1", "kubepkg.dev/v9");
    assert!(matches!(Lock::read(&later), Err(LockError::Kind { .. })));
}
