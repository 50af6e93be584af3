//! What a loadable block declares about itself: a TOML text in the file, read into a [`Kind`].
//!
//! ```toml
//! name = "alternate-c"               # its kind: letters, digits, '-' and '_'
//! version = "1.0.0"
//! summary = "one line"
//! doc = "the contract"
//! state_version = 1                  # of its exported state; 0 (default): it keeps none
//! bytes_max = 64                     # how much of each frame it wants to see; default: everything
//!
//! [[input]]
//! name = "in"
//! carries = "any"                    # any, ethernet, link, transport, datagram, error
//! doc = "any frames"
//!
//! [[output]]
//! name = "out"
//! carries = "any"
//! doc = "the same frames"
//!
//! [[parameter]]
//! name = "left"
//! type = "interface"                 # bool, unsigned, float, duration, rate, text, choice, interface, address
//! default = "left"
//! live = true
//! doc = "what it does"
//!
//! [[counter]]
//! name = "Left"
//! text = "frames sent left"
//!
//! [[drop]]                           # reasons for its own drops; each is a counter, too
//! name = "TooShort"
//! text = "no room for a header"
//!
//! [scheduler]                        # it schedules connections over several paths
//! repeats = false                    # it may give a subflow what others have
//! lends = true                       # a subflow that it leaves idle may carry what holds up the others
//! ```

use serde::Deserialize;
use weft_core::{Carries, Counter, Kind, Named, Parameter, ParameterType, Port, Table};

/// Longest manifest, bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 * 1024;
/// Most ports in one direction.
pub const PORTS_MAX: usize = 16;
/// Most parameters, counters, and reasons for drops, each.
pub const ROWS_MAX: usize = 64;
/// Most bytes of a frame that a block sees; what it keeps of larger ones is not copied.
pub const BYTES_MAX: u32 = 65_536;

/// The parameter that every loadable block has: what becomes of its path when it fails.
pub const ON_FAILURE: &str = "on_failure";
/// A parameter of WebAssembly blocks: fuel for one call.
pub const FUEL_MAX: &str = "fuel_max";
/// A parameter of WebAssembly blocks: memory.
pub const MEMORY_MAX_BYTES: &str = "memory_max_bytes";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    version: String,
    summary: String,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    state_version: u32,
    bytes_max: Option<u32>,
    #[serde(default)]
    input: Vec<RawPort>,
    #[serde(default)]
    output: Vec<RawPort>,
    #[serde(default)]
    parameter: Vec<RawParameter>,
    #[serde(default)]
    counter: Vec<RawCounter>,
    #[serde(default)]
    drop: Vec<RawCounter>,
    scheduler: Option<Schedules>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPort {
    name: String,
    carries: String,
    #[serde(default)]
    required: bool,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParameter {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    min: Option<toml::Value>,
    max: Option<toml::Value>,
    #[serde(default)]
    words: Vec<String>,
    default: toml::Value,
    #[serde(default)]
    live: bool,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounter {
    name: String,
    text: String,
}

/// How a block that schedules is to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedules {
    /// It may give a subflow what others have: it is asked even if nothing is new.
    #[serde(default)]
    pub repeats: bool,
    /// A subflow that it leaves idle may carry what holds up the others.
    #[serde(default = "yes")]
    pub lends: bool,
}

fn yes() -> bool {
    true
}

/// What a parameter's text stands for beyond its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The value as it is.
    Plain,
    /// An interface's name: the block gets its number, too.
    Interface,
    /// An IP address: the block gets its bytes, too.
    Address,
}

/// A manifest that was read.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    /// As the node knows it.
    pub kind: &'static Kind,
    /// One for each of the block's own parameters, which come first among the kind's.
    pub meanings: &'static [Meaning],
    /// How many of the kind's counters are the block's own. Those of its drops follow.
    pub counters: usize,
    /// How many reasons for drops it has.
    pub drops: usize,
    /// How much of each frame it sees, bytes.
    pub bytes_max: usize,
    /// It schedules.
    pub scheduler: Option<Schedules>,
}

