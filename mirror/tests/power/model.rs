//! A file system that loses power.
//!
//! The model is weaker than any real file system, so that nothing is right by accident: the
//! data of a file is safe after a sync of that file, an entry of a folder after a sync of that
//! folder, and both after a sync of everything. What is not safe may be there or not, each write
//! and each entry on its own, whatever came before or after it; only a rename is one thing. Data
//! that was not synced is there, absent, zero where the file grew, or there up to a border of
//! [`SECTOR`].

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;
use crate::trace::{Act, Event};
use crate::tree::{Content, Tree};

/// What disks write as one piece.
const SECTOR: u64 = 512;

/// Begins the kind of a sync that makes nothing safe that was not: leaving it out changes nothing.
pub const NOTHING_NEW: &str = "nothing new of";

type Node = usize;

/// A change, and the thing whose sync makes it safe.
#[derive(Clone, Debug)]
enum Change {
    /// `name` in `folder` is `node`, and for a rename no longer what it was before.
    Entry {
        folder: Node,
        name: Vec<u8>,
        node: Option<Node>,
        before: Option<(Node, Vec<u8>)>,
    },
    Write {
        node: Node,
        offset: u64,
        bytes: Vec<u8>,
    },
    Length {
        node: Node,
        length: u64,
    },
    Reserve {
        node: Node,
        length: u64,
    },
}

impl Change {
    fn synced_with(&self) -> Node {
        match self {
            Change::Entry { folder, .. } => *folder,
            Change::Write { node, .. }
            | Change::Length { node, .. }
            | Change::Reserve { node, .. } => *node,
        }
    }
}

/// A change with the number of the event it is.
#[derive(Clone, Debug)]
struct Made {
    event: usize,
    change: Change,
}

/// A sync: what of, where it is among the events, and the events it is sure to cover.
#[derive(Clone, Debug)]
struct Sync {
    event: usize,
    covers: usize,
    of: Option<Node>,
    kind: String,
}

/// What a power loss does to changes that are not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All are lost.
    Everything,
    /// All are there, as after `kill -9`.
    Nothing,
    /// Entries are there, and the files they name have no data.
    Data,
    /// Entries are there, and files have their length and zeros.
    Zeros,
    /// Data is there, entries are lost.
    Entries,
    /// Each change by chance; so many in a hundred are lost.
    Some(u64),
    /// Only the change of this event is lost.
    One(usize),
    /// Only the data this event wrote is lost; the file has its length.
    Blank(usize),
}

/// The ways to lose that find most, and chance.
pub const LOSSES: [Loss; 8] = [
    Loss::Everything,
    Loss::Some(50),
    Loss::Data,
    Loss::Some(10),
    Loss::Zeros,
    Loss::Some(90),
    Loss::Entries,
    Loss::Nothing,
];

/// What happened to one folder, from its beginning.
pub struct Model {
    top: String,
    start: Tree,
    /// Whether a node is a folder; the first one is the top.
    nodes: Vec<bool>,
    /// The entries as any process sees them.
    seen: BTreeMap<(Node, Vec<u8>), Node>,
    lengths: BTreeMap<Node, u64>,
    made: Vec<Made>,
    syncs: Vec<Sync>,
    events: usize,
}

impl Model {
    /// Of the folder at the path `top`, which was as `start` says and all safe.
    pub fn new(top: &str, start: &Tree, events: &[Event]) -> Result<Model, String> {
        let mut model = Model {
            top: top.to_owned(),
            start: start.clone(),
            nodes: vec![true],
            seen: BTreeMap::new(),
            lengths: BTreeMap::new(),
            made: Vec::new(),
            syncs: Vec::new(),
            events: events.len(),
        };
        model.found(0, start);
        let ended: Vec<u64> = events.iter().map(|event| event.ended).collect();
        for (number, event) in events.iter().enumerate() {
            let covers = ended.partition_point(|ended| *ended <= event.began);
            model
                .event(number, covers.min(number), &event.act)
                .map_err(|why| format!("{why}, event {number}: {}", short(&event.act)))?;
        }
        model.name_syncs();
        Ok(model)
    }

