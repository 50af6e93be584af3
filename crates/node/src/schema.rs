//! JSON schemas of files that people write, for editors: made from the types that read them, and of these texts within them.
//!
//! A schema knows shapes. Whether a name is one that the file has, only [`crate::Stack`] and the world know.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::borrow::Cow;
use weft_core::block::{Parameter, ParameterType, SCHEDULER_BLOCK};

/// The schema of a kind of file that this type reads, for people who write one: nothing in TOML is null.
pub fn of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(WithoutNull);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// A field that may be left out is not one that may be null, and has no default of the parser's.
#[derive(Clone)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(ways)) = schema.get_mut("anyOf") {
            ways.retain(|way| way["type"] != "null");
            if let [Value::Object(only)] = &ways[..] {
                let only: Map<String, Value> = only.clone();
                schema.remove("anyOf");
                only.into_iter().for_each(|(key, value)| drop(schema.insert(key, value)));
            }
        }
        // Descriptions tell of defaults as a person writes them.
        schema.remove("default");
        transform_subschemas(self, schema);
    }
}

/// A number as [`weft_core::parameter`] reads it before a unit.
const NUMBER: &str = r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)";

/// A kind of text that is no type of its own where it is read.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $schema:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

texts! {
    /// What [`weft_core::parameter::parse_duration`] reads.
    TimeSpan: json_schema!({
        "type": "string", "pattern": format!(r"^\s*{NUMBER}\s*(ns|us|µs|ms|s|m|min|h)\s*$"), "examples": ["20ms", "1.5s"]
    });
    /// The same, of which one may be negative.
    SignedSpan: json_schema!({
        "type": "string", "pattern": r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ns|us|µs|ms|s|m|min|h)\s*$", "examples": ["250ms", "-2s"]
    });
    /// How much too fast a crystal is.
    Drift: json_schema!({ "type": "string", "pattern": r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*pp[mb]\s*$", "examples": ["40ppm", "-1.5ppm"] });
    /// What [`weft_core::parameter::parse_rate`] reads.
    Rate: json_schema!({
        "type": "string",
        "pattern": format!(r"^\s*{NUMBER}\s*([KkMmGgTt]?[Bb][Ii][Tt](/[Ss])?|[Bb][Pp][Ss])\s*$"),
        "examples": ["100mbit", "1gbit"]
    });
    /// Bytes with a unit.
    Size: json_schema!({ "type": "string", "pattern": r"^\s*\+?[0-9]+\s*(KiB|MiB|GiB)$", "examples": ["512MiB", "1GiB"] });
    /// From 0 to 1.
    Probability: json_schema!({ "type": "number", "minimum": 0, "maximum": 1 });
    /// A point in time, which has a type of its own in TOML.
    Moment: json_schema!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}" });
    /// Any value.
    Setting: json_schema!(true);
    /// True or false, as settings of blocks have it.
    Flag: json_schema!({ "anyOf": [{ "type": "boolean" }, { "enum": ["true", "on", "yes", "1", "false", "off", "no", "0"] }] });
}

/// What a parameter of a block takes: [`weft_core::parameter::normalise`], with [`weft_core::parameter::check_unit`].
pub(crate) fn of_parameter(row: &Parameter, generator: &mut SchemaGenerator) -> Schema {
    // A number may be a text, and bounds are for numbers.
    let text = r"^\s*[-+.0-9eE]+\s*$";
    let mut schema = match row.value {
        ParameterType::Bool => generator.subschema_for::<Flag>(),
        ParameterType::Unsigned { min, max: u64::MAX } => json_schema!({ "type": ["integer", "string"], "minimum": min, "pattern": text }),
        ParameterType::Unsigned { min, max } => {
            json_schema!({ "type": ["integer", "string"], "minimum": min, "maximum": max, "pattern": text })
        }
        ParameterType::Float { min, max } => {
            json_schema!({ "type": ["number", "string"], "minimum": min, "maximum": max, "pattern": text })
        }
        ParameterType::Duration => generator.subschema_for::<TimeSpan>(),
        ParameterType::Rate => generator.subschema_for::<Rate>(),
        ParameterType::Text | ParameterType::Interface => json_schema!({ "type": "string" }),
        ParameterType::Choice(words) => json_schema!({ "enum": words }),
        ParameterType::Scheduler(words) => {
            json_schema!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": format!("^{}.", SCHEDULER_BLOCK) }] })
        }
        ParameterType::List => json_schema!({ "type": "array" }),
    };
    let default = row.default.trim_matches('"');
    schema.insert("description".to_owned(), format!("{}. Default: {default}.", row.doc.trim_end_matches('.')).into());
    schema
}