/// Who runs the block: it decides which parameters are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// As WebAssembly, with limits.
    Wasm,
    /// As native code.
    Native,
    /// As a process.
    Process,
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn leak_all<T>(rows: Vec<T>) -> &'static [T] {
    Box::leak(rows.into_boxed_slice())
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= 32 && text.chars().all(fits)
}

/// Reads a manifest. `build` tells this file from others of the same version. What is read stays in memory for good: kinds are as long-lived as
/// the built-in ones, so the caller reads the same file once only.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn read(text: &str, build: &str, runs: Runs) -> Result<Manifest, String> {
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(format!("its manifest has {} bytes, at most {MANIFEST_BYTES_MAX}", text.len()));
    }
    let raw: Raw = toml::from_str(text).map_err(|error| format!("its manifest is no TOML as wanted: {}", error.to_string().trim_end()))?;
    check(&raw)?;
    let mut parameters = Vec::new();
    let mut meanings = Vec::new();
    for row in &raw.parameter {
        let (value, meaning) = parameter_type(row)?;
        parameters.push(Parameter {
            name: leak(row.name.clone()),
            value,
            default: leak(row.default.to_string()),
            live: row.live,
            doc: leak(row.doc.clone()),
        });
        meanings.push(meaning);
    }
    parameters.extend(added(runs));
    if let Some((at, twice)) =
        parameters.iter().enumerate().find(|(at, row)| parameters[..*at].iter().any(|before| before.name == row.name))
    {
        let whose = if at < meanings.len() { "declared twice" } else { "weft's own, give yours another name" };
        return Err(format!("its manifest: parameter '{}' is {whose}", twice.name));
    }
    let mut counters: Vec<Counter> = raw.counter.iter().map(counter).collect();
    counters.extend(raw.drop.iter().map(|row| Counter { name: leak(format!("Dropped{}", row.name)), ..counter(row) }));
    counters.push(Counter { name: "Failures", text: "times that it failed and was isolated" });
    // They are told by their names.
    if let Some((at, twice)) = counters.iter().enumerate().find(|(at, row)| counters[..*at].iter().any(|before| before.name == row.name)) {
        let whose = if at + 1 == counters.len() {
            "weft's own, give yours another name"
        } else {
            "declared twice (a drop 'X' counts as 'DroppedX')"
        };
        return Err(format!("its manifest: counter '{}' is {whose}", twice.name));
    }
    let has_interfaces = meanings.contains(&Meaning::Interface);
    let kind = Kind {
        name: leak(raw.name.clone()),
        summary: leak(raw.summary.clone()),
        doc: leak(if raw.doc.is_empty() { raw.summary.clone() } else { raw.doc.clone() }),
        inputs: ports("input", &raw.input)?,
        outputs: ports("output", &raw.output)?,
        parameters: leak_all(parameters),
        alerts: &[
            Named { name: "failed", doc: "block, kind, version, why: it failed and is isolated; its path is bypassed or closed" },
            Named { name: "said", doc: "text: what it has to say" },
        ],
        counters: leak_all(counters),
        owns: if raw.scheduler.is_some() { &[Table::Schedulers] } else { &[] },
        asks: if has_interfaces { &[Table::Interfaces] } else { &[] },
        state_version: raw.state_version,
        version: leak(format!("{}+{build}", raw.version)),
        ..Kind::EMPTY
    };
    Ok(Manifest {
        kind: Box::leak(Box::new(kind)),
        meanings: leak_all(meanings),
        counters: raw.counter.len(),
        drops: raw.drop.len(),
        bytes_max: raw.bytes_max.unwrap_or(BYTES_MAX).min(BYTES_MAX) as usize,
        scheduler: raw.scheduler,
    })
}

