//! From a value tree to types, under one of two policies.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use super::error::{Fault, Problem, shown};
use super::node::{Node, Value, fold_eq};
use super::tree::raw_scalar;

/// More unknown members than this are not listed one by one.
const MAX_REPORTED: usize = 32;

/// How values become types.
pub(super) enum Policy<'a> {
    /// As sigs.k8s.io/yaml and Go's JSON decoder do; what they pass over is noted.
    Go(&'a Notes),
    /// Everything means one thing to every reader, or it is an error. Holds the text.
    Strict(&'a str),
}

/// What Go's decoder passes over in silence.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) unknown: RefCell<Vec<String>>,
    pub(super) doubled: RefCell<Vec<String>>,
}

fn note(list: &RefCell<Vec<String>>, name: &str) {
    let mut list = list.borrow_mut();
    if list.len() < MAX_REPORTED {
        list.push(shown(name));
    }
}

/// Deserialises one node.
#[derive(Clone, Copy)]
pub(super) struct De<'a> {
    pub(super) node: &'a Node<'a>,
    pub(super) policy: &'a Policy<'a>,
}

impl<'a> De<'a> {
    fn of(self, node: &'a Node<'a>) -> De<'a> {
        De { node, ..self }
    }

    fn fault(self, problem: Problem) -> Fault {
        Fault::new(self.node.at, problem)
    }

    fn wrong(self, wanted: &str) -> Fault {
        self.fault(Problem::Type {
            wanted: wanted.to_owned(),
            found: self.node.found().to_owned(),
        })
    }

    /// Whether this is null and the policy takes that for an empty value.
    fn nothing(self) -> bool {
        self.node.value == Value::Null
    }

    /// Strict: this scalar must be written the one way all readers agree on.
    fn canonical(self) -> Result<(), Fault> {
        let Policy::Strict(text) = self.policy else {
            return Ok(());
        };
        let raw = raw_scalar(text, self.node.at);
        let (agreed, reading) = match &self.node.value {
            Value::Bool(b) => (raw == "true" || raw == "false", b.to_string()),
            Value::Int(n) => (raw == n.to_string(), n.to_string()),
            Value::Uint(n) => (raw == n.to_string(), n.to_string()),
            // JSON's numbers mean the same everywhere.
            Value::Float(f) => (serde_json::from_str::<f64>(raw).is_ok(), format!("{f:?}")),
            _ => return Ok(()),
        };
        if agreed {
            return Ok(());
        }
        Err(self.fault(Problem::Unquoted {
            raw: shown(raw),
            better: format!("{reading}, or \"{}\" if text is meant", shown(raw)),
            reading,
        }))
    }

    /// The text of this node where text is wanted.
    fn text(self) -> Result<Cow<'a, str>, Fault> {
        let Some(text) = self.node.text() else {
            return Err(self.wrong("text"));
        };
        if let (Policy::Strict(source), false) =
            (self.policy, matches!(self.node.value, Value::Text(_)))
        {
            let raw = raw_scalar(source, self.node.at);
            let nothing = self.nothing();
            if nothing && !matches!(raw, "~" | "null" | "Null" | "NULL") {
                return Err(self.fault(Problem::Empty));
            }
            return Err(self.fault(Problem::Unquoted {
                raw: shown(raw),
                reading: if nothing {
                    "nothing".to_owned()
                } else {
                    text.into_owned()
                },
                better: format!("\"{}\"", shown(raw)),
            }));
        }
        Ok(text)
    }

    fn visit_text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text()? {
            Cow::Borrowed(text) => visitor.visit_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
        .map_err(|fault| self.placed(fault))
    }

    fn placed(self, mut fault: Fault) -> Fault {
        fault.at.get_or_insert(self.node.at);
        fault
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.canonical()?;
        let result = match &self.node.value {
            Value::Null if matches!(self.policy, Policy::Go(_)) => visitor.visit_i64(0),
            Value::Int(n) => visitor.visit_i64(*n),
            Value::Uint(n) => visitor.visit_u64(*n),
            // Go writes the float as JSON, and a JSON number without fraction is an integer.
            Value::Float(f) => match whole(*f) {
                Some(n) if matches!(self.policy, Policy::Go(_)) => visitor.visit_i64(n),
                _ => visitor.visit_f64(*f),
            },
            _ => return Err(self.wrong("a number")),
        };
        result.map_err(|fault| self.placed(fault))
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let items: &[Node<'a>] = match &self.node.value {
            Value::List(items) => items,
            Value::Null => &[],
            _ => return Err(self.wrong("a list")),
        };
        let items = Items {
            de: self,
            items,
            next: 0,
        };
        visitor.visit_seq(items).map_err(|fault| self.placed(fault))
    }

    fn entries(self, wanted: &str) -> Result<&'a [(Cow<'a, str>, Node<'a>)], Fault> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries),
            Value::Null => Ok(&[]),
            _ => Err(self.wrong(wanted)),
        }
    }

    fn map<'de, V: Visitor<'de>>(
        self,
        entries: Vec<(&'a str, &'a Node<'a>)>,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let members = Members {
            de: self,
            entries,
            next: 0,
        };
        visitor
            .visit_map(members)
            .map_err(|fault| self.placed(fault))
    }

    /// The entries of this map under the names of `fields`.
    fn fields(
        self,
        fields: &'static [&'static str],
    ) -> Result<Vec<(&'a str, &'a Node<'a>)>, Fault> {
        let entries = self.entries("a map")?;
        let mut known: Vec<(&'a str, &'a Node<'a>)> = Vec::with_capacity(entries.len().min(16));
        for (key, node) in entries {
            let exact = fields.iter().find(|field| **field == key);
            match self.policy {
                Policy::Strict(_) => match exact {
                    Some(field) => known.push((field, node)),
                    None => {
                        let problem = Problem::Unknown(shown(key));
                        return Err(Fault::new(node.at, problem));
                    }
                },
                Policy::Go(notes) => {
                    let field = exact.or_else(|| fields.iter().find(|f| fold_eq(key, f)));
                    let Some(field) = field else {
                        note(&notes.unknown, key);
                        continue;
                    };
                    match known.iter_mut().find(|(name, _)| name == field) {
                        // Go decodes members in byte order: the later spelling wins.
                        Some(earlier) => {
                            note(&notes.doubled, key);
                            earlier.1 = node;
                        }
                        None => known.push((field, node)),
                    }
                }
            }
        }
        Ok(known)
    }
}

