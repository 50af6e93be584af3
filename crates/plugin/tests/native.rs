//! Native objects made by the machine's C compiler.

use crate::common;

use common::{counter, engine, folder, frames, row, send, tell};
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

fn compile(folder: &Path, name: &str, source: &str, more: &[&str]) -> PathBuf {
    let (from, to) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&from, source).unwrap();
    let done = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I", HEADER, "-o"])
        .args([&to, &from])
        .args(more)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    to
}

const MANIFEST: &str = r#"WEFT_BLOCK(
    "name = \"n\"\nversion = \"1\"\nsummary = \"s\"\nstate_version = 2\n"
    "[[input]]\nname = \"in\"\ncarries = \"any\"\ndoc = \"d\"\n[[output]]\nname = \"out\"\ncarries = \"any\"\ndoc = \"d\"\n"
    "[[parameter]]\nname = \"first\"\ntype = \"unsigned\"\nmax = 255\ndefault = 1\nlive = true\ndoc = \"d\"\n"
    "[[counter]]\nname = \"Seen\"\ntext = \"t\"\n")
"#;

const BLOCK: &str = r#"
#include <stdlib.h>
struct block { uint8_t first; uint64_t seen; };
void *weft_block_new(void) { return calloc(1, sizeof(struct block)); }
void weft_block_free(void *self) { free(self); }
int32_t weft_block_check(void *self, uint32_t parameter, const weft_value *value) { (void)self; (void)parameter; return value->number == 13; }
void weft_block_set(void *self, uint32_t parameter, const weft_value *value) { (void)parameter; ((struct block *)self)->first = (uint8_t)value->number; }
void weft_block_timer(void *self, uint64_t token) { (void)self; (void)token; weft_say("tick", 4); }
uint32_t weft_block_export(void *self, uint8_t *bytes, uint32_t room) { (void)room; bytes[0] = (uint8_t)((struct block *)self)->seen; return 1; }
int32_t weft_block_import(void *self, uint32_t version, const uint8_t *bytes, uint32_t length) {
    if (version != 2 || length != 1) return 1;
    ((struct block *)self)->seen = bytes[0];
    return 0;
}
void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {
    struct block *block = self;
    (void)input;
    for (uint32_t at = 0; at < count; at++) {
        if (frames[at].length > 0) frames[at].data[0] = block->first;
        frames[at].edited = WEFT_EDITED_BYTES;
        frames[at].verdict = VERDICT;
        block->seen++;
        weft_count(0, block->seen);
    }
    weft_set_timer(1, 1000);
}
"#;

fn source(verdict: &str) -> String {
    format!("#include \"weft-block.h\"\n{MANIFEST}{}", BLOCK.replace("VERDICT", verdict))
}

#[test]
fn a_native_block_does_what_a_block_does() {
    let folder = folder("native");
    compile(&folder, "n", &source("WEFT_FORWARD(0)"), &[]);
    let mut engine = engine(folder);
    tell(&mut engine, "load n.so\nadd b n first=7\nbind b:out end:in").unwrap();
    let out = send(&mut engine, frames(3, 2000));
    assert!(out.iter().all(|frame| frame.to_vec()[0] == 7 && frame.len() == 2000), "edited in place");
    assert_eq!(counter(&mut engine, "Seen"), 1 + 2 + 3);
    assert!(tell(&mut engine, "set b.first 13").unwrap_err().to_string().contains("the block does not take '13'"));
    tell(&mut engine, "set b.first 9").unwrap();
    tell(&mut engine, "replace b n").unwrap();
    assert_eq!(send(&mut engine, frames(1, 10))[0].to_vec()[0], 9);
    assert_eq!(counter(&mut engine, "Seen"), 6 + 4, "counters and state pass to the new one");
    engine.run(weft_core::Instant::from_nanos(1000));
    assert_eq!(engine.take_alerts()[0].value["text"], "tick");
}