fn check(raw: &Raw) -> Result<(), String> {
    let named = |what: &str, name: &str| match is_name(name) {
        true => Ok(()),
        false => Err(format!("its manifest: '{name}' is no name for a {what}: letters, digits, '-' and '_', at most 32")),
    };
    named("kind", &raw.name)?;
    if raw.version.is_empty() || raw.version.len() > 32 || !raw.version.chars().all(|c| c.is_ascii_graphic()) {
        return Err(format!("its manifest: '{}' is no version such as \"1.0.0\"", raw.version));
    }
    for (what, rows, max) in [
        ("inputs", raw.input.len(), PORTS_MAX),
        ("outputs", raw.output.len(), PORTS_MAX),
        ("parameters", raw.parameter.len(), ROWS_MAX),
        ("counters", raw.counter.len(), ROWS_MAX),
        ("reasons for drops", raw.drop.len(), ROWS_MAX),
    ] {
        if rows > max {
            return Err(format!("its manifest has {rows} {what}, at most {max}"));
        }
    }
    raw.input.iter().chain(&raw.output).try_for_each(|row| named("port", &row.name))?;
    raw.parameter.iter().try_for_each(|row| named("parameter", &row.name))?;
    raw.counter.iter().chain(&raw.drop).try_for_each(|row| named("counter", &row.name))
}

fn counter(row: &RawCounter) -> Counter {
    Counter { name: leak(row.name.clone()), text: leak(row.text.clone()) }
}

fn ports(what: &str, rows: &[RawPort]) -> Result<&'static [Port], String> {
    let mut out: Vec<Port> = Vec::new();
    for row in rows {
        let carries = match row.carries.as_str() {
            "any" => Carries::Any,
            "ethernet" => Carries::Ethernet,
            "link" => Carries::Link,
            "transport" => Carries::Transport,
            "datagram" => Carries::Datagram,
            "error" => Carries::Error,
            other => {
                return Err(format!(
                    "its manifest: {what} '{}' carries '{other}'; use any, ethernet, link, transport, datagram or error",
                    row.name
                ));
            }
        };
        if out.iter().any(|port| port.name == row.name) {
            return Err(format!("its manifest: {what} '{}' is declared twice", row.name));
        }
        let (name, doc) = (leak(row.name.clone()), leak(row.doc.clone()));
        out.push(Port { name, carries, required: row.required, outside: false, doc });
    }
    Ok(leak_all(out))
}

fn parameter_type(row: &RawParameter) -> Result<(ParameterType, Meaning), String> {
    let bad = |why: &str| format!("its manifest: parameter '{}' {why}", row.name);
    let whole = |bound: &Option<toml::Value>, otherwise: u64| match bound {
        None => Ok(otherwise),
        Some(value) => value.as_integer().and_then(|n| u64::try_from(n).ok()).ok_or_else(|| bad("has a bound that is no whole number")),
    };
    let real = |bound: &Option<toml::Value>, otherwise: f64| match bound {
        None => Ok(otherwise),
        Some(value) => value
            .as_float()
            .or_else(|| value.as_integer().map(|n| n as f64))
            .filter(|n| n.is_finite())
            .ok_or_else(|| bad("has a bound that is no number")),
    };
    let value = match row.kind.as_str() {
        "bool" => ParameterType::Bool,
        "unsigned" => ParameterType::Unsigned { min: whole(&row.min, 0)?, max: whole(&row.max, u64::MAX)? },
        "float" => ParameterType::Float { min: real(&row.min, f64::MIN)?, max: real(&row.max, f64::MAX)? },
        "duration" => ParameterType::Duration,
        "rate" => ParameterType::Rate,
        "text" | "address" => ParameterType::Text,
        "interface" => ParameterType::Interface,
        "choice" if row.words.is_empty() => return Err(bad("is a choice without words")),
        "choice" => ParameterType::Choice(leak_all(row.words.iter().cloned().map(leak).collect())),
        other => {
            return Err(bad(&format!(
                "is of type '{other}'; use bool, unsigned, float, duration, rate, text, choice, interface or address"
            )));
        }
    };
    let json = serde_json::to_value(&row.default).unwrap_or_default();
    let declared = Parameter { name: "default", value, default: "", live: false, doc: "" };
    weft_core::parameter::normalise(&row.name, &declared, &json).map_err(|error| format!("its manifest: {error}"))?;
    let meaning = match row.kind.as_str() {
        "interface" => Meaning::Interface,
        "address" => Meaning::Address,
        _ => Meaning::Plain,
    };
    Ok((value, meaning))
}

