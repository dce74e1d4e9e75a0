//! Reading an index in one pass over its text: in memory stands one version at a time, and of
//! a version that is kept only where its spec stands.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::part::{self, Package};
use super::spec::{LazySpec, Part};
use super::{Index, IndexError, IndexPackage, LeftOut, MAX_INDEX};
use crate::yaml::block::{Block, Inner, Outside, Slot};
use crate::yaml::go::Text;
use crate::yaml::{Node, Value, fold_eq};

/// Why reading stops.
enum Stop {
    /// The general reader must have a look.
    Outside,
    /// No reader would take it.
    Refused(Box<IndexError>),
}

#[cfg(test)]
mod tests;

impl From<Outside> for Stop {
    fn from(_: Outside) -> Stop {
        Stop::Outside
    }
}

impl From<IndexError> for Stop {
    fn from(error: IndexError) -> Stop {
        Stop::Refused(Box::new(error))
    }
}

/// Reads an index; `None` where its text has something only the general reader knows.
pub(super) fn read(bytes: &Bytes) -> Result<Option<Index>, IndexError> {
    if bytes.len() as u64 > MAX_INDEX {
        return Ok(None);
    }
    let Ok(text) = str::from_utf8(bytes) else {
        return Ok(None);
    };
    let mut reading = Reading {
        shared: Arc::new(bytes.clone()),
        text,
        packages: BTreeMap::new(),
        left_out: Vec::new(),
    };
    match reading.document() {
        Ok(index) => Ok(Some(index)),
        Err(Stop::Outside) => Ok(None),
        Err(Stop::Refused(error)) => Err(*error),
    }
}

struct Reading<'t> {
    shared: Arc<Bytes>,
    text: &'t str,
    packages: BTreeMap<String, IndexPackage>,
    left_out: Vec<LeftOut>,
}

impl<'t> Reading<'t> {
    fn document(&mut self) -> Result<Index, Stop> {
        let mut block = Block::new(self.text)?;
        if block.line_start() != block.place() {
            return Err(Stop::Outside);
        }
        let mut members = Members::at(&block);
        block.members(|block, key, slot| {
            if !is(key, "packages")? {
                return members.add(block, key, slot);
            }
            match block.enter(slot)? {
                Inner::Map => block.members(|block, name, slot| {
                    block.refill();
                    self.package(block, name, slot)
                }),
                Inner::List => Err(Stop::Outside),
                Inner::Other => members.add_empty(block, key, slot),
            }
        })?;
        block.finish()?;
        let text = Text::new(self.text);
        let mut index = part::head(text, &members.node())?;
        index.packages = std::mem::take(&mut self.packages);
        index.left_out = std::mem::take(&mut self.left_out);
        Ok(index)
    }

    fn package(&mut self, block: &mut Block<'t>, name: &'t str, slot: Slot) -> Result<(), Stop> {
        let text = Text::new(self.text);
        if block.enter(slot)? != Inner::Map {
            return Err(Stop::Outside);
        }
        let mut members = Members::at(block);
        part::name(text, name, &members.node())?;
        let mut package = Package::new(name);
        block.members(|block, key, slot| {
            if !is(key, "versions")? {
                return members.add(block, key, slot);
            }
            match block.enter(slot)? {
                Inner::List => block.elements(|block, slot| {
                    block.refill();
                    self.version(block, &mut package, slot)
                }),
                Inner::Map => Err(Stop::Outside),
                Inner::Other => members.add_empty(block, key, slot),
            }
        })?;
        package.head(text, &members.node())?;
        package.finish(&mut self.packages);
        Ok(())
    }

    fn version(
        &mut self,
        block: &mut Block<'t>,
        package: &mut Package<'_>,
        slot: Slot,
    ) -> Result<(), Stop> {
        if block.enter(slot)? != Inner::Map {
            return Err(Stop::Outside);
        }
        let mut members = Members::at(block);
        let mut spec: Option<(usize, usize)> = None;
        block.members(|block, key, slot| {
            if !is(key, "spec")? {
                return members.add(block, key, slot);
            }
            if block.enter(slot)? != Inner::Map {
                return Err(Stop::Outside);
            }
            let start = block.line_start();
            let node = block.map(0)?;
            spec = Some((start, block.line_start()));
            members.entries.push((key.into(), node));
            Ok(())
        })?;
        let (start, end) = spec.ok_or(Stop::Outside)?;
        let offset = |at: usize| u32::try_from(at).map_err(|_| Stop::Outside);
        let part = Part {
            text: Arc::clone(&self.shared),
            start: offset(start)?,
            end: offset(end)?,
        };
        let text = Text::new(self.text);
        package.version(text, &members.node(), &mut self.left_out, |_| {
            LazySpec::part(part)
        })?;
        Ok(())
    }
}

/// Whether `key` is `name`. In another spelling it would be as well for Go, which is nothing
/// to hurry for.
fn is(key: &str, name: &str) -> Result<bool, Stop> {
    if key == name {
        Ok(true)
    } else if fold_eq(key, name) {
        Err(Stop::Outside)
    } else {
        Ok(false)
    }
}

/// The members of a map that are read whole.
struct Members<'t> {
    at: usize,
    entries: Vec<(Cow<'t, str>, Node<'t>)>,
}

impl<'t> Members<'t> {
    fn at(block: &Block<'t>) -> Members<'t> {
        Members {
            at: block.place(),
            entries: Vec::new(),
        }
    }

    fn add(&mut self, block: &mut Block<'t>, key: &'t str, slot: Slot) -> Result<(), Stop> {
        let node = block.value(slot)?;
        self.entries.push((key.into(), node));
        Ok(())
    }

    /// Adds a member that would hold the whole content, if it is empty.
    fn add_empty(&mut self, block: &mut Block<'t>, key: &'t str, slot: Slot) -> Result<(), Stop> {
        self.add(block, key, slot)?;
        match self.entries.last().map(|(_, node)| &node.value) {
            Some(Value::Null) => Ok(()),
            Some(Value::Map(entries)) if entries.is_empty() && key == "packages" => Ok(()),
            Some(Value::List(items)) if items.is_empty() && key == "versions" => Ok(()),
            _ => Err(Stop::Outside),
        }
    }

    fn node(&mut self) -> Node<'t> {
        Node::new(self.at, Value::Map(std::mem::take(&mut self.entries)))
    }
}
