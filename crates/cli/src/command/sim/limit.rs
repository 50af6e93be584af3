//! `--wall-limit`: a run that takes too long ends as by ctrl-C.

use anyhow::Context as _;
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_core::parameter::parse_duration;

/// Of a run that was ended so.
const STATUS: u8 = 3;

/// How long a run may take.
pub(in crate::command) fn span(text: &str) -> anyhow::Result<Duration> {
    let span = parse_duration(text).ok().filter(|span| *span > Duration::ZERO);
    span.with_context(|| format!("--wall-limit: '{text}' is no time\nhelp: write --wall-limit 60s"))
}

/// A limit that runs.
pub(in crate::command) struct Limit {
    text: String,
    over: Arc<AtomicBool>,
    /// It has ended something that had not ended by itself.
    ended: AtomicBool,
}

impl Limit {
    /// From now on; `interrupted` is set when it is over.
    pub fn begin(text: &str, interrupted: Arc<AtomicBool>) -> anyhow::Result<Limit> {
        let span = span(text)?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        std::thread::spawn(move || {
            std::thread::sleep(span);
            // Unless somebody else was faster.
            told.store(!interrupted.load(Ordering::Acquire), Ordering::Release);
            interrupted.store(true, Ordering::Release);
        });
        Ok(Limit { text: text.to_owned(), over, ended: AtomicBool::new(false) })
    }

    /// Did anything end because of it? What ends by itself before it is over, and whose results are written after that, did not.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Something was interrupted, or left out. Was it this that did it?
    pub fn cut(&self) -> bool {
        let is_over = self.over.load(Ordering::Acquire);
        self.ended.fetch_or(is_over, Ordering::Relaxed);
        is_over
    }

    /// Says so in the summary of a run that it ended.
    pub fn note(&self, summary: &mut Value) {
        if summary["end"] != "interrupted" || !self.cut() {
            return;
        }
        summary["end"] = format!("the wall limit of {} was over", self.text).into();
        if let Some(why) = summary["not_reproducible"].as_array_mut() {
            why.push(format!("it was ended after {} of real time, and how far it came by then depends on the machine", self.text).into());
        }
    }

    /// The command's.
    pub fn status(&self) -> ExitCode {
        tell!("weft: --wall-limit {}: the run was ended; its results are complete up to there", self.text);
        ExitCode::from(STATUS)
    }
}
