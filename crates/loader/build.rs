//! Builds the vDSO and then the loader, with the compiler that builds the workspace and the C compiler driver it links with.
//!
//! Both are freestanding: they depend on nothing but `core`, and need options of their own that a workspace binary cannot have.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo:rerun-if-env-changed=WEFT_FREESTANDING_LINKER");
    for watched in ["guest", "vdso", "src/abi.rs", "src/abi", "src/calls", "build.rs"] {
        println!("cargo:rerun-if-changed={}", folder.join(watched).display());
    }
    let target = variable("TARGET");
    assert!(
        target.starts_with("x86_64-") && target.contains("linux"),
        "weft-loader has no folder for {target}: write guest/ and vdso/ for it, see docs/architecture/loader.md"
    );
    vdso(&folder, &out, &target);
    loader(&folder, &out, &target);
}

fn vdso(folder: &Path, out: &Path, target: &str) {
    let object = out.join("vdso.o");
    run(rustc(target)
        .args(["--crate-name", "vdso", "--crate-type", "lib", "--emit", "obj", "-C", "relocation-model=pic", "-C", "codegen-units=1"])
        .arg("-o")
        .arg(&object)
        .arg(folder.join("vdso/vdso.rs")));
    run(Command::new(linker())
        .args(["-shared", "-nostdlib", "-Wl,-soname=linux-vdso.so.1", "-Wl,--hash-style=both", "-Wl,-Bsymbolic", "-Wl,--build-id=none"])
        .args(["-Wl,-z,noexecstack", "-Wl,-z,max-page-size=4096", "-Wl,--no-warn-rwx-segments"])
        .arg(format!("-Wl,--version-script={}", folder.join("vdso/vdso.map").display()))
        .arg(format!("-Wl,-T,{}", folder.join("vdso/vdso.lds").display()))
        .arg("-o")
        .arg(out.join("vdso.so"))
        .arg(object));
}

fn loader(folder: &Path, out: &Path, target: &str) {
    run(rustc(target)
        .env("WEFT_VDSO", out.join("vdso.so"))
        .args([
            "--crate-name",
            "weft_loader_guest",
            "--crate-type",
            "bin",
            "-C",
            "relocation-model=pie",
            "-C",
            "target-feature=+crt-static",
        ])
        .arg(format!("-Clinker={}", linker()))
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-static-pie", "-Clink-arg=-Wl,--build-id=none"])
        .args(["-Clink-arg=-Wl,-z,noexecstack", "-Clink-arg=-Wl,-z,norelro", "-Clink-arg=-Wl,--gc-sections", "-Cstrip=debuginfo"])
        .arg("-o")
        .arg(out.join("weft-loader"))
        .arg(folder.join("guest/main.rs")));
}

fn rustc(target: &str) -> Command {
    let mut command = Command::new(variable("RUSTC"));
    command.args(["--edition", "2024", "--target", target, "-C", "panic=abort", "-C", "opt-level=2", "-C", "overflow-checks=off"]);
    // Where it was built is nobody's business, and must not change a byte.
    command.arg(format!("--remap-path-prefix={}=crates/loader", variable("CARGO_MANIFEST_DIR")));
    // Flags of the workspace (sanitizers, coverage) would need a runtime that is not there.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// What `WEFT_FREESTANDING_LINKER` names, what cargo was told to link with, or the C compiler of the system, as rustc would choose. A linker for
/// programs of old systems (zig's) need not know the scripts that are wanted here, where no system is linked against.
fn linker() -> String {
    env::var("WEFT_FREESTANDING_LINKER").or_else(|_| env::var("RUSTC_LINKER")).unwrap_or_else(|_| "cc".to_owned())
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?}: {status}"),
        Err(error) => panic!("{command:?}: {error}; a C compiler driver (cc) and a linker are needed to build weft"),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}
