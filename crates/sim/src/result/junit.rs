//! Verdicts as JUnit's XML, which continuous integration reads.

use crate::scenario::Judged;
use crate::sweep::Said;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::io;
use std::time::Duration;

/// A run: its name, how long it took, and its verdicts.
pub struct Suite<'a> {
    /// Names it: file and seed.
    pub name: String,
    /// Real time.
    pub wall: Duration,
    /// What was expected.
    pub verdicts: &'a [Judged],
    /// Why there was no run; none: there was one.
    pub broken: Option<String>,
    /// The last lines of its programs.
    pub said: &'a [Said],
    /// The command that repeats it.
    pub repeat: String,
}

/// One test suite a run. Its time is the run's, which its tests share equally: they were one run.
///
/// # Errors
/// The library's own; in memory there are none.
pub fn junit<'a>(suites: impl IntoIterator<Item = Suite<'a>>) -> io::Result<String> {
    let mut report = Report::new("weft");
    report.add_test_suites(suites.into_iter().map(|suite| of_run(&suite)));
    report.to_string().map_err(io::Error::other)
}

fn of_run(suite: &Suite<'_>) -> TestSuite {
    let mut out = TestSuite::new(&suite.name);
    let share = suite.wall / u32::try_from(suite.verdicts.len().max(1)).unwrap_or(u32::MAX);
    let case = |name: &str, failure: Option<(NonSuccessKind, &String)>| {
        let status = match failure {
            None => TestCaseStatus::success(),
            Some((kind, why)) => {
                let mut status = TestCaseStatus::non_success(kind);
                // Readers make one line of what stands in an attribute.
                status.set_message(why.lines().next().unwrap_or_default());
                if why.lines().nth(1).is_some() {
                    status.set_description(why);
                }
                status
            }
        };
        let mut case = TestCase::new(name, status);
        case.set_classname(&suite.name).set_time(share);
        case
    };
    out.set_time(suite.wall);
    out.add_test_cases(suite.broken.iter().map(|why| case("the scenario", Some((NonSuccessKind::Error, why)))));
    let of_verdict = |verdict: &Judged| case(&verdict.name, verdict.failure.as_ref().map(|why| (NonSuccessKind::Failure, why)));
    out.add_test_cases(suite.verdicts.iter().map(of_verdict));
    if out.failures + out.errors > 0 && !suite.repeat.is_empty() {
        out.add_property(("repeat", suite.repeat.as_str()));
    }
    let (output, error) = (lines(suite.said, |said| &said.output), lines(suite.said, |said| &said.error));
    if !output.is_empty() {
        out.set_system_out(output);
    }
    if !error.is_empty() {
        out.set_system_err(error);
    }
    out
}

/// The lines of all programs, each behind its name.
fn lines(said: &[Said], of: impl Fn(&Said) -> &str) -> String {
    said.iter().flat_map(|said| of(said).lines().map(move |line| format!("{}: {line}\n", said.program))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_does_not_break_the_xml_and_each_run_has_its_time() {
        let verdict = Judged { name: "a<b> & \"c\"".to_owned(), failure: Some("x\u{1}".to_owned()) };
        let verdicts = [verdict.clone(), Judged { failure: None, ..verdict }];
        let said = [Said { program: "p".to_owned(), output: String::new(), error: "one\ntwo]]>\n".to_owned() }];
        let (wall, repeat) = (Duration::from_millis(2500), "weft sim s --seed 3".to_owned());
        let suite = Suite { name: "s".to_owned(), wall, verdicts: &verdicts, broken: None, said: &said, repeat };
        let broken = Some("no TOML\n  here".to_owned());
        let broken = Suite { name: "t".to_owned(), wall: Duration::ZERO, verdicts: &[], broken, said: &[], repeat: String::new() };
        let text = junit([suite, broken]).unwrap();
        assert!(text.contains("name=\"a&lt;b&gt; &amp; &quot;c&quot;\" classname=\"s\" time=\"1.250\""), "{text}");
        assert!(text.contains("<failure message=\"x") && !text.contains('\u{1}'), "{text}");
        assert!(text.contains("<testsuite name=\"s\" tests=\"2\" skipped=\"0\" errors=\"0\" failures=\"1\" time=\"2.500\">"), "{text}");
        assert!(text.contains("<error message=\"no TOML\">no TOML\n  here</error>"), "{text}");
        assert!(text.contains("<property name=\"repeat\" value=\"weft sim s --seed 3\"/>"), "{text}");
        assert!(text.contains("<system-err>p: one\np: two]]&gt;\n</system-err>") && !text.contains("system-out"), "{text}");
    }
}
