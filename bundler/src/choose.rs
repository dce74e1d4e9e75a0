//! Which packages go into the bundle, and what they pin.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::Digest;
use kubepkg_core::api::PackageSourceSpec;
use kubepkg_core::bundle::head::HeadPackage;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::lock::Lock;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::Pins;
use kubepkg_core::resolve::{Pack, Request, Resolution, Variants, pack};
use kubepkg_core::select::{Catalog, Source};

use crate::CreateError;
use crate::repositories::Loaded;

/// A package that goes into the bundle.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// As the head lists it.
    pub head: HeadPackage,
    /// Why it is there, e.g. `requested` or `required by web 1.0.0`.
    pub why: Vec<String>,
    spec: PackageSourceSpec,
}

/// The packages and what should be said about the choice.
#[derive(Debug, Default)]
pub struct Choice {
    /// The packages, by name.
    pub packages: Vec<Chosen>,
    /// Withdrawn versions, what a lock leaves open, capabilities the cluster must offer,
    /// conflicts, optional packages that nobody has.
    pub warnings: Vec<String>,
}

/// Chooses packages for `requests` and everything they require.
pub fn choose(
    repositories: &[Loaded],
    requests: &[Request],
    variants: &Variants,
    with_optional: bool,
    lock: Option<&Lock>,
) -> Result<Choice, CreateError> {
    let source = |loaded: &Loaded| Source {
        name: loaded.url.to_string(),
        priority: loaded.priority,
        index: loaded.index.clone(),
    };
    let catalog = Catalog::new(repositories.iter().map(source).collect());
    let wanted = Pack {
        variants,
        with_optional,
        lock,
        ..Pack::new(requests)
    };
    let resolution = pack(&catalog, &wanted).map_err(Box::new)?;
    let specs = resolution
        .packages
        .iter()
        .map(|chosen| chosen.listed.spec());
    known_variants(specs, variants)?;
    let mut packages = Vec::with_capacity(resolution.packages.len());
    for chosen in &resolution.packages {
        let loaded = repositories
            .iter()
            .find(|loaded| loaded.url.as_str() == chosen.source.name);
        let Some(loaded) = loaded else { continue };
        let spec = chosen.listed.spec();
        packages.push(Chosen {
            head: HeadPackage {
                name: chosen.name.parse()?,
                version: chosen.listed.version.clone(),
                build: chosen.listed.build,
                digest: chosen.listed.digest,
                repository: loaded.url.clone(),
                variants: chosen.variants.clone(),
                no_images: false,
            },
            why: chosen.why.iter().map(ToString::to_string).collect(),
            spec: spec.clone(),
        });
    }
    let mut warnings = withdrawn(&resolution);
    if let Some(lock) = lock {
        warnings.extend(left_open(lock, repositories));
    }
    for unmet in &resolution.capabilities {
        warnings.push(format!(
            "{} ({}) must be offered by the cluster",
            unmet.what, unmet.by
        ));
    }
    for unmet in &resolution.missing_optional {
        let nobody = match lock {
            Some(_) => "the lock does not name it",
            None => "no repository has it",
        };
        warnings.push(format!(
            "{} ({}) is optional, and {nobody}",
            unmet.what, unmet.by
        ));
    }
    for clash in &resolution.conflicts {
        warnings.push(format!(
            "{} and {} cannot be installed together",
            clash.package, clash.with
        ));
    }
    Ok(Choice { packages, warnings })
}

/// What is said of versions that their publishers withdrew and that are taken all the same.
fn withdrawn(resolution: &Resolution<'_>) -> Vec<String> {
    let chosen = resolution.packages.iter();
    let withdrawn = chosen.filter_map(|chosen| {
        let withdrawn = chosen.listed.withdrawn.as_ref()?;
        let mut text = format!(
            "{} {} is withdrawn by its publisher since {}: {}",
            chosen.name, chosen.listed.version, withdrawn.since, withdrawn.reason
        );
        if let Some(replacement) = &withdrawn.replacement {
            text = format!("{text}; use {}@{replacement}", chosen.name);
        }
        withdrawn.holds().then_some(text)
    });
    withdrawn.collect()
}

