//! Every document of a text, every value of a document.

use std::collections::HashSet;

use kubepkg_core::error::shown;
use kubepkg_core::yaml::{Node, Value};

use crate::documents::{Document, Unread, split};
use crate::found::{Findings, How, Place, Sighting};
use crate::plausible::{Expect, Verdict, judge};
use crate::rules::{Rules, element, member};
use crate::words::{self, Named};
use crate::{crd, embedded, environment, salvage, shape};

/// Lists of containers, in pods and in whatever holds the template of one.
const CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];

/// Lists of words that a container is started with.
const ARGUMENTS: &[&str] = &["args", "command", "extraArgs", "additionalArgs"];

/// Members that only say something about others.
const ABOUT: &[&str] = &["labels", "matchLabels", "managedFields", "description"];

/// Finds the images in the documents of `text`, which is `source`: a file, or what Helm rendered.
pub fn walk(source: &str, text: &str, rules: &Rules) -> Findings {
    let mut findings = Findings::default();
    for document in split(text) {
        let mut walker = Walker::new(source, &document, rules);
        match document.read(source) {
            Ok(roots) => roots.iter().for_each(|root| walker.document(root, "")),
            Err(unread) => {
                walker.findings.unread.push(unread);
                walker.lines(document.text, "", How::Possible);
            }
        }
        findings.merge(walker.findings);
    }
    findings
}

/// Goes over one document and what is embedded in it.
pub(crate) struct Walker<'r> {
    pub(crate) rules: &'r Rules,
    findings: Findings,
    source: String,
    line: usize,
    object: String,
    /// Places that are not looked at.
    ignored: HashSet<String>,
    /// Documents within documents.
    pub(crate) depth: usize,
    /// Nothing found here is surer than this.
    pub(crate) at_best: How,
}

