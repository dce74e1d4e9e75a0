//! What operators do by hand: weigh, look, remove, tag, copy.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::progress::Silent;
use kubepkg_core::store::{Cause, Store};
use kubepkg_mirror::manage::{
    Closure, ManageError, copy, removal, remove, stat, stat_store, tag, usages,
};
use kubepkg_mirror::route::Target;
use kubepkg_mirror::store::check::CheckSettings;

use crate::site::{APP, Site, WEB, bring};
use crate::support::{commit, noise, now};

fn by_tag(text: &str) -> Target {
    Target::Tag(text.parse().unwrap())
}

#[test]
fn what_two_repositories_need_is_shared() {
    let site = Site::new();
    let names = now(site.store.names()).unwrap();
    let usages = usages(&names, |_| true);
    let seen: Vec<_> = usages.iter().map(|u| (u.name.as_str(), u.shared)).collect();
    // the layer and the config
    assert_eq!(seen, [(WEB, 300_002), (APP, 300_002)]);
    assert!(usages[1].own > 5000 && usages[1].own < 6000);
}

#[test]
fn a_reference_is_told_with_all_that_belongs_to_it() {
    let site = Site::new();
    let web = WEB.parse().unwrap();
    let told = now(stat(&site.store, &web, &by_tag("1"))).unwrap();
    assert_eq!(told.digest, site.index);
    let here: Vec<bool> = told.children.iter().map(|(_, here)| *here).collect();
    assert_eq!(here, [true, false]);
    assert_eq!(told.referrers.len(), 1);
    assert_eq!(told.brought.unwrap().commit, 1);
    assert_eq!(told.shared, 300_002);
    assert!(told.own > 0 && told.own < 3000);
    let told = now(stat(&site.store, &web, &Target::Digest(site.manifest))).unwrap();
    assert_eq!(told.blobs.len(), 2);
    let missing = now(stat(&site.store, &web, &by_tag("2"))).unwrap_err();
    assert!(matches!(missing, ManageError::NotFound { .. }), "{missing}");
    let whole = now(stat_store(&site.store)).unwrap();
    assert_eq!(
        (whole.repositories, whole.tags, whole.manifests, whole.blobs),
        (2, 2, 4, 3)
    );
    assert!(whole.bytes < whole.bytes_unshared);
}

#[test]
fn removing_a_tag_takes_what_only_it_leads_to() {
    let site = Site::new();
    let web = WEB.parse().unwrap();
    let names = now(site.store.names()).unwrap();
    let plan = removal(
        &mut Closure::new(&site.store),
        &names,
        &web,
        &by_tag("1"),
        false,
    )
    .unwrap();
    // index, image and signature; the layer is needed by the other repository
    assert_eq!((plan.manifests.len(), plan.blobs.len()), (3, 2));
    assert_eq!(plan.garbage.len(), 3);
    assert!(!plan.garbage.contains_key(&site.layer));

    let (number, removed) = now(remove(&site.store, &web, &by_tag("1"), false)).unwrap();
    assert_eq!(removed.garbage, plan.garbage);
    let repository = now(site.store.repository(&web)).unwrap().unwrap();
    assert!(repository.tags.is_empty() && repository.manifests.is_empty());
    assert!(repository.blobs.is_empty());
    let record = now(site.store.record(number)).unwrap().unwrap();
    assert_eq!(
        record.cause,
        Cause::Command {
            verb: "rm".to_owned()
        }
    );
    // the bytes stay until they are collected
    assert!(now(site.store.stat(&site.index)).unwrap().is_some());
    let settings = CheckSettings::default();
    let checked = site
        .store
        .check(&settings, &Silent, &AtomicBool::new(false))
        .unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    assert_eq!(checked.unreferenced.files, 3);
}

#[test]
fn a_second_tag_keeps_everything() {
    let site = Site::new();
    let web = WEB.parse().unwrap();
    now(tag(
        &site.store,
        &web,
        &by_tag("1"),
        &"stable".parse().unwrap(),
        false,
    ))
    .unwrap();
    let (_, removed) = now(remove(&site.store, &web, &by_tag("1"), false)).unwrap();
    assert!(removed.manifests.is_empty() && removed.blobs.is_empty());
    let told = now(stat(&site.store, &web, &by_tag("stable"))).unwrap();
    assert_eq!(told.digest, site.index);
    assert_eq!(told.origin, None);
}

#[test]
fn what_an_index_or_a_tag_needs_is_removed_by_force_only() {
    let site = Site::new();
    let web = WEB.parse().unwrap();
    for digest in [site.manifest, site.index] {
        let target = Target::Digest(digest);
        let refused = now(remove(&site.store, &web, &target, false)).unwrap_err();
        assert!(matches!(refused, ManageError::Needed { .. }), "{refused}");
    }
    let image = Target::Digest(site.manifest);
    let (_, removed) = now(remove(&site.store, &web, &image, true)).unwrap();
    assert_eq!(removed.manifests.len(), 1);
    assert!(removed.tags.is_empty());
    let index = Target::Digest(site.index);
    let (_, removed) = now(remove(&site.store, &web, &index, true)).unwrap();
    assert_eq!(removed.tags.len(), 1);
}

