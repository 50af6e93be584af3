//! Programs of one thread: time, sleeping, randomness.

use crate::world::run_alone;
use std::time::Duration;
use weft_core::Instant;
use weft_process::Status;

#[test]
fn the_date_is_the_worlds() {
    let ran = run_alone(1, &["date", "-u", "+%Y-%m-%dT%H:%M:%S"]);
    assert_eq!((ran.output.as_str(), ran.error.as_str(), ran.status), ("2030-01-01T00:00:00\n", "", Status::Exited(0)));
}

#[test]
fn sleeping_takes_virtual_time_only() {
    let began = std::time::Instant::now();
    let ran = run_alone(1, &["sleep", "1000"]);
    assert_eq!(ran.status, Status::Exited(0));
    let over = ran.at.since(Instant::from_millis(1_000_000));
    assert!(over > Duration::ZERO && over < Duration::from_millis(5), "ended {over:?} after a thousand seconds");
    assert!(began.elapsed() < Duration::from_secs(100), "it slept");
}

#[test]
fn randomness_is_the_seeds() {
    let script = "import random,os,time;print(random.random(),os.urandom(4).hex(),hash('weft'));\
                  a=time.monotonic();time.sleep(1.5);print(round(time.monotonic()-a,3),open('/dev/urandom','rb').read(4).hex())";
    let one = run_alone(7, &["/usr/bin/python3", "-c", script]);
    assert_eq!(one.error, "");
    assert!(one.output.contains("\n1.5 "), "{}", one.output);
    assert_eq!(one, run_alone(7, &["/usr/bin/python3", "-c", script]));
    assert_ne!(one.output, run_alone(8, &["/usr/bin/python3", "-c", script]).output);
}
