//! What users' own blocks cost: nanoseconds for each packet and block, as the slope between a short and a longer chain of blocks that each read and write a byte of
//! the header. The same in Rust (built in), C as a native object, C as WebAssembly, and Python. It compiles the C with cc and clang.
//!
//! `--json` prints rows for `make bench`, otherwise a table. Beside each stands the built-in block, measured in turn with it.

#[path = "../../core/examples/chain/touch.rs"]
mod touch;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant as Clock;
use weft_core::*;
use weft_plugin::Files;

const CHAINS: [usize; 2] = [2, 10];
const VECTOR: usize = 64;
const REPEATS: usize = 5;

const MANIFEST: &str = "version = \"1\"\nsummary = \"touches a byte\"\nbytes_max = SEEN\n[[input]]\nname = \"in\"\ncarries = \"any\"\ndoc = \"frames\"\n\
                        [[output]]\nname = \"out\"\ncarries = \"any\"\ndoc = \"the same\"\n";
const SOURCE: &str = r#"#include "weft-block.h"
WEFT_BLOCK(MANIFEST)
static int one;
void *weft_block_new(void) { return &one; }
void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {
    (void)self; (void)input;
    for (uint32_t at = 0; at < count; at++) {
        frames[at].data[8]++;
        frames[at].edited = WEFT_EDITED_BYTES;
        frames[at].verdict = WEFT_FORWARD(0);
    }
}
"#;
const SCRIPT: &str = "import weft_block as weft\nMANIFEST = '''MANIFEST_TEXT'''\nclass Touch(weft.Block):\n    def process(self, port, frames):\n        for frame in frames:\n            frame.bytes[8] = (frame.bytes[8] + 1) & 255\n            frame.forward(0)\n";

fn compile(folder: &Path, kind: &str, seen: usize, words: &[&str], file: &str) {
    let manifest = format!("name = \"{kind}\"\n{}", MANIFEST.replace("SEEN", &seen.to_string()));
    let source = folder.join(format!("{kind}.c"));
    std::fs::write(&source, SOURCE.replace("MANIFEST", &format!("{manifest:?}"))).expect("a source");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let done = Command::new(words[0]).args(&words[1..]).args(["-O2", "-I", include, "-o"]).arg(folder.join(file)).arg(&source).status();
    assert!(done.is_ok_and(|status| status.success()), "{} compiles {kind}", words[0]);
}

fn build(folder: &Path) {
    let wasm = ["clang", "--target=wasm32", "-nostdlib", "-Wl,--no-entry"];
    compile(folder, "native", 64, &["cc", "-shared", "-fPIC"], "native.so");
    compile(folder, "wasm", 64, &wasm, "wasm.wasm");
    compile(folder, "wasm-whole", 65_536, &wasm, "wasm-whole.wasm");
    let manifest = format!("name = \"python\"\n{}", MANIFEST.replace("SEEN", "64"));
    std::fs::write(folder.join("python.py"), SCRIPT.replace("MANIFEST_TEXT", &manifest)).expect("a script");
}

fn engine(folder: &Path, kind: &str, file: Option<&str>, blocks: usize) -> (Engine, BlockId) {
    let mut table = BlockTable::new([touch::ROW]);
    table.set_loader(Some(Arc::new(Files::in_folder(folder))));
    let mut engine = Engine::new(Mode::Inline, table, Rng::for_name(1, "bench"));
    let mut lines: Vec<String> = file.iter().map(|file| format!("load {file}")).collect();
    lines.extend((0..blocks).map(|at| format!("add b{at} {kind}")));
    // The last lets frames out.
    lines.push(format!("add b{blocks} touch"));
    lines.extend((0..blocks).map(|at| format!("bind b{at}:out b{}:in", at + 1)));
    let ops = lines.iter().filter_map(|line| command::parse(line).expect("a command")).collect();
    engine.control(Instant::ZERO, &Message { serial: 1, op: Op::All(ops) }).result.expect("the chain is a graph");
    let first = engine.graph().find("b0").expect("it was just made");
    (engine, first)
}

/// Nanoseconds for each packet through a chain.
fn pass(folder: &Path, kind: &str, file: Option<&str>, bytes: usize, blocks: usize, rounds: usize) -> f64 {
    let (mut engine, first) = engine(folder, kind, file, blocks);
    let mut frames: Vec<Frame> = (0..VECTOR).map(|n| Frame::ingress(&vec![n as u8; bytes])).collect();
    let mut pass = |rounds: usize| {
        for _ in 0..rounds {
            engine.inject(Instant::ZERO, first, InPort(0), frames.drain(..));
            frames.extend(engine.take_outgoing().into_iter().map(|outgoing| outgoing.frame));
            assert_eq!(frames.len(), VECTOR, "a block dropped frames");
        }
    };
    pass(rounds / 10 + 1);
    let start = Clock::now();
    pass(rounds);
    start.elapsed().as_nanos() as f64 / (rounds * VECTOR) as f64
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let folder = std::env::temp_dir().join(format!("weft-bench-blocks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    build(&folder);
    let slope = |kind: &str, file: Option<&str>, bytes: usize, rounds: usize| {
        let [short, long] = CHAINS.map(|blocks| pass(&folder, kind, file, bytes, blocks, rounds));
        (long - short) / (CHAINS[1] - CHAINS[0]) as f64
    };
    let mut rows = Vec::new();
    for (name, kind, file, bytes, rounds) in [
        ("block, native object, per packet", "native", "native.so", 64, 4000),
        ("block, WebAssembly, sees 64 bytes, per packet", "wasm", "wasm.wasm", 64, 4000),
        ("block, WebAssembly, sees all of 1500 bytes, per packet", "wasm-whole", "wasm-whole.wasm", 1500, 1000),
        ("block, Python, sees 64 bytes, per packet", "python", "python.py", 64, 20),
    ] {
        let mut both = [Vec::new(), Vec::new()];
        for _ in 0..REPEATS {
            both[0].push(slope(kind, Some(file), bytes, rounds));
            both[1].push(slope("touch", None, bytes, 40_000));
        }
        let [value, versus] = both.map(median);
        rows.push((name, value, versus));
    }
    let _ = std::fs::remove_dir_all(&folder);
    if std::env::args().any(|argument| argument == "--json") {
        let none = serde_json::Value::Null;
        let row = |(name, value, versus): &(&str, f64, f64)| serde_json::json!({"name": name, "value": value, "unit": "ns", "versus": versus, "ratio": value / versus, "needed": none, "met": none});
        println!("{}", serde_json::to_string_pretty(&rows.iter().map(row).collect::<Vec<_>>()).expect("rows are JSON"));
        return;
    }
    println!("{:<56} {:>10}  {:>10} {:>8}", "", "ns", "built in", "ratio");
    for (name, value, versus) in &rows {
        println!("{name:<56} {value:>10.1}  {versus:>10.2} {:>8.1}", value / versus);
    }
}