/// Parameters that every loadable block gets.
fn added(runs: Runs) -> impl Iterator<Item = Parameter> {
    let always = [Parameter {
        name: ON_FAILURE,
        value: ParameterType::Choice(&["close", "bypass"]),
        default: "\"close\"",
        live: true,
        doc: "what becomes of frames when the block has failed: close drops them, bypass lets them through as they are",
    }];
    let limits = [
        Parameter {
            name: FUEL_MAX,
            value: ParameterType::Unsigned { min: 10_000, max: 10_000_000_000 },
            default: "20000000",
            live: true,
            doc: "most instructions (about) of one call, which may bring 64 frames; a block that needs more has failed",
        },
        Parameter {
            name: MEMORY_MAX_BYTES,
            value: ParameterType::Unsigned { min: 1 << 20, max: 1 << 30 },
            default: "16777216",
            live: false,
            doc: "most memory; a block that wants more has failed",
        },
    ];
    always.into_iter().chain(limits.into_iter().filter(move |_| runs == Runs::Wasm))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "name = \"a\"\nversion = \"1\"\nsummary = \"s\"\n";

    fn wrong(more: &str) -> String {
        read(&format!("{SOUND}{more}"), "0", Runs::Wasm).unwrap_err()
    }

    #[test]
    fn a_manifest_becomes_a_kind() {
        let text = format!(
            "{SOUND}state_version = 3\n[[input]]\nname = \"in\"\ncarries = \"link\"\ndoc = \"d\"\n[[parameter]]\nname = \"via\"\ntype = \"interface\"\n\
             default = \"eth0\"\ndoc = \"d\"\n[[counter]]\nname = \"Seen\"\ntext = \"t\"\n[[drop]]\nname = \"Odd\"\ntext = \"t\"\n"
        );
        let manifest = read(&text, "abc", Runs::Wasm).unwrap();
        let kind = manifest.kind;
        assert_eq!((kind.name, kind.version, kind.state_version), ("a", "1+abc", 3));
        assert_eq!(kind.counters.iter().map(|row| row.name).collect::<Vec<_>>(), ["Seen", "DroppedOdd", "Failures"]);
        assert_eq!(
            kind.parameters.iter().map(|row| (row.name, row.default)).collect::<Vec<_>>(),
            [("via", "\"eth0\""), (ON_FAILURE, "\"close\""), (FUEL_MAX, "20000000"), (MEMORY_MAX_BYTES, "16777216")]
        );
        assert_eq!((kind.asks, manifest.meanings), (&[Table::Interfaces][..], &[Meaning::Interface][..]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(read("nonsense", "0", Runs::Wasm).unwrap_err().contains("no TOML"));
        assert!(wrong("colour = 1\n").contains("unknown field `colour`"));
        assert!(wrong("[[input]]\nname = \"in\"\ncarries = \"stream\"\ndoc = \"\"\n").contains("carries 'stream'; use any, "));
        assert!(wrong("[[input]]\nname = \"a b\"\ncarries = \"any\"\ndoc = \"\"\n").contains("no name for a port"));
        let parameter = |rest: &str| wrong(&format!("[[parameter]]\nname = \"p\"\ndoc = \"\"\n{rest}\n"));
        assert!(parameter("type = \"number\"\ndefault = 1").contains("is of type 'number'; use bool, "));
        assert!(parameter("type = \"unsigned\"\ndefault = 9\nmax = 8").contains("9 is out of range: 0 to 8"));
        assert!(parameter("type = \"choice\"\ndefault = \"a\"").contains("choice without words"));
        let twice = "[[parameter]]\nname = \"on_failure\"\ndoc = \"\"\ntype = \"bool\"\ndefault = true\n";
        assert!(wrong(twice).contains("'on_failure' is weft's own"));
        let counter = |what: &str, name: &str| format!("[[{what}]]\nname = \"{name}\"\ntext = \"\"\n");
        assert!(wrong(&counter("counter", "Failures")).contains("'Failures' is weft's own"));
        assert!(wrong(&counter("counter", "Seen").repeat(2)).contains("counter 'Seen' is declared twice"));
        assert!(wrong(&(counter("counter", "DroppedOdd") + &counter("drop", "Odd"))).contains("counter 'DroppedOdd' is declared twice"));
        let many = "[[output]]\nname = \"o\"\ncarries = \"any\"\ndoc = \"\"\n".repeat(17);
        assert!(wrong(&many).contains("17 outputs, at most 16"));
    }
}
