//! The whole search: inputs in, report out.

use std::path::Path;

use kubepkg_core::Reference;
use serde_json::Value as Json;

use crate::annotations::annotations;
use crate::chart::Chart;
use crate::error::Error;
use crate::explore::{explore, settings};
use crate::found::{Findings, How};
use crate::helm::{Helm, Options, Rendered, Renderer};
use crate::inputs::Inputs;
use crate::possible::{Possible, literals, possible};
use crate::report::{Failed, Report};
use crate::rules::Rules;
use crate::values::Values;
use crate::walk::walk;

/// How charts are searched.
#[derive(Debug)]
pub struct Search<'a> {
    /// What is known of kinds.
    pub rules: &'a Rules,
    /// What charts are rendered with.
    pub options: &'a Options,
    /// Whether settings are tried, too.
    pub explore: bool,
    /// An empty folder for copies of charts, which is the caller's to remove.
    pub scratch: &'a Path,
}

impl Search<'_> {
    /// Searches everything. `helm` is needed where there are charts.
    ///
    /// Charts that do not render are among what is reported, and so is what their values name;
    /// the errors come beside it.
    ///
    /// # Errors
    /// There are charts and no Helm.
    pub fn run(&self, inputs: Inputs, helm: Option<&Helm>) -> Result<(Report, Vec<Error>), Error> {
        let mut report = Report {
            outside: inputs.outside,
            ..Report::default()
        };
        let mut errors = Vec::new();
        for text in &inputs.texts {
            report.add(walk(&text.source, &text.text, self.rules));
        }
        for (n, chart) in inputs.charts.iter().enumerate() {
            let helm = helm.ok_or_else(|| Error::NoHelm { looked: Vec::new() })?;
            let scratch = self.scratch.join(n.to_string());
            if let Err(error) = self.chart(chart, helm, &scratch, &mut report) {
                report.failed.push(Failed {
                    chart: chart.origin.clone(),
                    why: error.words(),
                });
                report.add_possible(&chart.origin, self.possible(chart, &Json::Null, &[]), None);
                errors.push(error);
            }
        }
        report.tidy();
        Ok((report, errors))
    }

    fn chart(
        &self,
        chart: &Chart,
        helm: &Helm,
        scratch: &Path,
        report: &mut Report,
    ) -> Result<(), Error> {
        let renderer = Renderer::new(helm, chart, self.options, scratch)?;
        if renderer.skips_schema() {
            report.schemas_skipped.push(chart.origin.clone());
        }
        let rendered = renderer.render(&[])?;
        let findings = self.findings(chart, &rendered);
        let found: Vec<Reference> = findings
            .sightings
            .iter()
            .filter(|seen| seen.how != How::Possible)
            .map(|seen| seen.image.clone())
            .collect();
        let explored = self.explore.then(|| {
            let values = Values::of(chart, &rendered.values);
            let settings = settings(chart, &values, &self.options.api_versions);
            let known = |image: &Reference| found.contains(image);
            explore(&settings, known, |extra| {
                let rendered = renderer.render(std::slice::from_ref(extra))?;
                Ok(self.findings(chart, &rendered))
            })
        });
        let possible = self.possible(chart, &rendered.values, &found);
        report.add(findings);
        report.add_possible(&chart.origin, possible, explored);
        Ok(())
    }

    fn findings(&self, chart: &Chart, rendered: &Rendered) -> Findings {
        let mut findings = walk(&chart.origin, &rendered.text, self.rules);
        let source = format!("{}/Chart.yaml", chart.metadata.name);
        findings.merge(annotations(
            &source,
            &chart.metadata.annotations,
            self.rules,
        ));
        findings
    }

    fn possible(&self, chart: &Chart, values: &Json, found: &[Reference]) -> Vec<Possible> {
        let found = found.iter().cloned().collect();
        let mut possible = possible(&Values::of(chart, values), &found, self.rules);
        let by_values: Vec<Reference> = possible.iter().map(|one| one.image.clone()).collect();
        let literals = literals(chart, &found, self.rules).into_iter();
        possible.extend(literals.filter(|one| !by_values.contains(&one.image)));
        possible
    }
}