/// `f` as an integer where it is one.
fn whole(f: f64) -> Option<i64> {
    // Beyond 2^53 a float no longer names one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked before")]
    (f.fract() == 0.0 && f.abs() <= EXACT).then_some(f as i64)
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.number(visitor)
        }
    )*};
}

macro_rules! texts {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.visit_text(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for De<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.canonical()?;
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Int(n) => visitor.visit_i64(*n),
            Value::Uint(n) => visitor.visit_u64(*n),
            Value::Float(f) if f.is_finite() => visitor.visit_f64(*f),
            Value::Float(_) => Err(self.wrong("a finite number")),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(_) => self.list(visitor),
            Value::Map(_) => return self.deserialize_map(visitor),
        }
        .map_err(|fault| self.placed(fault))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.canonical()?;
        match (&self.node.value, self.policy) {
            (Value::Bool(b), _) => visitor.visit_bool(*b),
            (Value::Null, Policy::Go(_)) => visitor.visit_bool(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.number(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.number(visitor)
    }

    texts! {
        deserialize_char deserialize_str deserialize_string deserialize_identifier
        deserialize_bytes deserialize_byte_buf
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.nothing() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.nothing() {
            visitor.visit_unit()
        } else {
            Err(self.wrong("nothing"))
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor
            .visit_newtype_struct(self)
            .map_err(|fault| self.placed(fault))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.list(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let entries = self.entries("a map")?;
        let entries = entries.iter().map(|(key, node)| (&**key, node));
        self.map(entries.collect(), visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.map(self.fields(fields)?, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let choice = match &self.node.value {
            Value::Map(entries) => match entries.as_slice() {
                [(name, node)] => Choice {
                    name: Cow::Borrowed(&**name),
                    content: Some(self.of(node)),
                },
                _ => return Err(self.wrong("a map with one member")),
            },
            _ => Choice {
                name: self.text()?,
                content: None,
            },
        };
        visitor
            .visit_enum(choice)
            .map_err(|fault| self.placed(fault))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }
}

/// The elements of a list.
struct Items<'a> {
    de: De<'a>,
    items: &'a [Node<'a>],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(self.de.of(node))
            .map(Some)
            .map_err(|fault| fault.under(format_args!("[{index}]"), node.at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

/// The members of a map.
struct Members<'a> {
    de: De<'a>,
    entries: Vec<(&'a str, &'a Node<'a>)>,
    next: usize,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, node)) = self.entries.get(self.next) else {
            return Ok(None);
        };
        seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(*key))
            .map(Some)
            .map_err(|fault| fault.under(key, node.at))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some((key, node)) = self.entries.get(self.next) else {
            return Err(Fault::custom("a value was asked for before its key"));
        };
        self.next += 1;
        seed.deserialize(self.de.of(node))
            .map_err(|fault| fault.under(key, node.at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len() - self.next)
    }
}

/// One variant of an enum: its name, or a map of its name to its content.
struct Choice<'a> {
    name: Cow<'a, str>,
    content: Option<De<'a>>,
}

impl<'de, 'a> EnumAccess<'de> for Choice<'a> {
    type Error = Fault;
    type Variant = Content<'a>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Content<'a>), Fault> {
        let name = seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(
            self.name.as_ref(),
        ))?;
        Ok((name, Content(self.content)))
    }
}

struct Content<'a>(Option<De<'a>>);

impl<'a> Content<'a> {
    fn content(self) -> Result<De<'a>, Fault> {
        self.0
            .ok_or_else(|| Fault::invalid_type(Unexpected::UnitVariant, &"a map with one member"))
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.0 {
            Some(de) if !de.nothing() => Err(de.wrong("nothing")),
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.content()?.list(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.content()?.deserialize_struct("", fields, visitor)
    }
}
