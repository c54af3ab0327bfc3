//! What a build script says is looked at by when files were changed.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=GREETING=Hello");
}
