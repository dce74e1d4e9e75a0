//! Answers of the Helm plugin `helm images`. Without `-o` it prints a plain list; with `-o json`
//! and `-o yaml` a list of objects, each with the images it runs; with `-o table` a table of
//! them, in which cells are centred, long ones go over several lines, and one that repeats the
//! cell above is empty.

use kubepkg_core::yaml::{Node, Value};

use super::document::{Reader, strings};
use super::gather::Gather;
use super::looks::brief;
use super::text::lines;

/// The columns of the table.
const COLUMNS: [&str; 3] = ["Name", "Kind", "Image"];

/// What to give instead of something that cannot be read.
const INSTEAD: &str = "give what helm images get prints without -o, or with -o json";

/// Reads the list of objects.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) {
    let Value::List(objects) = &root.value else {
        return;
    };
    for object in objects {
        let Value::Map(members) = &object.value else {
            reader.fault(object, "this is no object of helm images", INSTEAD);
            continue;
        };
        let unknown = members
            .iter()
            .find(|(key, _)| !matches!(key.as_ref(), "kind" | "name" | "image"));
        if let Some((key, value)) = unknown {
            let what = format!("helm images writes no member {}", brief(key));
            reader.fault(value, what, INSTEAD);
            continue;
        }
        match reader.member(object, "image") {
            // an object that runs nothing
            None => {}
            Some(images) if matches!(images.value, Value::List(_)) => strings(reader, images),
            Some(other) => reader.fault(other, "image is no list", INSTEAD),
        }
    }
}

/// Reads the table.
pub(super) fn table(text: &str, gather: &mut Gather) {
    let mut headed = false;
    for (line, text) in lines(text) {
        let row = text.trim();
        let frame = |c: char| "+-|┌┬┐├┼┤└┴┘─│ ".contains(c);
        if row.is_empty() || row.starts_with('#') || row.chars().all(frame) {
            continue;
        }
        let cells = cells(row);
        match (&cells, headed) {
            (Some(cells), false)
                if cells
                    .iter()
                    .zip(COLUMNS)
                    .all(|(cell, name)| cell.eq_ignore_ascii_case(name)) =>
            {
                headed = true;
            }
            (Some([_, _, images]), true) => {
                for image in images.split(|c: char| c == ',' || c.is_whitespace()) {
                    if !image.is_empty() {
                        gather.image(line, image, None);
                    }
                }
            }
            _ => {
                let what = format!("{} is no row of the table of helm images", brief(row));
                return gather.fault(line, what, INSTEAD);
            }
        }
    }
}

/// The three cells of a row.
fn cells(row: &str) -> Option<[&str; 3]> {
    let inner = row.strip_prefix(['|', '│'])?.strip_suffix(['|', '│'])?;
    let mut cells = inner.split(['|', '│']).map(str::trim);
    let three = [cells.next()?, cells.next()?, cells.next()?];
    cells.next().is_none().then_some(three)
}
