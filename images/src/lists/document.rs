//! YAML and JSON: which form a document has, and the members of maps with their lines.

use kubepkg_core::yaml::strict::Document;
use kubepkg_core::yaml::{Limits, Node, Value};

use super::gather::Gather;
use super::looks::brief;
use super::{Form, MAX_BYTES, hauler, helm_images, openshift, own, zarf};
use crate::walk::child;

/// Bounds of one document: as many images as a list may name, with their members.
pub(super) const LIMITS: Limits = Limits {
    bytes: MAX_BYTES,
    depth: 64,
    nodes: 2_000_000,
    expansion: 4 * 1024 * 1024,
};

/// What a refusal of a form says.
const KNOWN: &str = "known are one image a line, Rancher's lists, YAML and JSON lists of images, \
                     Hauler's Images and Charts, ZarfPackageConfig, ImageSetConfiguration, and the \
                     answers of helm images, kubepkg images and kubepkg mirror wanted; the images that manifests and \
                     charts run are listed by kubepkg images FILE -o images";

/// Reads the images of all documents; `None` where one has no form.
pub(super) fn read(text: &str, documents: &[Document<'_>], gather: &mut Gather) -> Option<Form> {
    let mut reader = Reader {
        lines: Lines::of(text),
        gather,
    };
    let mut form = None;
    for document in documents {
        if let Some(error) = document.duplicate() {
            // Which of the two counts depends on the reader. One such place is enough: each costs
            // a walk over the whole text.
            reader.gather.yaml(&error);
            return None;
        }
        let root = document.root();
        let found = reader.form(root)?;
        match form {
            None => form = Some(found),
            Some(first) if first == found && found == Form::Hauler => {}
            Some(first) => {
                let what = match first == found {
                    true => format!("a second document follows {}", found.name()),
                    false => format!("{} follows {} in one file", found.name(), first.name()),
                };
                reader.fault(root, what, "put each into a file of its own");
                continue;
            }
        }
        match found {
            Form::Hauler => hauler::read(&mut reader, root),
            Form::Zarf => zarf::read(&mut reader, root),
            Form::OcMirror => openshift::read(&mut reader, root),
            Form::HelmImages => helm_images::read(&mut reader, root),
            Form::Kubepkg => own::read(&mut reader, root),
            Form::Wanted => own::read_wanted(&mut reader, root),
            Form::Strings | Form::Plain | Form::RancherSources => strings(&mut reader, root),
        }
    }
    form
}

/// A list of references.
pub(super) fn strings(reader: &mut Reader<'_>, node: &Node<'_>) {
    let Value::List(items) = &node.value else {
        return;
    };
    for item in items {
        if let Some(text) = reader.as_text(item, "an image") {
            reader.gather.image(reader.lines.of_node(item), text, None);
        }
    }
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(breaks.map(|(at, _)| at).collect())
    }

    fn of_node(&self, node: &Node<'_>) -> usize {
        1 + self.0.partition_point(|at| *at < node.offset())
    }
}

/// Reads the members of a document, and tells what is wrong with them.
pub(super) struct Reader<'g> {
    lines: Lines,
    pub(super) gather: &'g mut Gather,
}

