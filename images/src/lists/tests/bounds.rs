use super::super::{Form, MAX_BYTES, MAX_IMAGES, plain};
use super::*;

#[test]
fn an_empty_list_is_refused() {
    for text in [
        "",
        "\n \n# nginx\n",
        "---\n",
        "[]\n",
        "- \n- \n",
        "\u{FEFF}",
    ] {
        let told = faults(text);
        assert!(
            told[0].contains("the list names no image") || told[0].contains("there is nothing"),
            "{text:?}: {told:?}"
        );
    }
}

#[test]
fn other_documents_are_refused_with_their_line_and_what_is_known() {
    for (text, want) in [
        (
            "\n# a pod\napiVersion: v1\nkind: Pod\nspec: {containers: [{image: nginx}]}\n",
            "line 3: kind \"Pod\" of \"v1\" is no list of images",
        ),
        (
            "kind: List\n",
            "line 1: kind \"List\" without apiVersion is no list of images",
        ),
        (
            "apiVersion: v1\n",
            "line 1: a document of \"v1\" without kind is no list of images",
        ),
        (
            "services:\n  a: {image: nginx}\n",
            "line 1: a document without kind is no list",
        ),
        (
            "Note: these are the images\n",
            "line 1: a document without kind is no list",
        ),
        (
            "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\n",
            "line 1: kind \"DeleteImageSetConfiguration\" of",
        ),
        (
            "--- nginx\n",
            "line 1: neither a list nor a document of a kind that is known",
        ),
        (
            "[[nginx]]\n",
            "line 1: this is a list of something else than images",
        ),
    ] {
        let told = fault(text);
        assert!(told.starts_with(want), "{text}: {told}");
        let error = read(text.as_bytes(), "l").unwrap_err();
        assert!(
            error.faults[0].advice.contains("ZarfPackageConfig"),
            "{text}"
        );
        assert!(
            error.faults[0].advice.contains("kubepkg images FILE"),
            "{text}"
        );
    }
}

#[test]
fn one_file_has_one_form() {
    assert_eq!(
        fault("- nginx\n---\n- busybox\n"),
        "line 3: a second document follows a list in YAML or JSON"
    );
    let two = "kind: ZarfPackageConfig\ncomponents: [{name: a, images: [nginx]}]\n---\n\
               apiVersion: content.hauler.cattle.io/v1\nkind: Images\n";
    assert_eq!(
        fault(two),
        "line 4: a manifest of Hauler follows a package of Zarf in one file"
    );
}

#[test]
fn broken_yaml_names_its_line() {
    let told = fault("- nginx\n- [a\n");
    assert!(
        told.starts_with("line ") && told.contains("not YAML"),
        "{told}"
    );
    let told = fault("- nginx\n%YAML 1.2\n");
    assert!(told.starts_with("line "), "{told}");
    // each alias ten times the one before
    let mut bomb = "- &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("- &a{level} [{aliases}]\n"));
    }
    assert!(fault(&bomb).contains("its aliases repeat too much content"));
    let deep = format!("- {}{}\n", "[".repeat(1000), "]".repeat(1000));
    assert!(
        fault(&deep).contains("nested deeper than"),
        "{}",
        fault(&deep)
    );
}

#[test]
fn texts_of_windows_are_read_and_bytes_are_not() {
    let text = "nginx\r\nbusybox:1\r\n";
    let little: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let big: Vec<u8> = [0xFE, 0xFF]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_be_bytes))
        .collect();
    for bytes in [&little, &big] {
        let list = read(bytes, "l").unwrap();
        assert_eq!(images(&list), [("nginx", 1), ("busybox:1", 2)]);
        assert_eq!(list.form, Form::Plain);
    }
    for bytes in [
        &little[..little.len() - 1],
        b"nginx\n\xff\n",
        b"\x1f\x8b\x08\0\0",
    ] {
        let error = read(bytes, "l").unwrap_err();
        assert_eq!(error.to_string(), "the list is no text in UTF-8: l");
    }
    let error = read(b"nginx\nb\0\n", "l").unwrap_err();
    assert!(
        error.to_string().starts_with("line 2: a control character"),
        "{error}"
    );
}

#[test]
fn everything_is_bounded() {
    let error = read(&vec![b'#'; MAX_BYTES + 1], "l").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the list is larger than 16777216 bytes: l"
    );
    assert!(read(&[b"nginx\n#".as_slice(), &vec![b'#'; 1000]].concat(), "l").is_ok());
    let long = format!("nginx\nb # {}\n", "x".repeat(plain::MAX_LINE));
    assert_eq!(fault(&long), "line 2: the line is longer than 65536 bytes");
    let many = |count: usize| -> String { (0..count).map(|n| format!("i{n}\n")).collect() };
    assert_eq!(taken(&many(MAX_IMAGES)).images.len(), MAX_IMAGES);
    let error = read(many(MAX_IMAGES + 3).as_bytes(), "l").unwrap_err();
    assert_eq!(error.faults.len() + error.more, 3);
    assert_eq!(
        error.faults[0].to_string(),
        "line 100001: more than 100000 images are named"
    );
    // notes too: as many components as one likes, each with a name of its own
    let zarf: String = (0..200)
        .map(|n| format!("- {{name: c{n}, only: {{flavor: f}}, images: [a{n}]}}\n"))
        .collect();
    let list = taken(&format!("kind: ZarfPackageConfig\ncomponents:\n{zarf}"));
    assert_eq!(list.notes.len(), 51);
    assert_eq!(list.notes[50], "and 150 more of that kind");
    // a key given twice in each of very many documents
    let doubled = "{a: 1, a: 2}\n---\n".repeat(100_000);
    assert_eq!(fault(&doubled), "line 1: \"a\" is given twice");
    // what is shown of a text is short, and harmless
    let told = fault(&format!("{}\u{202e}\n", "x y".repeat(500)));
    assert!(told.len() < 300 && !told.contains('\u{202e}'), "{told}");
}
