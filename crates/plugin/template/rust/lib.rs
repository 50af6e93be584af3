//! The block NAME: lets frames through, and drops every so many of them. Make of it what you need; docs/plugins.md of weft's repository is the reference.

mod weft;

use weft::{Block, Frame, Value};

weft::block!(
    Sieve,
    r#"
name = "NAME"
version = "0.1.0"
summary = "lets frames through, and drops every so many"
state_version = 1
# It does not look into frames. Leave this out to see all of them.
bytes_max = 0

[[input]]
name = "in"
carries = "any"
doc = "any frames"

[[output]]
name = "out"
carries = "any"
doc = "those that are not dropped"

[[parameter]]
name = "drop_every"
type = "unsigned"
default = 0
live = true
doc = "drop one of so many frames; 0: none"

[[counter]]
name = "Seen"
text = "frames that came in"

[[drop]]
name = "Turn"
text = "it was their turn"
"#
);

/// The block.
#[derive(Default)]
struct Sieve {
    drop_every: u64,
    seen: u64,
}

impl Block for Sieve {
    fn set(&mut self, parameter: u32, value: &Value) {
        if parameter == 0 {
            self.drop_every = value.number;
        }
    }

    fn process(&mut self, _input: u32, frames: &mut [Frame]) {
        for frame in frames.iter_mut() {
            self.seen += 1;
            match self.drop_every != 0 && self.seen % self.drop_every == 0 {
                true => frame.drop(0),
                false => frame.forward(0),
            }
        }
        weft::count(0, frames.len() as u64);
    }

    // What a new build takes over: 8 bytes, how many frames it has seen.
    fn export(&self) -> Vec<u8> {
        self.seen.to_le_bytes().to_vec()
    }

    fn import(&mut self, version: u32, bytes: &[u8]) -> bool {
        match (version, bytes.try_into()) {
            (1, Ok(seen)) => {
                self.seen = u64::from_le_bytes(seen);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft::{DROP, FORWARD};

    fn verdicts(block: &mut Sieve, count: usize) -> Vec<u32> {
        let mut frames: Vec<Frame> = (0..count).map(|_| Frame::default()).collect();
        block.process(0, &mut frames);
        frames.iter().map(|frame| frame.verdict).collect()
    }

    #[test]
    fn every_third_is_dropped_and_a_new_build_goes_on_counting() {
        let mut block = Sieve::default();
        assert_eq!(verdicts(&mut block, 3), [FORWARD; 3]);
        let mut every = Value::default();
        every.number = 3;
        block.set(0, &every);
        assert_eq!(verdicts(&mut block, 4), [FORWARD, FORWARD, DROP, FORWARD]);
        let mut other = Sieve { drop_every: 3, ..Sieve::default() };
        assert!(!other.import(2, &block.export()));
        assert!(other.import(1, &block.export()));
        assert_eq!(verdicts(&mut other, 2), [FORWARD, DROP]);
        assert_eq!(weft::counted(0), 9);
    }
}