    /// Nodes of what was there at the start.
    fn found(&mut self, node: Node, tree: &Tree) {
        match tree {
            Tree::File(content) => {
                self.lengths.insert(node, content.length());
            }
            Tree::Folder(entries) => {
                for (name, entry) in entries {
                    let new = self.new_node(matches!(entry, Tree::Folder(_)));
                    self.seen.insert((node, name.clone()), new);
                    self.found(new, entry);
                }
            }
        }
    }

    fn new_node(&mut self, folder: bool) -> Node {
        self.nodes.push(folder);
        self.nodes.len() - 1
    }

    fn event(&mut self, event: usize, covers: usize, act: &Act) -> Result<(), String> {
        match act {
            Act::Create { path, cut } => {
                let Some((folder, name)) = self.place(path)? else {
                    return Ok(());
                };
                match self.seen.get(&(folder, name.clone())) {
                    Some(node) if *cut => {
                        let (node, length) = (*node, 0);
                        self.lengths.insert(node, 0);
                        self.made(event, Change::Length { node, length });
                    }
                    Some(_) => {}
                    None => {
                        let node = self.new_node(false);
                        self.lengths.insert(node, 0);
                        self.enter(event, folder, name, node);
                    }
                }
            }
            Act::MakeFolder(path) => {
                if let Some((folder, name)) = self.place(path)? {
                    let node = self.new_node(true);
                    self.enter(event, folder, name, node);
                }
            }
            Act::Write {
                path,
                offset,
                bytes,
            } => {
                if let Some(node) = self.file(path)? {
                    self.write(event, node, *offset, bytes.clone());
                }
            }
            Act::Copy {
                from,
                from_offset,
                path,
                offset,
                length,
            } => {
                if let Some(node) = self.file(path)? {
                    let source = self.file(from)?.ok_or("a copy of a file from elsewhere")?;
                    let length = usize::try_from(*length).map_err(|e| e.to_string())?;
                    let content = self.content_seen(source);
                    self.write(
                        event,
                        node,
                        Some(*offset),
                        content.part(*from_offset, length),
                    );
                }
            }
            Act::SetLength { path, length } => {
                if let Some(node) = self.file(path)? {
                    self.lengths.insert(node, *length);
                    let length = *length;
                    self.made(event, Change::Length { node, length });
                }
            }
            Act::Reserve { path, length } => {
                if let Some(node) = self.file(path)? {
                    let at = self.lengths.entry(node).or_default();
                    *at = (*at).max(*length);
                    let length = *length;
                    self.made(event, Change::Reserve { node, length });
                }
            }
            Act::Rename { from, to } => match (self.place(from)?, self.place(to)?) {
                (Some(from), Some((folder, name))) => {
                    let node = self.seen.remove(&from).ok_or("nothing there to rename")?;
                    self.seen.insert((folder, name.clone()), node);
                    let change = Change::Entry {
                        folder,
                        name,
                        node: Some(node),
                        before: Some(from),
                    };
                    self.made(event, change);
                }
                (None, None) => {}
                _ => return Err("a rename into or out of the folder".to_owned()),
            },
            Act::Link { from, to } => {
                if let Some((folder, name)) = self.place(to)? {
                    let node = self.file(from)?.ok_or("a link to a file from elsewhere")?;
                    self.enter(event, folder, name, node);
                }
            }
            Act::Remove(path) => {
                if let Some((folder, name)) = self.place(path)? {
                    let there = self.seen.remove(&(folder, name.clone()));
                    there.ok_or("nothing there to remove")?;
                    let change = Change::Entry {
                        folder,
                        name,
                        node: None,
                        before: None,
                    };
                    self.made(event, change);
                }
            }
            Act::Sync(path) => {
                // above the folder nothing is of interest
                if self.inside(path).is_some() && !path.ends_with(" (deleted)") {
                    let of = Some(self.find(path)?.ok_or("a sync of nothing")?);
                    self.sync(event, covers, of);
                }
            }
            Act::SyncAll => self.sync(event, covers, None),
            Act::Said(_) => {}
        }
        Ok(())
    }

