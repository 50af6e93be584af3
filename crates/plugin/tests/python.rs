//! Blocks in Python, each in a process of its own.

use crate::common;

use common::{counter, engine, folder, frames, row, send, tell};

const HEAD: &str = r#"
import weft_block as weft
MANIFEST = """
name = "p"
version = "1"
summary = "s"
state_version = 1
[[input]]
name = "in"
carries = "any"
doc = "d"
[[output]]
name = "out"
carries = "any"
doc = "d"
[[parameter]]
name = "first"
type = "unsigned"
max = 255
default = 1
live = true
doc = "d"
[[counter]]
name = "Seen"
text = "t"
[[drop]]
name = "Odd"
text = "t"
"""
"#;

const BLOCK: &str = r#"
class P(weft.Block):
    seen = 0
    def set(self, parameter, value):
        assert parameter == "first"
        self.first = value.number
    def check(self, parameter, value):
        if value.number == 13:
            return "not that one"
    def process(self, port, frames):
        print("not to weft")
        for frame in frames:
            self.seen += 1
            self.count(0)
            if frame.bytes[0] == 2:
                frame.drop(0)
            elif frame.bytes[0] == 3:
                frame.consume()
                copy = weft.Frame({"egress": False})
                copy.bytes = bytearray(b"made")
                self.emit(0, copy)
            else:
                frame.forward(0)
                frame.bytes[0] = self.first
                frame.bytes += b"+"
        self.set_timer(4, 1000)
    def timer(self, token):
        self.say("%d at %d: %d" % (token, self.now, self.random.randrange(1000)))
    def export(self):
        return bytes([self.seen])
    def take_over(self, version, state):
        self.seen = state[0] + 100
"#;

fn with(name: &str, script: &str, parameters: &str) -> weft_core::Engine {
    let folder = folder(name);
    std::fs::write(folder.join("p.py"), script).unwrap();
    let mut engine = engine(folder);
    tell(&mut engine, &format!("load p.py\nadd b p {parameters}\nbind b:out end:in")).unwrap();
    engine
}

#[test]
fn a_python_block_does_what_a_block_does() {
    let mut run = Vec::new();
    for _ in 0..2 {
        let mut engine = with("python", &format!("{HEAD}{BLOCK}"), "first=7");
        let out = send(&mut engine, frames(5, 3));
        let out: Vec<Vec<u8>> = out.iter().map(weft_core::Frame::to_vec).collect();
        assert_eq!(out, [b"made".to_vec(), vec![7, 0, 0, b'+'], vec![7, 1, 1, b'+'], vec![7, 4, 4, b'+']]);
        assert_eq!((counter(&mut engine, "Seen"), counter(&mut engine, "DroppedOdd")), (5, 1));
        assert!(tell(&mut engine, "set b.first 13").unwrap_err().to_string().contains("not that one"));
        tell(&mut engine, "set b.first 9").unwrap();
        tell(&mut engine, "replace b p").unwrap();
        assert_eq!(send(&mut engine, frames(1, 2))[0].to_vec(), [9, 0, b'+']);
        assert_eq!(counter(&mut engine, "Seen"), 6);
        engine.run(weft_core::Instant::from_nanos(1000));
        let alert = engine.take_alerts().remove(0).value["text"].clone();
        assert!(alert.as_str().unwrap().starts_with("4 at 1000: "));
        run.push(alert);
    }
    assert_eq!(run[0], run[1], "the same randomness in each run");
}

#[test]
fn a_process_that_fails_is_isolated_and_named() {
    for (name, body, why) in [
        ("raises", "        frames[0].bytes[7] = 1", "IndexError: bytearray index out of range (p.py, line 33)"),
        ("ends", "        import os; os._exit(3)", "its process is gone (exit status: 3)"),
        ("killed", "        import os; os.kill(os.getpid(), 9)", "its process is gone (signal: 9 (SIGKILL))"),
        ("silent", "        pass", "it gave no verdict (frame 0 of 4)"),
        (
            "port",
            "        [frame.forward(8) for frame in frames]",
            "it gave the verdict 'through port 8', and it has 1 outputs (frame 0 of 4)",
        ),
        ("counter", "        self.count(5)", "it counted in counter 5, and it has 1"),
    ] {
        let script = format!("{HEAD}\nclass P(weft.Block):\n    def process(self, port, frames):\n{body}\n");
        let mut engine = with(&format!("python-{name}"), &script, "on_failure=bypass");
        assert_eq!(send(&mut engine, frames(4, 5)).len(), 4, "{name}");
        assert_eq!(row(&mut engine, "blocks", "b")["failure"], why, "{name}");
    }
}

#[test]
fn what_is_no_block_is_not_loaded_and_why_is_said() {
    let folder = folder("python-wrong");
    let mut engine = engine(folder.clone());
    let mut wrong = |script: &str| {
        std::fs::write(folder.join("p.py"), script).unwrap();
        tell(&mut engine, "load p.py").unwrap_err().to_string()
    };
    assert!(wrong("import nothing_like_that\n").contains("ModuleNotFoundError: No module named 'nothing_like_that' (p.py, line 1)"));
    assert!(wrong("x = (\n").contains("SyntaxError"));
    assert!(wrong("x = 1\n").contains("it has 0 classes that are a weft_block.Block"));
    assert!(wrong("import weft_block as weft\nclass P(weft.Block): pass\n").contains("it has no text MANIFEST"));
    assert!(wrong("import os\nos._exit(0)\n").contains("its process is gone (exit status: 0)"));
}
