//! A program's way to its first call that needs the controller, gone before its time.
//!
//! Most of what it takes to start a program (executing, mapping libraries, relocating them, reading files) concerns nobody but the program. So it is
//! let go to its first post at once, without a turn at every grant in between; and it can be let go long before its virtual time comes, on whatever
//! processor is idle. Its calls until then happen at their own virtual times all the same, and the node notices nothing before the time of the post.
//!
//! Nobody may be able to disturb it: it is the node's first program, and `until` is not later than anything that happens to the node from outside.

use super::config::Spawn;
use super::error::StartError;
use super::ids::ThreadId;
use super::outside::Outside;
use super::state::Early;
use super::tree::Tree;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::Instant;

impl Tree {
    /// As [`Tree::spawn`], for the first program of a node: it runs to its first call that needs the controller or to `until` by itself. With
    /// `roams` on any processor, which [`Tree::run`] ends.
    ///
    /// # Errors
    /// See [`StartError`]; no process is left behind.
    pub fn spawn_early(&mut self, at: Instant, spec: &Spawn, until: Instant, roams: bool) -> Result<u32, StartError> {
        if roams {
            self.init.roam();
        }
        let pid = self.spawn(at, spec);
        if roams && pid.is_err() {
            self.init.settle_down(self.config.cpu, None);
        }
        let pid = pid?;
        let Some(thread) = self.tasks.queue.front().copied() else { return Ok(pid) };
        let until = until.max(self.clock);
        self.let_go(thread, until, Instant::ZERO);
        self.early = Some(Early { thread, began: self.clock, until, posts: None, roams });
        Ok(pid)
    }

    /// Lets a thread run from now on until `limit`; `ahead`: until when it may answer for the controller.
    pub(super) fn let_go(&mut self, thread: ThreadId, limit: Instant, ahead: Instant) {
        self.hand_descriptor(thread);
        let header = self.arena.header();
        header.ahead.store(ahead.as_nanos(), Relaxed);
        header.quiet.store(self.shows.quiet.as_nanos(), Relaxed);
        header.arrival.store(self.shows.arrival.as_nanos(), Relaxed);
        header.far.store(self.shows.far.as_nanos(), Relaxed);
        self.shows.limit = if ahead == Instant::ZERO { limit } else { self.shows.far.max(self.shows.arrival) };
        header.now.store(self.clock.as_nanos(), Relaxed);
        header.grant.store(limit.as_nanos(), Relaxed);
        self.arena.channel(thread).resumed.store(self.clock.as_nanos(), Relaxed);
        self.arena.release(thread);
        self.ledger.round_trips += 1;
    }

    /// When a thread posts that was let go early, if that is not before the grant.
    pub(super) fn posts_later(&mut self, thread: ThreadId, outside: &mut dyn Outside) -> Option<Instant> {
        let early = self.early.filter(|early| early.thread == thread)?;
        let posts = match early.posts {
            Some(posts) => posts,
            None => {
                if early.roams {
                    self.settle_down(thread);
                }
                if !self.wait_for_call(thread, outside) {
                    self.early = None;
                    self.vanished(thread);
                    return None;
                }
                let said = Instant::from_nanos(self.arena.header().now.load(Relaxed));
                let posts = said.clamp(early.began, early.until + self.config.per_call);
                self.early = Some(Early { posts: Some(posts), roams: false, ..early });
                posts
            }
        };
        (posts >= outside.grant()).then_some(posts)
    }

    /// From now on the programs run where the controller does.
    fn settle_down(&self, thread: ThreadId) {
        let process = self.tasks.threads.get(&thread).and_then(|one| self.tasks.processes.get(&one.process));
        self.init.settle_down(self.config.cpu, process.map(|process| process.outer as libc::pid_t));
    }

    /// A program has been let go whose time has not come.
    pub(super) fn is_before_its_time(&self) -> bool {
        self.early.is_some_and(|early| early.posts.is_none())
    }
}