    fn sync(&mut self, event: usize, covers: usize, of: Option<Node>) {
        self.syncs.push(Sync {
            event,
            covers,
            of,
            kind: String::new(),
        });
    }

    fn made(&mut self, event: usize, change: Change) {
        self.made.push(Made { event, change });
    }

    fn enter(&mut self, event: usize, folder: Node, name: Vec<u8>, node: Node) {
        self.seen.insert((folder, name.clone()), node);
        let change = Change::Entry {
            folder,
            name,
            node: Some(node),
            before: None,
        };
        self.made(event, change);
    }

    fn write(&mut self, event: usize, node: Node, offset: Option<u64>, bytes: Vec<u8>) {
        let length = self.lengths.entry(node).or_default();
        let offset = offset.unwrap_or(*length);
        *length = (*length).max(offset + bytes.len() as u64);
        let change = Change::Write {
            node,
            offset,
            bytes,
        };
        self.made(event, change);
    }

    /// The path within the folder.
    fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        let inside = path.strip_prefix(self.top.as_str())?;
        if inside.is_empty() {
            return Some(inside);
        }
        inside.strip_prefix('/')
    }

    /// Folder and name, `None` for paths elsewhere.
    fn place(&self, path: &str) -> Result<Option<(Node, Vec<u8>)>, String> {
        if self.inside(path).is_none_or(str::is_empty) {
            return Ok(None);
        }
        let (folder, name) = path.rsplit_once('/').ok_or("no whole path")?;
        let folder = self.find(folder)?.ok_or("its folder is not there")?;
        Ok(Some((folder, name.as_bytes().to_vec())))
    }

    /// What is seen at a path; `None` when there is nothing.
    fn find(&self, path: &str) -> Result<Option<Node>, String> {
        let inside = self.inside(path).ok_or("a path elsewhere")?;
        let mut node = Some(0);
        for name in inside.split('/').filter(|name| !name.is_empty()) {
            node = node.and_then(|node| self.seen.get(&(node, name.as_bytes().to_vec())).copied());
        }
        Ok(node)
    }

    /// An open file; `None` for those elsewhere and those that have no name any more.
    fn file(&self, path: &str) -> Result<Option<Node>, String> {
        if self.inside(path).is_none() || path.ends_with(" (deleted)") {
            return Ok(None);
        }
        self.find(path)?
            .map(Some)
            .ok_or_else(|| "no such file".to_owned())
    }

    fn content_seen(&self, node: Node) -> Content {
        let mut contents = BTreeMap::new();
        self.start_contents(0, &self.start, &mut 0, &mut contents);
        for made in &self.made {
            apply_data(&made.change, &mut contents);
        }
        contents.remove(&node).unwrap_or_default()
    }

    /// Contents at the start, under the same numbers as in [`Model::found`].
    fn start_contents(
        &self,
        node: Node,
        tree: &Tree,
        last: &mut Node,
        into: &mut BTreeMap<Node, Content>,
    ) {
        match tree {
            Tree::File(content) => {
                into.insert(node, content.clone());
            }
            Tree::Folder(entries) => {
                for entry in entries.values() {
                    *last += 1;
                    self.start_contents(*last, entry, last, into);
                }
            }
        }
    }

    fn start_entries(
        &self,
        node: Node,
        tree: &Tree,
        last: &mut Node,
        into: &mut BTreeMap<(Node, Vec<u8>), Node>,
    ) {
        if let Tree::Folder(entries) = tree {
            for (name, entry) in entries {
                *last += 1;
                into.insert((node, name.clone()), *last);
                self.start_entries(*last, entry, last, into);
            }
        }
    }

    /// Number of events.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Gives each sync the kind of thing it is about.
    fn name_syncs(&mut self) {
        let kinds: Vec<String> = self.syncs.iter().map(|sync| self.name_of(sync)).collect();
        for (sync, kind) in self.syncs.iter_mut().zip(kinds) {
            sync.kind = kind;
        }
    }

    fn name_of(&self, sync: &Sync) -> String {
        let made_safe = self.made_safe_by(sync);
        let Some(node) = sync.of else {
            return self.name_of_all(made_safe);
        };
        let of = self.kind(node);
        let changes: Vec<&Change> = made_safe.map(|made| &made.change).collect();
        if changes.is_empty() {
            return format!("{NOTHING_NEW} {of}");
        }
        if !self.nodes[node] {
            let again = self
                .syncs
                .iter()
                .any(|before| before.event < sync.event && before.of == sync.of);
            return match again {
                true => format!("more data of {of}"),
                false => format!("data of {of}"),
            };
        }
        let mut made: BTreeSet<String> = BTreeSet::new();
        for change in changes {
            if let Change::Entry { name, node, .. } = change {
                let name = plain(&String::from_utf8_lossy(name));
                let gone = if node.is_none() { "no " } else { "" };
                made.insert(format!("{gone}{name}"));
            }
        }
        // that one is made at every beginning, and nothing in it is read
        if made.len() > 1 {
            made.retain(|name| !name.ends_with(".tmp"));
        }
        let made: Vec<String> = made.into_iter().collect();
        format!("entries of {of}: {}", made.join(", "))
    }

    /// A sync of everything, by what there is to sync: data, or else entries.
    fn name_of_all<'a>(&self, made_safe: impl Iterator<Item = &'a Made>) -> String {
        let (mut data, mut entries) = (BTreeSet::new(), BTreeSet::new());
        for made in made_safe {
            let kind = self.kind(made.change.synced_with());
            let top = kind.split('/').nth(2).unwrap_or(&kind).to_owned();
            match made.change {
                Change::Entry { .. } => entries.insert(top),
                // written over in place, and made safe by none
                _ if top == "generation" => false,
                _ => data.insert(top),
            };
        }
        let (what, tops) = match data.is_empty() {
            true if entries.is_empty() => return format!("{NOTHING_NEW} everything"),
            true => ("entries", entries),
            false => ("data", data),
        };
        let tops: Vec<String> = tops.into_iter().collect();
        format!("everything, {what} of {}", tops.join(", "))
    }

    /// The syncs of a kind: the event each is, and the events of the changes that were not safe
    /// before it, the newest first.
    pub fn syncs_of(&self, kind: &str) -> Vec<(usize, Vec<usize>)> {
        let of_kind = self.syncs.iter().filter(|sync| sync.kind == kind);
        let made_safe = of_kind.map(|sync| {
            let changes = self.made_safe_by(sync).rev().map(|made| made.event);
            (sync.event, changes.collect())
        });
        made_safe.collect()
    }

    /// The changes that were not safe before this sync.
    fn made_safe_by(&self, sync: &Sync) -> impl DoubleEndedIterator<Item = &Made> {
        let covered = self.made.iter().filter(move |made| {
            made.event < sync.covers && sync.of.is_none_or(|of| of == made.change.synced_with())
        });
        covered.filter(|made| !self.safe(made, sync.event, &|_| false))
    }

    /// The kinds of syncs there are.
    pub fn kinds(&self) -> BTreeSet<String> {
        self.syncs.iter().map(|sync| sync.kind.clone()).collect()
    }

    /// Where a node lies in the end, with what is different in every store made plain.
    fn kind(&self, node: Node) -> String {
        if node == 0 {
            return "the top".to_owned();
        }
        let mut names = Vec::new();
        let mut at = node;
        while at != 0 {
            let place = self.made.iter().rev().find_map(|made| match &made.change {
                Change::Entry {
                    folder,
                    name,
                    node: Some(node),
                    ..
                } if *node == at => Some((*folder, name.clone())),
                _ => None,
            });
            let place = place.or_else(|| {
                let found = self.seen.iter().find(|(_, node)| **node == at);
                found.map(|(place, _)| place.clone())
            });
            let Some((folder, name)) = place else { break };
            names.push(plain(&String::from_utf8_lossy(&name)));
            at = folder;
        }
        names.reverse();
        // the sets of a site are numbered
        if let Some(site) = names.iter().position(|name| name == "SITE")
            && let Some(set) = names.get_mut(site + 1)
            && !set.contains('.')
        {
            *set = "N".to_owned();
        }
        names.join("/")
    }

    /// Whether a change survives a power loss after `point` events, without the syncs of the
    /// kinds that are left out.
    fn safe(&self, made: &Made, point: usize, left_out: &dyn Fn(&str) -> bool) -> bool {
        let node = made.change.synced_with();
        self.syncs.iter().any(|sync| {
            sync.event < point
                && made.event < sync.covers
                && sync.of.is_none_or(|of| of == node)
                && !left_out(&sync.kind)
        })
    }

    /// What is found after power was lost when `point` events had ended.
    pub fn after_loss(
        &self,
        point: usize,
        loss: Loss,
        random: &mut Random,
        left_out: &dyn Fn(&str) -> bool,
    ) -> Tree {
        let mut entries = BTreeMap::new();
        let mut contents = BTreeMap::new();
        self.start_entries(0, &self.start, &mut 0, &mut entries);
        self.start_contents(0, &self.start, &mut 0, &mut contents);
        for made in self.made.iter().filter(|made| made.event < point) {
            if self.safe(made, point, left_out) {
                apply(&made.change, &mut entries, &mut contents);
            } else if let Some(change) = what_is_left(made, loss, random, &contents) {
                apply(&change, &mut entries, &mut contents);
            }
        }
        self.tree(0, &entries, &contents)
    }

    fn tree(
        &self,
        node: Node,
        entries: &BTreeMap<(Node, Vec<u8>), Node>,
        contents: &BTreeMap<Node, Content>,
    ) -> Tree {
        if !self.nodes[node] {
            return Tree::File(contents.get(&node).cloned().unwrap_or_default());
        }
        let from = (node, Vec::new());
        let below = entries.range(from..(node + 1, Vec::new()));
        Tree::Folder(
            below
                .map(|((_, name), entry)| (name.clone(), self.tree(*entry, entries, contents)))
                .collect(),
        )
    }
}

