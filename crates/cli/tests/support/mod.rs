//! Where the command's tests run it: a folder with a stack whose interface leads nowhere, which needs no privilege and no device.
#![allow(dead_code)] // each test file uses some of it

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A stack that is nobody's neighbour.
pub const STACK: &str = "[[interface]]\nname = \"weft0\"\nbackend = \"memory:nowhere\"\n";

/// A directory that goes away with its test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weft-cli-{test}-{}", std::process::id()));
        // What a test left that was killed, whose process had this number.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("stack.toml"), STACK).unwrap();
        Place(path)
    }

    pub fn weft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).current_dir(&self.0).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        command
    }

    /// Runs it to its end: exit status, output, errors.
    pub fn said(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        Place::outcome(self.weft(arguments))
    }

    /// The same by a script of a shell, in which `$0` is weft.
    pub fn shell(&self, script: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_weft")]).current_dir(&self.0).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        Place::outcome(command)
    }

    fn outcome(mut command: Command) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap().trim_end().to_owned(), String::from_utf8(stderr).unwrap().trim_end().to_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
