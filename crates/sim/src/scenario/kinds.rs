//! What is said about a value of the wrong kind: how to write it, by the key that it stands behind.

/// How the value of a key is written.
const EXAMPLES: [(&[&str], &str); 23] = [
    (&["delay", "jitter", "reorder_by", "interval", "target", "sample"], "\"20ms\""),
    (&["duration", "boot", "at", "start", "end_min", "end_max"], "\"10s\""),
    (&["per_call"], "\"1us\""),
    (&["clock"], "{ offset = \"250ms\", drift = \"40ppm\" }"),
    (&["carrier"], "false, or { delay = \"50ms\" }"),
    (&["offset"], "\"250ms\""),
    (&["drift"], "\"40ppm\""),
    (&["rate", "goodput_min", "goodput_max"], "\"100mbit\""),
    (&["loss", "corrupt", "duplicate", "reorder", "to_bad", "to_good", "loss_good", "loss_bad"], "0.01 (one in a hundred)"),
    (&["command"], "[\"curl\", \"-s\", \"http://server/\"]"),
    (&["between"], "[\"client\", \"server\"]"),
    (&["partition"], "[[\"client\"], [\"router\", \"server\"]]"),
    (&["memory"], "\"512MiB\""),
    (&["output_max"], "\"1GiB\""),
    (&["to"], "\"server:5001\""),
    (&["port"], "5001"),
    (&["seed"], "7"),
    (&["count", "bytes", "size", "min", "max"], "1000"),
    (&["environment"], "{ LANG = \"C.UTF-8\" }"),
    (&["routes"], "[{ destination = \"default\", gateway = \"10.9.0.2\" }]"),
    (&["nexthops"], "[{ gateway = \"10.9.0.2\", weight = 3 }, { gateway = \"10.8.0.2\" }]"),
    (&["addresses"], "{ eth0 = \"10.9.0.1/24\" }"),
    (&["lose"], "[3, 17]"),
];

/// Names of types, as programmers have them, and as people do.
const WORDS: [(&str, &str); 10] = [
    ("expected f64", "expected a number"),
    ("expected a sequence", "expected a list"),
    ("expected u16", "expected a whole number up to 65535"),
    ("expected u32", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected i32", "expected a whole number"),
    ("expected a string", "expected a text"),
    ("expected a map", "expected a table"),
    ("invalid type: string", "this is the text"),
    ("invalid type: ", "this is the "),
];

/// Which numbers fit.
const BOUNDS: [(&str, &str); 5] = [
    ("invalid value: integer", "this is the integer"),
    ("expected u16", "expected one from 0 to 65535"),
    ("expected u32", "expected one from 0 to 4294967295"),
    ("expected u64", "expected one from 0 on"),
    ("expected i32", "expected one from -2147483648 to 2147483647"),
];

/// Where a value of the wrong kind stands.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Behind this part of the file.
    File(&'a str),
    /// In an assignment of the command line, as a whole: a text needs no quotes there.
    Set(&'a str),
}

/// The message in people's words, and what to do; None: it is about something else.
pub(super) fn explain(message: &str, place: Place<'_>) -> Option<(String, String)> {
    let words = match message {
        _ if message.starts_with("invalid type") => &WORDS[..],
        _ if message.starts_with(BOUNDS[0].0) => &BOUNDS[..],
        _ => return None,
    };
    let what = words.iter().fold(message.trim().to_owned(), |text, (from, to)| text.replacen(from, to, 1));
    let scalar = what.split('`').nth(1).filter(|_| what.contains("expected a text"));
    let found = match place {
        Place::File(before) => example(before),
        Place::Set(assignment) => assignment.find('=').and_then(|at| example(assignment.get(..=at)?)),
    };
    let help = match (found, scalar) {
        (Some((key, value)), _) => match place {
            Place::File(_) => format!("write it as {key} = {value}"),
            Place::Set(_) => format!("write it as {key}={}", value.trim_matches('"')),
        },
        (None, Some(scalar)) => {
            format!("a text stands in quotes: \"{scalar}\"; behind --set a shell wants others around them: '\"{scalar}\"'")
        }
        (None, None) => "`weft help scenario` shows an example".to_owned(),
    };
    Some((what, help))
}

/// The key that ends here, and how its value is written.
fn example(before: &str) -> Option<(&str, &'static str)> {
    let line = before.rsplit('\n').next()?.trim_end().strip_suffix('=')?.trim_end();
    let start = line.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let key = line.get(start..)?;
    EXAMPLES.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, value)| (key, *value))
}
