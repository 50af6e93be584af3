//! What `weft new block` writes: a project that builds, with tests that pass.

/// In which language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Rust, as WebAssembly.
    Rust,
    /// C, as WebAssembly or a native object.
    C,
}

/// The interface's header.
pub const HEADER: &str = include_str!("../include/weft-block.h");
const WORLD: &str = include_str!("../template/world.toml");

/// The files of a project: paths below its folder, and contents.
///
/// # Errors
/// The name is none for a kind of block.
pub fn project(name: &str, language: Language) -> Result<Vec<(String, String)>, String> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_lowercase());
    if !begins || name.len() > 32 || !letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-') {
        return Err(format!("'{name}' is no name for a block: write it in small letters, digits and '-', at most 32, a letter first"));
    }
    let library = name.replace('-', "_");
    let named = |text: &str| text.replace("LIBRARY", &library).replace("NAME", name);
    let world = |file: String| named(&WORLD.replace("FILE", &file));
    Ok(match language {
        Language::C => vec![
            (format!("{name}.c"), named(include_str!("../template/c/block.c"))),
            ("test.c".to_owned(), named(include_str!("../template/c/test.c"))),
            ("Makefile".to_owned(), named(include_str!("../template/c/Makefile"))),
            ("README.md".to_owned(), named(include_str!("../template/c/README.md"))),
            ("weft-block.h".to_owned(), HEADER.to_owned()),
            ("world.toml".to_owned(), world(format!("{name}.wasm"))),
            (".gitignore".to_owned(), "*.wasm\n*.so\n/tests\n/world-*.toml\n".to_owned()),
        ],
        Language::Rust => vec![
            ("Cargo.toml".to_owned(), named(include_str!("../template/rust/Cargo.toml"))),
            ("src/lib.rs".to_owned(), named(include_str!("../template/rust/lib.rs"))),
            ("src/weft.rs".to_owned(), include_str!("../template/rust/weft.rs").to_owned()),
            ("README.md".to_owned(), named(include_str!("../template/rust/README.md"))),
            ("world.toml".to_owned(), world("target/wasm32-unknown-unknown/release/LIBRARY.wasm".to_owned())),
            (".gitignore".to_owned(), "/target\n".to_owned()),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_bears_its_name_everywhere_and_odd_names_are_refused() {
        for language in [Language::C, Language::Rust] {
            let files = project("my-block", language).unwrap();
            assert!(files.iter().all(|(_, text)| !text.contains("NAME") && !text.contains("LIBRARY")));
            assert!(files.iter().any(|(_, text)| text.contains("name = \"my-block\"") || text.contains("name = \\\"my-block\\\"")));
        }
        for name in ["", "../x", "A", "1a", "a b", "x_y", &"a".repeat(33)] {
            assert!(project(name, Language::C).is_err(), "{name}");
        }
    }
}
