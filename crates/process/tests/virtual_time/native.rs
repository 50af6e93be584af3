//! A program of our own, dynamic and static; and all of it without privilege.

use crate::world::run_alone;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use weft_process::Status;

const SEEN: &str = "time stamp counter goes by the clock: 1
vsyscall page: 1893456000
i386 call: -38
fault caught
bad pointer, answered in the process: 1
bad pointer, random: 1
bad pointer, at the controller: 1
timerfd: 1
timerfd: 4
signalfd: 10 1
POSIX timer: 10
pause: 1
read: 1
nanosleep: -1, 3 s left
PI mutex: 0 0
condition: 1
end: 10 s
";

pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn time_signals_and_faults_are_as_a_program_expects() {
    let folder = folder("calls");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/virtual_time/calls.c");
    for (name, options) in [("dynamic", &["-O1", "-w", "-pthread"][..]), ("static", &["-O1", "-w", "-pthread", "-static"])] {
        let program = folder.join(name);
        let built = Command::new("cc").args(options).arg("-o").arg(&program).arg(source).status().unwrap();
        assert!(built.success());
        let ran = run_alone(1, &[program.to_str().unwrap()]);
        assert_eq!((ran.output.as_str(), ran.error.as_str(), ran.status), (SEEN, "", Status::Exited(0)), "{name}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_user_without_rights_sees_the_same() {
    // SAFETY: takes no pointers.
    if unsafe { libc::geteuid() } != 0 {
        // Then all the tests of this file are that.
        return;
    }
    let folder = folder("unprivileged");
    let program = folder.join("test");
    // By another process: what this one has open for writing, the children of other tests have open too until they execute, and it is ETXTBSY.
    assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap().success());
    for test in ["children::a_shell_pipes_forks_and_waits", "sockets::loopback_carries_a_conversation_within_a_process"] {
        let output = Command::new(&program).args(["--exact", test]).uid(65534).gid(65534).current_dir("/").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
