//! A new migration is compiled in: cargo looks at files it is told of, and a folder that a macro reads is none.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
