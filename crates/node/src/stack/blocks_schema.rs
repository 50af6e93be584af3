//! The schema of `[block.NAME]`: what stands there is read as it is, and means what the block's kind declares.

use crate::default_graph::BLOCKS;
use crate::kinds::block_table;
use crate::schema::of_parameter;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use weft_core::Kind;

/// A block that says of which kind it is: parameters are those of that kind, and any if a file of `load` has it.
const OF_ANY_KIND: &str = "Block";

/// The sections of blocks, by the blocks' names.
pub(super) struct Blocks;

impl JsonSchema for Blocks {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Blocks".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds = block_table();
        let mut choice = Vec::new();
        for row in kinds.iter() {
            let (name, schema) = (definition(row.kind.name), of_kind(row.kind, generator));
            choice.push(json!({ "if": { "properties": { "kind": { "const": row.kind.name } } }, "then": reference(&name) }));
            generator.definitions_mut().insert(name, schema);
        }
        let known: Vec<&str> = kinds.iter().map(|row| row.kind.name).collect();
        let kind = json!({
            "type": "string",
            "description": "Its kind: `weft help blocks` lists them. Default: the block's name.",
            "examples": known,
        });
        let any = json!({ "type": "object", "properties": { "kind": kind }, "if": { "required": ["kind"] }, "then": { "allOf": choice } });
        generator.definitions_mut().insert(OF_ANY_KIND.to_owned(), any);
        // A block is of the kind that its section says, else of the default graph's, else of that of its own name.
        let of_names: IndexMap<&str, &str> = known.iter().map(|name| (*name, *name)).chain(BLOCKS.iter().copied()).collect();
        let properties: Map<String, Value> = of_names.into_iter().map(|(name, kind)| (name.to_owned(), named(kind))).collect();
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": reference(OF_ANY_KIND) })
    }
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

fn definition(kind: &str) -> String {
    format!("{OF_ANY_KIND}_{kind}")
}

/// A block whose name decides of which kind it is, unless it says so.
fn named(kind: &str) -> Value {
    json!({ "if": { "required": ["kind"] }, "then": reference(OF_ANY_KIND), "else": reference(&definition(kind)) })
}

/// The parameters of a kind.
fn of_kind(kind: &Kind, generator: &mut SchemaGenerator) -> Value {
    let parameters = kind.parameters.iter().map(|row| (row.name.to_owned(), of_parameter(row, generator).to_value()));
    let properties: Map<String, Value> = [("kind".to_owned(), json!({ "type": "string" }))].into_iter().chain(parameters).collect();
    json!({ "type": "object", "description": format!("{}.", kind.summary), "properties": properties, "additionalProperties": false })
}
