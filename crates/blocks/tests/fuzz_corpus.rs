//! Replays the corpus of the fuzz target through the target's own function.

use std::fs;
use std::path::Path;
use weft_blocks::fuzzing;

#[test]
fn the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/reassembly");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("an input").path();
        eprintln!("{}", path.display());
        fuzzing::reassembly(&fs::read(&path).expect("an input"));
        count += 1;
    }
    assert!(count >= 8, "only {count} inputs");
}