impl<'r> Walker<'r> {
    fn new(source: &str, document: &Document<'_>, rules: &'r Rules) -> Walker<'r> {
        Walker {
            rules,
            findings: Findings::default(),
            source: document.template.unwrap_or(source).to_owned(),
            line: document.line,
            object: String::new(),
            ignored: HashSet::new(),
            depth: 0,
            at_best: How::Container,
        }
    }

    /// A walker over values that are no document.
    pub(crate) fn of_source(source: &str, rules: &'r Rules) -> Walker<'r> {
        let nothing = Document {
            template: None,
            line: 1,
            text: "",
        };
        Walker::new(source, &nothing, rules)
    }

    /// What was found.
    pub(crate) fn into_findings(self) -> Findings {
        self.findings
    }

    /// One object, or a list of objects.
    pub(crate) fn document(&mut self, root: &Node<'_>, place: &str) {
        let text = |name: &str| match child(root, name).map(|node| &node.value) {
            Some(Value::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.ends_with("List")
            && let Some(Value::List(items)) = child(root, "items").map(|node| &node.value)
        {
            let place = member(place, "items");
            for (n, item) in items.iter().enumerate() {
                self.document(item, &element(&place, n));
            }
            return;
        }
        let outer = self.object.clone();
        if place.is_empty() || !kind.is_empty() {
            let name = child(root, "metadata").and_then(|metadata| child(metadata, "name"));
            let name = name.and_then(Node::text).unwrap_or_default();
            let object = shown(&format!("{kind} {name}"));
            // an embedded object is found through the one it lies in
            if self.depth == 0 {
                self.object = object.trim().to_owned();
            }
        }
        if kind == "CustomResourceDefinition" {
            crd::defaults(self, root, place);
        } else {
            self.known(root, place, &api_version, &kind);
            self.object_body(root, place, &kind);
        }
        self.object = outer;
    }

    /// A document within a document.
    pub(crate) fn embedded(&mut self, root: &Node<'_>, place: &str) {
        let outer = std::mem::take(&mut self.ignored);
        // its own places begin anew behind the place it stands at
        let place = format!("{place}:");
        self.document(root, &place);
        self.ignored = outer;
    }

    /// What the table knows of the kind.
    fn known(&mut self, root: &Node<'_>, place: &str, api_version: &str, kind: &str) {
        self.ignored.clear();
        let Some(known) = self.rules.kind(api_version, kind) else {
            return;
        };
        let inside = |found: &str| match place {
            "" => found.to_owned(),
            place if place.ends_with(':') => format!("{place} {found}"),
            place => format!("{place}.{found}"),
        };
        for path in &known.ignored {
            let places = path.find(root).into_iter().map(|(found, _)| inside(&found));
            self.ignored.extend(places);
        }
        for (paths, how) in [(&known.fields, How::Field), (&known.listed, How::Listed)] {
            for (found, node) in paths.iter().flat_map(|path| path.find(root)) {
                if let Value::Text(text) = &node.value {
                    self.image(text, &inside(&found), how);
                }
            }
        }
        for derived in &known.derived {
            if let Some((image, found)) = derived.of(root) {
                self.image(&image, &inside(&found), How::Field);
            }
        }
    }

    fn object_body(&mut self, root: &Node<'_>, place: &str, kind: &str) {
        match (&root.value, kind) {
            (Value::Map(entries), "Secret") => {
                for (key, value) in entries {
                    match key.as_ref() {
                        "data" => embedded::secret(self, value, &member(place, key)),
                        _ => self.visit(value, &member(place, key), key),
                    }
                }
            }
            _ => self.visit(root, place, ""),
        }
    }

    /// Any value; `name` is the member it stands under.
    pub(crate) fn visit(&mut self, node: &Node<'_>, place: &str, name: &str) {
        if self.ignored.contains(place) {
            return;
        }
        match &node.value {
            Value::Map(entries) => self.map(node, entries, place, name),
            Value::List(items) => {
                environment::pairs(self, items, place);
                for (n, item) in items.iter().enumerate() {
                    self.visit(item, &element(place, n), name);
                }
            }
            Value::Text(text) => self.text(text, place, name),
            _ => {}
        }
    }

    fn map(
        &mut self,
        node: &Node<'_>,
        entries: &[(std::borrow::Cow<'_, str>, Node<'_>)],
        place: &str,
        name: &str,
    ) {
        if environment::variable(self, node, place) {
            return;
        }
        let shape = shape::of(entries, name);
        if let Some(shape) = &shape {
            let text = shape.text();
            let how = match shape.has_version() {
                true => How::Field,
                false => How::Possible,
            };
            if let Verdict::Image(_) = judge(&text, Expect::Named, self.rules) {
                self.image(&text, place, how);
            }
        }
        for (key, value) in entries {
            let taken = shape.as_ref().is_some_and(|shape| shape.uses(key));
            if !(taken && matches!(value.value, Value::Text(_))) {
                self.member(key, value, &member(place, key));
            }
        }
    }

    /// The value of the member `name`, which says what is expected there.
    pub(crate) fn member(&mut self, name: &str, value: &Node<'_>, place: &str) {
        match &value.value {
            Value::List(items) if CONTAINERS.contains(&name) => self.containers(items, place),
            Value::List(items) if ARGUMENTS.contains(&name) => {
                environment::arguments(self, items, place);
            }
            Value::List(items) if name == "volumes" => {
                self.volumes(items, place);
                self.visit(value, place, name);
            }
            _ if ABOUT.contains(&name) => {}
            _ => self.visit(value, place, name),
        }
    }

    fn containers(&mut self, items: &[Node<'_>], place: &str) {
        for (n, item) in items.iter().enumerate() {
            let place = element(place, n);
            if let Some(Value::Text(text)) = child(item, "image").map(|node| &node.value) {
                self.image(text, &member(&place, "image"), How::Container);
            }
            self.visit(item, &place, "");
        }
    }

    /// Volumes whose content is an image.
    fn volumes(&mut self, items: &[Node<'_>], place: &str) {
        for (n, item) in items.iter().enumerate() {
            let image = child(item, "image").and_then(|image| child(image, "reference"));
            if let Some(Value::Text(text)) = image.map(|node| &node.value) {
                let place = element(place, n) + ".image.reference";
                self.image(text, &place, How::Container);
            }
        }
    }

    /// Any text; `name` is the member it stands under.
    pub(crate) fn text(&mut self, text: &str, place: &str, name: &str) {
        let named = words::field(name);
        if named != Named::Nothing {
            match judge(text, Expect::Named, self.rules) {
                Verdict::Image(_) => return self.image(text, place, How::Field),
                Verdict::Perhaps(_) if named == Named::Image => {
                    return self.image(text, place, How::Possible);
                }
                _ => {}
            }
        }
        if environment::is_variable_name(name) && words::option(name) {
            return environment::values(self, text, place, How::Environment);
        }
        if embedded::looks_like_one(text) {
            return embedded::text(self, text, place);
        }
        if let Verdict::Image(_) = judge(text, Expect::Anything, self.rules) {
            self.image(text, place, How::Text);
        }
    }

    /// A place that holds an image and nothing else.
    pub(crate) fn image(&mut self, text: &str, place: &str, how: How) {
        let how = how.max(self.at_best);
        match judge(text, Expect::Image, self.rules) {
            Verdict::Image(image) | Verdict::Perhaps(image) => self.findings.add(Sighting {
                image,
                how,
                place: Place {
                    source: self.source.clone(),
                    object: self.object.clone(),
                    path: place.to_owned(),
                },
            }),
            // elsewhere it was a guess that this is an image
            Verdict::Broken(text) if how <= How::Field => self.findings.unread.push(Unread {
                source: self.source.clone(),
                line: self.line,
                why: format!("{place}: \"{}\" is no image reference", shown(&text)),
            }),
            // what runs is known to be an image; the list lacks it
            Verdict::FilledIn(text) if how == How::Container => {
                self.findings.unread.push(Unread {
                    source: self.source.clone(),
                    line: self.line,
                    why: format!(
                        "{place}: \"{}\" is filled in when it is used; name the image that it \
                         becomes yourself",
                        shown(&text)
                    ),
                });
            }
            Verdict::FilledIn(_) | Verdict::Broken(_) | Verdict::Other => {}
        }
    }

    /// The lines of a text that is no document.
    pub(crate) fn lines(&mut self, text: &str, place: &str, how: How) {
        for line in salvage::lines(text) {
            if let Verdict::Image(_) = judge(line.value, Expect::Named, self.rules) {
                let at = format!("line {}", line.number);
                let place = match place {
                    "" => at,
                    place => format!("{place}: {at}"),
                };
                self.image(line.value, &place, how);
            }
        }
    }
}

/// The member `name` of a map.
pub(crate) fn child<'n, 'a>(node: &'n Node<'a>, name: &str) -> Option<&'n Node<'a>> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, child)| child)
}