/// What a lock does not settle: packages from elsewhere, and indexes that are others by now.
fn left_open(lock: &Lock, repositories: &[Loaded]) -> Vec<String> {
    let outside = lock.outside.iter().map(|(package, outside)| {
        let version = match outside.version.as_str() {
            "" => String::new(),
            version => format!(" {version}"),
        };
        format!(
            "{package}{version} is needed and not in the bundle; the lock says: {}",
            outside.why
        )
    });
    let mut said: Vec<String> = outside.collect();
    let index = |loaded: &Loaded| {
        let mut files = loaded.files.iter();
        let (_, bytes) = files.find(|(path, _)| path == loaded.url.file_name())?;
        Some((loaded.url.to_string(), Digest::sha256(bytes)))
    };
    let now: BTreeMap<String, Digest> = repositories.iter().filter_map(index).collect();
    said.extend(lock.other_indexes(&now).map(|url| {
        format!(
            "{url} has another index than the one the lock was made from; every locked version \
             is in it as locked"
        )
    }));
    said
}

/// A variant that no package has is a slip of the pen: nothing it should bring would come.
fn known_variants<'s>(
    specs: impl Iterator<Item = &'s PackageSourceSpec>,
    variants: &Variants,
) -> Result<(), CreateError> {
    let Variants::Named(names) = variants else {
        return Ok(());
    };
    let known: BTreeSet<&str> = specs
        .flat_map(|spec| &spec.variants)
        .map(|variant| variant.name.as_str())
        .collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(CreateError::NoVariant {
            name: name.clone(),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// What the chosen packages pin. Marks those that have no images; `no_images` must name
/// exactly these.
pub fn pins(packages: &mut [Chosen], no_images: &[PackageName]) -> Result<Pins, CreateError> {
    let mut pins = Pins::default();
    for chosen in packages.iter() {
        pins.add(&chosen.head.name, &chosen.spec)?;
    }
    for name in no_images {
        if !packages.iter().any(|chosen| chosen.head.name == *name) {
            return Err(CreateError::NeedlessNoImages(
                name.clone(),
                "this package is not in the bundle",
            ));
        }
        if !pins.without_images.contains(name) {
            return Err(CreateError::NeedlessNoImages(
                name.clone(),
                "this package names its images",
            ));
        }
    }
    let unsaid: Vec<PackageName> = pins
        .without_images
        .iter()
        .filter(|name| !no_images.contains(name))
        .cloned()
        .collect();
    if !unsaid.is_empty() {
        return Err(CreateError::NoImages(unsaid));
    }
    for chosen in packages {
        chosen.head.no_images = pins.without_images.contains(&chosen.head.name);
    }
    Ok(pins)
}

/// The repositories some chosen package comes from; only these travel.
pub fn used<'l>(repositories: &'l [Loaded], packages: &[Chosen]) -> Vec<&'l Loaded> {
    let urls: BTreeSet<&CanonicalUrl> = packages
        .iter()
        .map(|chosen| &chosen.head.repository)
        .collect();
    repositories
        .iter()
        .filter(|loaded| urls.contains(&loaded.url))
        .collect()
}

#[cfg(test)]
mod tests {
    use kubepkg_core::error::Classify as _;
    use kubepkg_core::index::Index;
    use kubepkg_core::time::Time;
    use kubepkg_test_support::Package;
    use kubepkg_test_support::package::index;

    use super::*;

    /// An index of these packages, as loaded from `url`.
    fn loaded(url: &str, priority: i32, packages: &[Package]) -> Loaded {
        let text = index(packages, Time::from_unix(0), None);
        Loaded {
            url: url.parse().unwrap(),
            priority,
            index: Index::read(&text).unwrap().into(),
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn requests(texts: &[&str]) -> Vec<Request> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_choice_says_where_from_and_why() {
        let first = [Package::new("db", "1.0.0")];
        let second = [
            Package::new("db", "2.0.0"),
            Package::new("web", "1.0.0").requires("db", ""),
        ];
        let repositories = [
            loaded("https://a.example/index.yaml", 2, &first),
            loaded("https://b.example/index.yaml", 1, &second),
            loaded("https://c.example/index.yaml", 0, &second),
        ];
        let choice = choose(
            &repositories,
            &requests(&["web"]),
            &Variants::All,
            false,
            None,
        )
        .unwrap();
        let shown: Vec<_> = choice
            .packages
            .iter()
            .map(|chosen| {
                let head = &chosen.head;
                let from = head.repository.host();
                (head.name.as_str(), &*head.version, from, &*chosen.why[0])
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("db", "1.0.0", "a.example", "required by web 1.0.0"),
                ("web", "1.0.0", "b.example", "requested"),
            ]
        );
        // a repository nothing is taken from does not travel
        let used = used(&repositories, &choice.packages);
        let hosts: Vec<&str> = used.iter().map(|loaded| loaded.url.host()).collect();
        assert_eq!(hosts, ["a.example", "b.example"]);
    }

    #[test]
    fn variants_are_those_that_were_named() {
        let package = Package::new("web", "1.0.0").variant("ha");
        let repositories = [loaded("https://a.example/index.yaml", 1, &[package])];
        let variants = |variants: &Variants| {
            let choice = choose(&repositories, &requests(&["web"]), variants, false, None)?;
            Ok::<_, CreateError>(choice.packages[0].head.variants.clone())
        };
        let named = |name: &str| Variants::Named(vec![name.to_owned()]);
        assert_eq!(variants(&Variants::All).unwrap(), ["default", "ha"]);
        assert_eq!(variants(&named("ha")).unwrap(), ["ha"]);
        let error = variants(&named("hA")).unwrap_err();
        assert_eq!(
            error.hint().unwrap(),
            "there is --variant default, --variant ha"
        );
    }

    #[test]
    fn a_withdrawn_version_that_was_asked_for_is_said_with_its_reason() {
        let mut repository = loaded(
            "https://a.example/index.yaml",
            1,
            &[Package::new("web", "1.0.0"), Package::new("web", "2.0.0")],
        );
        let mut index = (*repository.index).clone();
        let versions = &mut index.packages.get_mut("web").unwrap().versions;
        let old = versions.iter_mut().find(|listed| listed.version == "1.0.0");
        old.unwrap().withdrawn = Some(kubepkg_core::index::Withdrawn {
            since: Time::from_unix(0),
            reason: "loses data".to_owned(),
            replacement: Some("2.0.0".to_owned()),
            lifted: None,
        });
        repository.index = index.into();
        let repositories = [repository];
        let said = |request: &str| {
            let requests = requests(&[request]);
            let choice = choose(&repositories, &requests, &Variants::All, false, None);
            choice.unwrap().warnings
        };
        assert_eq!(
            said("web@1.0.0"),
            [
                "web 1.0.0 is withdrawn by its publisher since 1970-01-01T00:00:00Z: loses data; \
                 use web@2.0.0"
            ]
        );
        assert!(said("web").is_empty());
    }

    #[test]
    fn no_images_is_said_of_exactly_those_without() {
        let digest = Digest::sha256("x");
        let chart = |name: &str| {
            let charts = "https://charts.example";
            Package::new(name, "1.0.0").chart(charts, name, "1.0.0", Some(digest))
        };
        let packages = [
            chart("bare"),
            chart("web").image(&format!("ghcr.io/a/web:1@{digest}")),
            Package::new("nothing", "1.0.0"),
        ];
        let repositories = [loaded("https://a.example/index.yaml", 1, &packages)];
        let all = requests(&["bare", "web", "nothing"]);
        let pinned = |no_images: &[&str]| {
            let choice = choose(&repositories, &all, &Variants::All, false, None).unwrap();
            let mut packages = choice.packages;
            let names: Vec<PackageName> = no_images.iter().map(|n| n.parse().unwrap()).collect();
            pins(&mut packages, &names).map(|_| {
                let without = packages.iter().filter(|chosen| chosen.head.no_images);
                let names = without.map(|chosen| chosen.head.name.to_string());
                names.collect::<Vec<_>>()
            })
        };
        assert!(matches!(pinned(&[]), Err(CreateError::NoImages(names)) if names.len() == 1));
        assert_eq!(pinned(&["bare"]).unwrap(), ["bare"]);
        for needless in ["web", "nothing", "other"] {
            assert!(matches!(
                pinned(&["bare", needless]),
                Err(CreateError::NeedlessNoImages(..))
            ));
        }
    }
}
