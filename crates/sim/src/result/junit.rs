//! Verdicts as JUnit's XML, which continuous integration reads.

use crate::scenario::Judged;
use std::fmt::Write as _;

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// One test suite a run: its name and verdicts.
pub fn junit<'a>(suites: impl IntoIterator<Item = (String, &'a [Judged])>) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (name, verdicts) in suites {
        let failures = verdicts.iter().filter(|verdict| verdict.failure.is_some()).count();
        let _ = writeln!(out, "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\">", escaped(&name), verdicts.len());
        for verdict in verdicts {
            let _ = write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escaped(&name), escaped(&verdict.name));
            let _ = match &verdict.failure {
                None => writeln!(out, "/>"),
                Some(why) => writeln!(out, "><failure message=\"{}\"/></testcase>", escaped(why)),
            };
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_does_not_break_the_xml() {
        let verdict = Judged { name: "a<b> & \"c\"".to_owned(), failure: Some("x\u{1}".to_owned()) };
        let text = junit([("s".to_owned(), &[verdict][..])]);
        assert!(text.contains("name=\"a&lt;b&gt; &amp; &quot;c&quot;\"><failure message=\"x?\"/>"), "{text}");
        assert!(text.contains("tests=\"1\" failures=\"1\""));
    }
}