#[test]
fn an_object_of_another_version_is_refused_with_both_numbers() {
    let folder = folder("native-version");
    // The one beside a source is taken before weft's.
    let _ = std::fs::remove_file(folder.join("weft-block.h"));
    compile(&folder, "right", &source("WEFT_FORWARD(0)"), &[]);
    let text = std::fs::read_to_string(Path::new(HEADER).join("weft-block.h")).unwrap();
    std::fs::write(folder.join("weft-block.h"), text.replace("WEFT_BLOCK_INTERFACE 1", "WEFT_BLOCK_INTERFACE 2")).unwrap();
    compile(&folder, "new", &source("WEFT_FORWARD(0)"), &[]);
    compile(&folder, "other", "int nothing = 1;\n", &[]);
    let mut engine = engine(folder);
    assert_eq!(
        tell(&mut engine, "load new.so").unwrap_err().to_string(),
        "cannot load 'new.so': it is built for version 2 of the block interface, this weft has 1: build it anew with this weft's weft-block.h"
    );
    assert!(tell(&mut engine, "load other.so").unwrap_err().to_string().contains("it has no weft_block_interface"));
    std::fs::write(common::folder("native-version").join("cut.so"), b"\x7fELF\x02\x01\x01").unwrap();
    assert!(tell(&mut engine, "load cut.so").unwrap_err().to_string().contains("it is no object that runs here"));
    tell(&mut engine, "load right.so").unwrap();
}

#[test]
fn nothing_runs_of_an_object_that_is_no_block_of_this_interface() {
    let folder = folder("native-constructor");
    let said = folder.join("said");
    // It leaves a file behind, and then it never ends.
    let constructor = format!(
        "#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void run(void) {{ close(open(\"{}\", O_CREAT | O_WRONLY, 0600)); for (;;) pause(); }}\n",
        said.display()
    );
    let header = std::fs::read_to_string(Path::new(HEADER).join("weft-block.h")).unwrap();
    let number = "const uint32_t weft_block_interface_number = ";
    let without = header.lines().filter(|line| !line.contains(number)).map(|line| format!("{line}\n")).collect::<String>();
    let mut engine = engine(folder.clone());
    let right = source("WEFT_FORWARD(0)");
    let cases = [
        (
            "newer",
            header.replace("WEFT_BLOCK_INTERFACE 1", "WEFT_BLOCK_INTERFACE 2"),
            right.clone(),
            "it is built for version 2 of the block interface",
        ),
        ("older", without, right.clone(), "it has no weft_block_interface_number: build it anew"),
        ("none", header.clone(), String::new(), "it has no weft_block_interface: is it a block"),
        (
            "half",
            header.clone(),
            right.replace("void weft_block_process(", "void some_other_process("),
            "it has no weft_block_process: is it a block",
        ),
    ];
    for (name, header, source, why) in cases {
        std::fs::write(folder.join("weft-block.h"), header).unwrap();
        compile(&folder, name, &format!("{constructor}{source}"), &[]);
        let refused = tell(&mut engine, &format!("load {name}.so")).unwrap_err().to_string();
        assert!(refused.contains(why), "{name}: {refused}");
        assert!(!said.exists(), "{name}: its constructor has run");
    }
    // One of the right interface is trusted: what it does as it is loaded happens.
    std::fs::remove_file(folder.join("weft-block.h")).unwrap();
    compile(&folder, "right", &format!("{}{right}", constructor.replace("for (;;) pause();", "")), &[]);
    tell(&mut engine, "load right.so").unwrap();
    assert!(said.exists());
    std::fs::remove_file(&said).unwrap();
    // What is cut off somewhere runs nothing either.
    let whole = std::fs::read(folder.join("right.so")).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 100 + 1) {
        std::fs::write(folder.join("cut.so"), &whole[..at]).unwrap();
        assert!(tell(&mut engine, "load cut.so").is_err() && !said.exists(), "cut at {at}");
    }
}

#[test]
fn what_a_native_block_says_is_checked_as_any_blocks() {
    let folder = folder("native-nonsense");
    compile(&folder, "n", &source("WEFT_FORWARD(3)"), &[]);
    let mut engine = engine(folder);
    tell(&mut engine, "load n.so\nadd b n on_failure=bypass\nbind b:out end:in").unwrap();
    assert_eq!(send(&mut engine, frames(4, 60)).len(), 4);
    assert_eq!(row(&mut engine, "blocks", "b")["failure"], "it gave the verdict 'through port 3', and it has 1 outputs (frame 0 of 4)");
}

#[test]
fn the_header_is_also_cpp() {
    let folder = folder("native-cpp");
    let from = folder.join("n.cc");
    std::fs::write(
        &from,
        "#include \"weft-block.h\"\nstatic_assert(sizeof(weft_frame) == 112, \"\");\nstatic_assert(sizeof(weft_value) == 48, \"\");\n",
    )
    .unwrap();
    let done = Command::new("c++").args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", HEADER]).arg(&from).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