impl Reader<'_> {
    /// The line a value begins on.
    pub(super) fn line(&self, node: &Node<'_>) -> usize {
        self.lines.of_node(node)
    }

    /// Something that is wrong with a value.
    pub(super) fn fault(&mut self, node: &Node<'_>, what: impl Into<String>, advice: &str) {
        self.gather.fault(self.lines.of_node(node), what, advice);
    }

    /// Something a value says that is not done here.
    pub(super) fn note(&mut self, node: &Node<'_>, what: impl Into<String>) {
        self.gather.note(self.lines.of_node(node), what);
    }

    /// The form of a document; `None` where it has none, and that is told.
    fn form(&mut self, root: &Node<'_>) -> Option<Form> {
        let word = |name| match child(root, name).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text.as_ref()),
            _ => None,
        };
        let (group, kind) = (
            word("apiVersion").map(|version| version.split('/').next().unwrap_or_default()),
            word("kind"),
        );
        let found = match (group, kind) {
            (Some("content.hauler.cattle.io" | "collection.hauler.cattle.io"), _) => {
                Some(Form::Hauler)
            }
            (Some("zarf.dev") | None, Some("ZarfPackageConfig" | "ZarfInitConfig")) => {
                Some(Form::Zarf)
            }
            (Some("mirror.openshift.io"), Some("ImageSetConfiguration")) => Some(Form::OcMirror),
            (None, None) => bare(root),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        let what = match (word("apiVersion"), kind) {
            (Some(version), Some(kind)) => format!(
                "kind {} of {} is no list of images",
                brief(kind),
                brief(version)
            ),
            (Some(version), None) => {
                format!(
                    "a document of {} without kind is no list of images",
                    brief(version)
                )
            }
            (None, Some(kind)) => {
                format!(
                    "kind {} without apiVersion is no list of images",
                    brief(kind)
                )
            }
            (None, None) => match &root.value {
                Value::List(_) => "this is a list of something else than images",
                Value::Map(_) => "a document without kind is no list of images",
                _ => "neither a list nor a document of a kind that is known",
            }
            .to_owned(),
        };
        self.fault(root, what, KNOWN);
        None
    }

    /// The member called `name`. One that differs in case is another one for most tools, and a
    /// slip of the pen for people: it is told.
    pub(super) fn member<'n, 'a>(
        &mut self,
        node: &'n Node<'a>,
        name: &str,
    ) -> Option<&'n Node<'a>> {
        let Value::Map(entries) = &node.value else {
            return None;
        };
        for (key, value) in entries {
            if key != name && key.eq_ignore_ascii_case(name) {
                let what = format!("{} is not {name}", brief(key));
                self.fault(
                    value,
                    what,
                    "write the names of members in the case they have",
                );
            }
        }
        child(node, name).filter(|member| member.value != Value::Null)
    }

    /// The items of the list called `name`; none where there is none.
    pub(super) fn list<'n, 'a>(&mut self, node: &'n Node<'a>, name: &str) -> &'n [Node<'a>] {
        match self.member(node, name) {
            None => &[],
            Some(Node {
                value: Value::List(items),
                ..
            }) => items,
            Some(other) => {
                self.fault(other, format!("{name} is no list"), "write a list there");
                &[]
            }
        }
    }

    /// The map called `name`.
    pub(super) fn map<'n, 'a>(&mut self, node: &'n Node<'a>, name: &str) -> Option<&'n Node<'a>> {
        let found = self.member(node, name)?;
        match found.value {
            Value::Map(_) => Some(found),
            _ => {
                self.fault(found, format!("{name} is no map"), "write a map there");
                None
            }
        }
    }

    /// The text called `name`.
    pub(super) fn text<'n>(&mut self, node: &'n Node<'_>, name: &str) -> Option<&'n str> {
        let found = self.member(node, name)?;
        self.as_text(found, name)
    }

    /// A value as text. A number is none: YAML readers write 1.10 out as 1.1.
    pub(super) fn as_text<'n>(&mut self, node: &'n Node<'_>, name: &str) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            Value::Null => {
                let advice = "write it, or take the place away";
                self.fault(
                    node,
                    format!("{name} is wanted, and there is nothing"),
                    advice,
                );
                None
            }
            Value::List(_) | Value::Map(_) => {
                self.fault(node, format!("{name} is no text"), "write one text there");
                None
            }
            _ => {
                let what = format!("{name} is a number or a boolean for YAML");
                self.fault(node, what, "put it into quotes");
                None
            }
        }
    }

    /// Notes the members that the form does not have: they may be slips of the pen.
    pub(super) fn unknown(&mut self, node: &Node<'_>, known: &[&[&str]]) {
        let Value::Map(entries) = &node.value else {
            return;
        };
        for (key, value) in entries {
            if !known.iter().any(|names| names.contains(&key.as_ref())) {
                self.note(
                    value,
                    format!("the member {} is not known, and passed over", brief(key)),
                );
            }
        }
    }

    /// Whether the member called `name` says something: it is there, and neither empty nor false.
    pub(super) fn says(&mut self, node: &Node<'_>, name: &str) -> bool {
        self.member(node, name)
            .is_some_and(|found| match &found.value {
                Value::Text(text) => !text.is_empty(),
                Value::List(items) => !items.is_empty(),
                Value::Map(entries) => !entries.is_empty(),
                Value::Bool(yes) => *yes,
                _ => true,
            })
    }
}

/// The form of a document without apiVersion and kind.
fn bare(root: &Node<'_>) -> Option<Form> {
    match &root.value {
        Value::List(items) => match items.first().map(|item| &item.value) {
            // not each object runs images
            Some(Value::Map(_)) => items
                .iter()
                .any(|item| child(item, "image").is_some())
                .then_some(Form::HelmImages),
            Some(Value::List(_)) => None,
            _ => Some(Form::Strings),
        },
        Value::Map(_) if own::is_wanted(root) => Some(Form::Wanted),
        Value::Map(_) => own::is_one(root).then_some(Form::Kubepkg),
        _ => None,
    }
}
