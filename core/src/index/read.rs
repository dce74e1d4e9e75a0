//! Reading an index: as a stream where its text allows it, else by the general reader.

use bytes::Bytes;

use super::part::{self, Package};
use super::spec::LazySpec;
use super::{Index, IndexError, MAX_INDEX, stream};
use crate::yaml::go::Document;
use crate::yaml::{Limits, Node, Value};

impl Index {
    /// [`Index::read_shared`] of a copy of `bytes`.
    pub fn read(bytes: &[u8]) -> Result<Index, IndexError> {
        Index::read_shared(Bytes::copy_from_slice(bytes))
    }

    /// Reads an index and checks every version. Anything wrong refuses the whole index, except
    /// a version made for another kubepkg: that is left out.
    ///
    /// The index keeps `bytes` where it can, and decodes a spec from there when it is asked
    /// for: hundreds of thousands of decoded specs would take many times the memory.
    pub fn read_shared(bytes: Bytes) -> Result<Index, IndexError> {
        match stream::read(&bytes)? {
            Some(index) => Ok(index),
            None => Index::read_whole(&bytes),
        }
    }

    /// Reads an index by way of its whole tree. Public so that tests can hold the answer of
    /// the stream reader against this one.
    #[doc(hidden)]
    pub fn read_whole(bytes: &[u8]) -> Result<Index, IndexError> {
        let limits = Limits {
            bytes: usize::try_from(MAX_INDEX).unwrap_or(usize::MAX),
            ..Limits::default()
        };
        let document = Document::read_signed(bytes, &limits)?;
        let text = document.text();
        let root = document.root();
        let mut index = part::head(text, root)?;
        match root.member("packages").map(|node| (node, &node.value)) {
            None | Some((_, Value::Null)) => {}
            Some((_, Value::Map(packages))) => {
                for (name, node) in packages {
                    index.package(&document, name, node)?;
                }
            }
            Some((node, _)) => return Err(text.wrong(node, "packages", "a map").into()),
        }
        Ok(index)
    }

    fn package(
        &mut self,
        document: &Document<'_>,
        name: &str,
        node: &Node<'_>,
    ) -> Result<(), IndexError> {
        let text = document.text();
        part::name(text, name, node)?;
        let mut package = Package::new(name);
        package.head(text, node)?;
        let versions: &[Node<'_>] = match node.member("versions").map(|node| (node, &node.value)) {
            None | Some((_, Value::Null)) => &[],
            Some((_, Value::List(versions))) => versions,
            Some((node, _)) => return Err(text.wrong(node, "versions", "a list").into()),
        };
        for node in versions {
            package.version(text, node, &mut self.left_out, LazySpec::of)?;
        }
        package.finish(&mut self.packages);
        Ok(())
    }
}
