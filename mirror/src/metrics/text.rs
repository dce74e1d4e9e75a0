//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// It only grows; it begins anew with the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a metric: what follows are its values. `help` is one line without a backslash.
    pub(super) fn metric(
        &mut self,
        name: &'static str,
        kind: Type,
        help: &'static str,
    ) -> Metric<'_> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
        };
        let text = &mut self.0;
        // writing to a text never fails
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Metric { text, name }
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// A metric whose values are written.
pub(super) struct Metric<'t> {
    text: &'t mut String,
    name: &'static str,
}

impl Metric<'_> {
    /// Its only value.
    pub(super) fn is(&mut self, value: impl Display) -> &mut Self {
        self.with(&[], value)
    }

    /// A value with labels.
    pub(super) fn with(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.text.push_str(self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(text, self.text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
        self
    }
}

fn escape(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_value_below_help_and_type() {
        let mut text = Text::default();
        text.metric("a_total", Type::Counter, "What a is.").is(7);
        text.metric("b", Type::Gauge, "What b is.")
            .with(&[("x", "1"), ("y", "2")], 0.5)
            .with(&[("x", "say \"a\\b\"\nc"), ("y", "é")], -1);
        assert_eq!(
            text.finish(),
            "# HELP a_total What a is.\n# TYPE a_total counter\na_total 7\n\
             # HELP b What b is.\n# TYPE b gauge\nb{x=\"1\",y=\"2\"} 0.5\n\
             b{x=\"say \\\"a\\\\b\\\"\\nc\",y=\"é\"} -1\n"
        );
    }
}
