//! Twins on a host with a second interface: scopes of link-local addresses, sources, MTU discovery, sockets bound to interfaces.
//!
//! Apart from the other twins, because it starts ip(8): a process that is being started shares its parent's descriptors for a moment, so that
//! a socket that another body closes in that moment lives on.

use crate::bodies;
use crate::graph;
use crate::kernel;
use crate::language;

use weft_core::Mode;

const BASE_PORT: u16 = 20000;

/// The kernel's transcript of a body, in a network namespace of its own with the second interface.
fn on_kernel(body: &str) -> String {
    std::thread::scope(|scope| {
        let run = || {
            kernel::enter_namespace().and_then(|()| kernel::add_link()).unwrap_or_else(|why| panic!("{why}"));
            language::run(&mut kernel::Kernel::default(), body, BASE_PORT)
        };
        scope.spawn(run).join().expect("the kernel's run")
    })
}

#[test]
fn links() {
    let mut differences = String::new();
    let only = std::env::var("TWIN").ok();
    let bodies = bodies::topic_of_links();
    assert!(bodies.len() >= 10, "{}", bodies.len());
    for (name, body) in bodies.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == name)) {
        let kernel = on_kernel(body);
        for mode in [Mode::Inline, Mode::Queued] {
            let model = language::run(&mut graph::with_link(mode), body, BASE_PORT);
            for (kernel, model) in kernel.lines().zip(model.lines()).filter(|(kernel, model)| kernel != model) {
                differences += &format!("links/{name} ({mode:?}):\n    kernel: {kernel}\n    model:  {model}\n");
            }
            assert_eq!(kernel.lines().count(), model.lines().count(), "{name}");
        }
    }
    assert!(differences.is_empty(), "the model differs from the kernel:\n{differences}");
}
