//! Cases of `values-yaml.jsonl` whose outcome here is another one, and why that is well. Read
//! by the test that runs the file (`yaml.rs`) and by the one that lists all differences.

/// Texts that one of the two refuses and the other does not.
pub const DIFFERENT: &[(&str, &str)] = &[
    (
        "scalar \"a\\tb\\u00e9\\x41\\U0001F680\\/\"",
        "YAML 1.2 has the escape \\/",
    ),
    ("double quoted escapes", "YAML 1.2 has the escape \\/"),
    (
        "surrogate escape",
        "a pair of escapes is one character in JSON",
    ),
    (
        "tab after indent",
        "only Go refuses it; nobody reads something else",
    ),
    (
        "tab in block scalar",
        "only Go refuses it; nobody reads something else",
    ),
    (
        "directive 1.1",
        "no directive is taken: they change what a text means",
    ),
    (
        "tag directive",
        "no directive is taken: they change what a text means",
    ),
    (
        "duplicate via true",
        "true and \"true\" are one member; Go picks one at random",
    ),
];

/// A text that is deeper than our reader of the JSON beside it goes, and than our own limit.
pub const TOO_DEEP: (&str, &str) = (
    "deep nesting",
    "nested deeper than any reader here goes: it is refused before it is read",
);