/// Everything that has hexadecimal digits or numbers in it is like its neighbours.
fn plain(name: &str) -> String {
    let (stem, end) = match name.split_once(".json") {
        Some((stem, "")) => (stem, ".json"),
        _ => (name, ""),
    };
    let hexadecimal = stem.bytes().all(|b| b.is_ascii_hexdigit());
    let kind = match stem.len() {
        _ if stem.starts_with(".tmp-") => ".tmp",
        _ if !stem.is_empty() && stem.bytes().all(|b| b.is_ascii_digit()) && end == ".json" => "N",
        2 if hexadecimal => "XX",
        32.. if hexadecimal || stem.starts_with("sha256-") => "HEX",
        _ if stem.contains(".example-") => "SITE",
        _ if stem.ends_with("-log.jsonl") => "HEX-log.jsonl",
        _ => stem,
    };
    format!("{kind}{end}")
}

fn short(act: &Act) -> String {
    let mut text = format!("{act:?}");
    text.truncate(400);
    text
}

/// What a loss leaves of a change that is not safe.
fn what_is_left(
    made: &Made,
    loss: Loss,
    random: &mut Random,
    contents: &BTreeMap<Node, Content>,
) -> Option<Change> {
    let change = &made.change;
    let whole = Some(change.clone());
    let entry = matches!(change, Change::Entry { .. });
    match loss {
        Loss::Everything => None,
        Loss::Nothing => whole,
        Loss::Entries => whole.filter(|_| !entry),
        Loss::Data => whole.filter(|_| entry),
        Loss::Zeros => zeros(change, contents),
        Loss::One(event) => whole.filter(|_| made.event != event),
        Loss::Blank(event) if made.event == event => zeros(change, contents),
        Loss::Blank(_) => whole,
        Loss::Some(percent) => {
            if random.below(100) >= percent {
                return whole;
            }
            match random.below(3) {
                0 if !entry => zeros(change, contents),
                1 => cut(change, random),
                _ => None,
            }
        }
    }
}

