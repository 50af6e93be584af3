//! Gives the shared library a name of its own: programs that were linked with it look for that, and not for any `libweft.so`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft.so.0");
}
