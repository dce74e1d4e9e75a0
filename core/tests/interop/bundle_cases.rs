//! The set's edits of a bundle of the existing program, one by one. Its layout is not read
//! here: our file is another one on purpose (a head that is checked before anything is stored,
//! no folders). So each case names the test that holds our file to the same promise.

use std::path::Path;

/// The case, the file of its counterpart, and the name of the test there.
pub const COUNTERPARTS: [(&str, &str, &str); 42] = [
    (
        "as-made",
        "tests/it/golden.rs",
        "the_bundle_is_verified_imported_and_served",
    ),
    ("manifest-as-json", HEAD, "a_head_is_written_in_one_way"),
    ("other-keys", TRUST, "a_wrong_key_trusts_nothing"),
    ("no-keys", TRUST, "without_a_key_nothing_begins"),
    (
        "plain-public-key-mode",
        "tests/it/trust.rs",
        "a_plain_key_is_no_way_around_a_root",
    ),
    ("swapped-chart", LIES, "content_is_what_its_digest_says"),
    (
        "package-not-in-index",
        LIES,
        "packages_are_those_of_the_signed_index",
    ),
    (
        "images-missing-from-list",
        LIES,
        "images_are_exactly_those_that_packages_pin",
    ),
    (
        "charts-missing-from-list",
        LIES,
        "charts_are_exactly_those_that_packages_pin",
    ),
    (
        "trees-missing-from-list",
        LIES,
        "trees_are_exactly_those_that_packages_pin",
    ),
    (
        "chart-file-missing",
        STRUCTURE,
        "members_lie_in_their_order_each_once",
    ),
    (
        "unused-chart",
        LIES,
        "charts_are_exactly_those_that_packages_pin",
    ),
    (
        "unused-tree",
        LIES,
        "trees_are_exactly_those_that_packages_pin",
    ),
    (
        "image-only-the-bundle-pins",
        LIES,
        "images_are_exactly_those_that_packages_pin",
    ),
    (
        "image-not-in-layout",
        LIES,
        "a_graph_is_whole_down_to_the_last_layer",
    ),
    (
        "image-tag-points-elsewhere",
        CLOSURE,
        "one_tag_never_points_at_two_manifests",
    ),
    (
        "package-from-absent-repository",
        HEAD,
        "parts_of_a_head_agree",
    ),
    (
        "digest-of-another-version",
        LIES,
        "packages_are_those_of_the_signed_index",
    ),
    (
        "version-text-differs",
        LIES,
        "packages_are_those_of_the_signed_index",
    ),
    (
        "index-missing",
        HEAD,
        "only_the_files_of_a_repository_are_allowed",
    ),
    (
        "signature-missing",
        TRUST,
        "an_unsigned_index_needs_the_users_word",
    ),
    (
        "first-root-missing",
        HEAD,
        "only_the_files_of_a_repository_are_allowed",
    ),
    (
        "index-changed",
        "tests/it/create_input.rs",
        "an_index_changed_after_signing",
    ),
    ("index-expired", TRUST, "an_index_has_its_time"),
    (
        "unknown-manifest-field",
        HEAD,
        "another_spelling_of_the_same_head_is_refused",
    ),
    ("other-kind", DAMAGE, "another_kind_of_file_is_no_bundle"),
    ("no-manifest", DAMAGE, "another_kind_of_file_is_no_bundle"),
    (
        "repository-name-leaves",
        HEAD,
        "an_extension_cannot_climb_out_of_its_folder",
    ),
    ("layer-damaged", LIES, "content_is_what_its_digest_says"),
    (
        "config-missing",
        LIES,
        "a_graph_is_whole_down_to_the_last_layer",
    ),
    (
        "entry-leaves",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-absolute",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-leaves-inside",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-backslash",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-dot-slash",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-double-slash",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-inner-dot-dot",
        STRUCTURE,
        "no_member_has_a_path_that_leaves_its_folder",
    ),
    (
        "entry-symlink",
        STRUCTURE,
        "no_member_is_a_link_a_device_or_a_pipe",
    ),
    (
        "entry-hardlink",
        STRUCTURE,
        "no_member_is_a_link_a_device_or_a_pipe",
    ),
    (
        "entry-fifo",
        STRUCTURE,
        "no_member_is_a_link_a_device_or_a_pipe",
    ),
    (
        "entry-device",
        STRUCTURE,
        "no_member_is_a_link_a_device_or_a_pipe",
    ),
    (
        "extra-file",
        STRUCTURE,
        "members_lie_in_their_order_each_once",
    ),
];

const HEAD: &str = "core/src/bundle/tests/head.rs";
const CLOSURE: &str = "core/src/bundle/tests/closure.rs";
const LIES: &str = "tests/it/refused/lies.rs";
const STRUCTURE: &str = "tests/it/refused/structure.rs";
const TRUST: &str = "tests/it/refused/trust.rs";
const DAMAGE: &str = "tests/it/refused/damage.rs";

#[test]
fn every_case_has_a_counterpart_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (case, file, test) in COUNTERPARTS {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        let named = format!("fn {test}()");
        assert!(source.contains(&named), "{case}: no {test} in {file}");
    }
}
