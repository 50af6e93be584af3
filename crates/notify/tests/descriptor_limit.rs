//! The supervisor raises its descriptor limit, its programs keep theirs. A file of its own, because the limit is the whole process's.

mod support;

use support::Host;

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit
}

#[test]
fn programs_have_the_limit_that_weft_was_started_with() {
    let hard = limit().rlim_max;
    let first = libc::rlimit { rlim_cur: 300, rlim_max: hard };
    // SAFETY: the kernel reads `first`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const first) }, 0);
    // The second supervisor of a process finds the limit raised already.
    for _ in 0..2 {
        let mut host = Host::new();
        assert_eq!(limit().rlim_cur, hard);
        host.python("import resource\nassert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300");
    }
}