#[test]
fn a_tag_is_moved_by_force_only() {
    let site = Site::new();
    let web = WEB.parse().unwrap();
    let (image, new) = (Target::Digest(site.manifest), "1".parse().unwrap());
    let refused = now(tag(&site.store, &web, &image, &new, false)).unwrap_err();
    assert!(matches!(refused, ManageError::Taken { .. }), "{refused}");
    assert!(
        now(tag(&site.store, &web, &image, &new, true))
            .unwrap()
            .commit
            .is_some()
    );
    // and what is so already is no commit
    assert!(
        now(tag(&site.store, &web, &image, &new, false))
            .unwrap()
            .commit
            .is_none()
    );
}

#[test]
fn a_copy_has_the_same_digests_and_brings_its_signatures() {
    let site = Site::new();
    let (web, to) = (WEB.parse().unwrap(), "site.example/web".parse().unwrap());
    let one = "1".parse().unwrap();
    let bytes = || {
        let settings = CheckSettings::default();
        let checked = site
            .store
            .check(&settings, &Silent, &AtomicBool::new(false))
            .unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        checked.content
    };
    let before = bytes();
    let copied = now(copy(
        &site.store,
        (&web, &by_tag("1")),
        (&to, Some(&one)),
        false,
    ))
    .unwrap();
    assert_eq!(
        (copied.digest, copied.manifests, copied.blobs),
        (site.index, 3, 2)
    );
    assert_eq!(bytes(), before, "no content is copied");
    let told = now(stat(&site.store, &to, &by_tag("1"))).unwrap();
    assert_eq!(told.referrers.len(), 1);
    assert_eq!(told.referrers[0].0, site.signature);
    let again = now(copy(
        &site.store,
        (&web, &by_tag("1")),
        (&to, Some(&one)),
        false,
    ))
    .unwrap();
    assert_eq!(again.commit, None);
    let _ = APP;
}

#[test]
fn removing_beside_other_commits_loses_neither() {
    let site = Site::new();
    let (web, app) = (WEB.parse().unwrap(), APP.parse().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..20 {
                let new = format!("t{n}").parse().unwrap();
                now(tag(&site.store, &app, &by_tag("2"), &new, false)).unwrap();
            }
        });
        for n in 0..20 {
            let new = format!("u{n}");
            now(tag(
                &site.store,
                &web,
                &by_tag("1"),
                &new.parse().unwrap(),
                false,
            ))
            .unwrap();
            now(remove(&site.store, &web, &by_tag(&new), false)).unwrap();
        }
    });
    assert_eq!(
        now(site.store.repository(&app))
            .unwrap()
            .unwrap()
            .tags
            .len(),
        21
    );
    assert_eq!(
        now(site.store.repository(&web))
            .unwrap()
            .unwrap()
            .tags
            .len(),
        1
    );
}

#[test]
fn what_a_manifest_that_cannot_be_read_may_need_stays() {
    let site = Site::new();
    let web: RepositoryName = WEB.parse().unwrap();
    // shares its layer with the image of the index
    let (config, layer) = (Bytes::from_static(b"{}"), noise(1, 300_000));
    let (second, mut changes) = bring(&site.store, WEB, &config, &[&layer, &noise(7, 10)]);
    changes.push(crate::support::tag(WEB, "2", second));
    now(commit(&site.store, changes)).unwrap();
    let plan = |target: &Target, force: bool| {
        let names = now(site.store.names()).unwrap();
        removal(&mut Closure::new(&site.store), &names, &web, target, force)
    };
    let sound = plan(&by_tag("2"), false).unwrap();
    assert_eq!((sound.manifests.len(), sound.blobs.len()), (1, 1));
    assert_eq!(sound.unjudged, None);

    // an image that cannot be read may need any blob, but no manifest
    std::fs::write(site.blob(&site.manifest), "{").unwrap();
    let beside = plan(&by_tag("2"), false).unwrap();
    assert_eq!((beside.manifests.len(), beside.blobs.len()), (1, 0));
    assert_eq!(beside.unjudged, Some(site.manifest));
    let own = plan(&Target::Digest(site.manifest), true).unwrap();
    assert_eq!(own.unjudged, None, "it does not stay");

    // an index may list any manifest
    std::fs::write(site.blob(&site.index), "{").unwrap();
    let beside = plan(&by_tag("2"), false).unwrap();
    assert_eq!((beside.tags.len(), beside.manifests.len()), (1, 0));
    assert!(beside.blobs.is_empty() && beside.unjudged.is_some());
    let by_digest = Target::Digest(second);
    let forced = plan(&by_digest, true).unwrap();
    assert_eq!((forced.tags.len(), forced.manifests.len()), (1, 1));
    now(remove(&site.store, &web, &by_tag("2"), false)).unwrap();
    let refused = plan(&by_digest, false).unwrap_err().to_string();
    assert!(refused.contains("cannot be read"), "{refused}");
}