/// The file grew, what it grew by is zero.
fn zeros(change: &Change, contents: &BTreeMap<Node, Content>) -> Option<Change> {
    let Change::Write {
        node,
        offset,
        bytes,
    } = change
    else {
        return Some(change.clone());
    };
    let (node, length) = (*node, offset + bytes.len() as u64);
    let now = contents.get(&node).map_or(0, Content::length);
    (length > now).then_some(Change::Reserve { node, length })
}

/// Sectors at the beginning were written, the others not.
fn cut(change: &Change, random: &mut Random) -> Option<Change> {
    let Change::Write {
        node,
        offset,
        bytes,
    } = change
    else {
        return None;
    };
    let end = offset + bytes.len() as u64;
    let borders = end.div_ceil(SECTOR) - offset / SECTOR;
    let border = (offset / SECTOR + random.below(borders)) * SECTOR;
    let length = usize::try_from(border.checked_sub(*offset)?).ok()?;
    (length > 0).then(|| Change::Write {
        node: *node,
        offset: *offset,
        bytes: bytes[..length].to_vec(),
    })
}

fn apply(
    change: &Change,
    entries: &mut BTreeMap<(Node, Vec<u8>), Node>,
    contents: &mut BTreeMap<Node, Content>,
) {
    let Change::Entry {
        folder,
        name,
        node,
        before,
    } = change
    else {
        return apply_data(change, contents);
    };
    if let Some(before) = before
        && entries.get(before) == node.as_ref()
    {
        entries.remove(before);
    }
    match node {
        Some(node) => entries.insert((*folder, name.clone()), *node),
        None => entries.remove(&(*folder, name.clone())),
    };
}

