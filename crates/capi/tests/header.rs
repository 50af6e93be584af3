//! The committed header is what the sources declare.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_config(config).with_src(root.join("src/lib.rs")).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = without_safety(&String::from_utf8(made).unwrap());
    let path = root.join("include/weft.h");
    if std::env::var("WEFT_SNAPSHOT").is_ok_and(|value| value == "write") {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == made, "include/weft.h is stale: WEFT_SNAPSHOT=write renews it");
}

/// Without the sections that Rust's readers need: what they say is what C's manual pages say anyway.
fn without_safety(header: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut skips = false;
    for line in header.lines() {
        if line == "// # Safety" {
            skips = true;
            lines.pop_if(|line| *line == "//");
        }
        skips &= line.starts_with("//");
        if !skips {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
