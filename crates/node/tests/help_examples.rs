//! The examples in the help of blocks.

use crate::common::Pair;
use crate::edges::told;
use weft_node::block_table;

#[test]
fn examples_of_help_work_as_they_stand() {
    let mut tried = 0;
    for row in block_table().iter() {
        let name = row.kind.name;
        let Some((_, example)) = row.kind.doc.split_once("Example: ") else { continue };
        let lines: Vec<&str> = example.split(';').map(str::trim).collect();
        if !lines[0].starts_with(&format!("insert {name} ")) || example.contains('"') {
            continue;
        }
        let mut pair = Pair::new(0, "");
        let (node, now) = (&mut pair.nodes[0], pair.now);
        if name != "counter" {
            told(node, now, "add counter counter").unwrap();
        }
        told(node, now, &format!("add {name} {name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        for line in lines {
            told(node, now, line).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
        }
        tried += 1;
    }
    assert!(tried > 15, "{tried}");
}