fn apply_data(change: &Change, contents: &mut BTreeMap<Node, Content>) {
    match change {
        Change::Write {
            node,
            offset,
            bytes,
        } => contents.entry(*node).or_default().write(*offset, bytes),
        Change::Length { node, length } => contents.entry(*node).or_default().set_length(*length),
        Change::Reserve { node, length } => {
            let content = contents.entry(*node).or_default();
            if content.length() < *length {
                content.set_length(*length);
            }
        }
        Change::Entry { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(acts: Vec<Act>) -> Vec<Event> {
        let at = |number: usize| number as u64 * 10;
        acts.into_iter()
            .enumerate()
            .map(|(number, act)| Event {
                began: at(number) + 1,
                ended: at(number) + 2,
                act,
            })
            .collect()
    }

    fn of(acts: Vec<Act>) -> Model {
        Model::new("/t", &Tree::Folder(BTreeMap::new()), &events(acts)).unwrap()
    }

    fn create(path: &str) -> Act {
        Act::Create {
            path: path.to_owned(),
            cut: false,
        }
    }

    fn write(path: &str, offset: u64, bytes: &[u8]) -> Act {
        Act::Write {
            path: path.to_owned(),
            offset: Some(offset),
            bytes: bytes.to_vec(),
        }
    }

    fn rename(from: &str, to: &str) -> Act {
        Act::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    fn sync(path: &str) -> Act {
        Act::Sync(path.to_owned())
    }

    fn all(_: &str) -> bool {
        false
    }

    /// What is left at the end, as `path=content` in order.
    fn left(model: &Model, loss: Loss, left_out: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        let tree = model.after_loss(model.events(), loss, &mut Random::new(1), left_out);
        list(&tree, "", &mut lines);
        lines
    }

    fn list(tree: &Tree, at: &str, into: &mut Vec<String>) {
        match tree {
            Tree::File(content) => {
                let bytes = content.part(0, usize::try_from(content.length()).unwrap());
                into.push(format!("{at}={}", String::from_utf8_lossy(&bytes)));
            }
            Tree::Folder(entries) => {
                for (name, entry) in entries {
                    list(
                        entry,
                        &format!("{at}/{}", String::from_utf8_lossy(name)),
                        into,
                    );
                }
            }
        }
    }

    #[test]
    fn a_file_needs_its_data_its_entry_and_those_above() {
        let folder = || Act::MakeFolder("/t/d".to_owned());
        let made = || vec![folder(), create("/t/d/f"), write("/t/d/f", 0, b"abc")];
        let with = |syncs: &[&str]| {
            let mut acts = made();
            acts.extend(syncs.iter().map(|path| sync(path)));
            left(&of(acts), Loss::Everything, &all)
        };
        assert_eq!(with(&["/t/d/f", "/t/d", "/t"]), ["/d/f=abc"]);
        assert_eq!(with(&["/t", "/t/d"]), ["/d/f="], "entry without data");
        assert_eq!(with(&["/t/d/f", "/t/d"]), [""; 0], "entry above");
        assert_eq!(with(&["/t/d/f", "/t"]), [""; 0]);
        assert_eq!(left(&of(made()), Loss::Nothing, &all), ["/d/f=abc"]);
        assert_eq!(left(&of(made()), Loss::Zeros, &all), ["/d/f=\0\0\0"]);
        let mut acts = made();
        acts.push(Act::SyncAll);
        acts.push(write("/t/d/f", 1, b"XYZ"));
        assert_eq!(left(&of(acts), Loss::Zeros, &all), ["/d/f=abc\0"]);
    }

    #[test]
    fn a_rename_is_one_thing_and_safe_with_the_folder_it_goes_to() {
        let acts = |more: Vec<Act>| {
            let mut acts = vec![
                Act::MakeFolder("/t/a".to_owned()),
                create("/t/a/new"),
                write("/t/a/new", 0, b"new"),
                create("/t/old"),
                write("/t/old", 0, b"old"),
                Act::SyncAll,
                rename("/t/a/new", "/t/old"),
            ];
            acts.extend(more);
            acts
        };
        let lost = left(&of(acts(vec![sync("/t/a")])), Loss::Everything, &all);
        assert_eq!(lost, ["/a/new=new", "/old=old"]);
        let safe = left(&of(acts(vec![sync("/t")])), Loss::Everything, &all);
        assert_eq!(safe, ["/old=new"]);
        let model = of(acts(vec![sync("/t")]));
        let without = left(&model, Loss::Everything, &|kind| {
            kind == "entries of the top: old"
        });
        assert_eq!(without, ["/a/new=new", "/old=old"]);
    }

    #[test]
    fn a_sync_covers_what_had_ended_when_it_began() {
        let mut events = events(vec![create("/t/f"), write("/t/f", 0, b"a"), Act::SyncAll]);
        events[2].began = 0;
        let model = Model::new("/t", &Tree::Folder(BTreeMap::new()), &events).unwrap();
        assert_eq!(left(&model, Loss::Everything, &all), [""; 0]);
    }

    #[test]
    fn writes_are_cut_at_sectors_only() {
        let change = Change::Write {
            node: 1,
            offset: 500,
            bytes: vec![b'x'; 1000],
        };
        let mut random = Random::new(3);
        let mut lengths = BTreeSet::new();
        for _ in 0..100 {
            let length = match cut(&change, &mut random) {
                Some(Change::Write { bytes, .. }) => bytes.len(),
                _ => 0,
            };
            lengths.insert(length);
        }
        assert_eq!(lengths, [0, 12, 524].into());
        let short = Change::Write {
            node: 1,
            offset: 20,
            bytes: vec![b'x'; 20],
        };
        for _ in 0..20 {
            assert!(cut(&short, &mut random).is_none(), "within a sector");
        }
    }

    #[test]
    fn what_was_there_before_is_safe() {
        let start = Tree::Folder(BTreeMap::from([
            (b"d".to_vec(), Tree::Folder(BTreeMap::new())),
            (b"f".to_vec(), Tree::File(Content::new(b"abc".to_vec()))),
        ]));
        let acts = vec![
            write("/t/f", 0, b"X"),
            create("/t/d/n"),
            Act::Remove("/t/f".to_owned()),
        ];
        let model = Model::new("/t", &start, &events(acts)).unwrap();
        assert_eq!(left(&model, Loss::Everything, &all), ["/f=abc"]);
        assert_eq!(left(&model, Loss::Nothing, &all), ["/d/n="]);
    }
}
