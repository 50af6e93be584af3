//! `weft doctor`

mod facts;
mod trial;

use self::facts::{Facts, Need, Obstacle};
use self::trial::Trial;
use crate::output;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say what works on this machine, what does not and why, and the line that repairs it. Exit status 1: something that weft is mostly used for does not work
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Look only at what the system says of itself, and try nothing
    #[arg(long)]
    no_trials: bool,
    /// Read /proc, /sys and /dev below this folder
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// What weft does, what it takes, and how it is tried.
struct Ability {
    name: &'static str,
    /// It is what people come for.
    matters: bool,
    needs: &'static [Need],
    trial: Trial,
}

const ABILITIES: [Ability; 8] = [
    Ability { name: "virtual time: built-in traffic", matters: true, needs: &[], trial: Trial::World(trial::BUILT_IN) },
    Ability {
        name: "virtual time: programs",
        matters: true,
        needs: &[Need::UserNamespaces, Need::Calls, Need::FewDescriptors, Need::Locale],
        trial: Trial::World(trial::PROGRAM),
    },
    Ability {
        name: "virtual time: Linux kernels as nodes",
        matters: false,
        needs: &[Need::NodeKernel, Need::KernelMemory, Need::UserNamespaces, Need::Calls],
        trial: Trial::World(trial::LINUX),
    },
    Ability { name: "virtual time: worlds of thousands", matters: false, needs: &[Need::Descriptors], trial: Trial::None },
    Ability {
        name: "real time: weft run",
        matters: true,
        needs: &[Need::UserNamespaces, Need::Calls, Need::Tun, Need::Fuse],
        trial: Trial::Words(&["run", "--", "true"]),
    },
    Ability {
        name: "real time: weft run --strict",
        matters: false,
        needs: &[Need::UserNamespaces, Need::Calls, Need::Tun, Need::Fuse],
        trial: Trial::Words(&["run", "--strict", "--", "true"]),
    },
    Ability {
        name: "real time: the host's interfaces (weft up, --nat)",
        matters: false,
        needs: &[Need::Tun, Need::NetworkRights],
        trial: Trial::None,
    },
    Ability { name: "roots from Debian's packages (weft root make)", matters: false, needs: &[Need::Bootstrap], trial: Trial::None },
];

/// What was found of one ability.
struct Found<'a> {
    ability: &'a Ability,
    works: bool,
    /// What weft said when it was tried in vain.
    said: Option<String>,
    obstacles: Vec<&'a Obstacle>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let facts = Facts::read(&args.root);
    let obstacles = facts.obstacles();
    let tries = !args.no_trials && args.root == Path::new("/");
    let found: Vec<Found<'_>> = ABILITIES.iter().map(|ability| judge(ability, &obstacles, tries)).collect();
    if args.json {
        output::json(&told(&facts, &found));
    } else {
        show(&facts, &found);
    }
    let fails = found.iter().any(|found| found.ability.matters && !found.works);
    Ok(ExitCode::from(u8::from(fails)))
}

/// Is this an error of the kind that the machine makes, and not the user?
pub fn may_know(error: &anyhow::Error) -> bool {
    let refused = |error: &std::io::Error| error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error());
    let of_machine = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref().is_some_and(refused);
    error.chain().any(of_machine) || format!("{error:#}").contains("namespace")
}

/// Where a trial says that it works, it does; without one, what is in the way decides.
fn judge<'a>(ability: &'a Ability, obstacles: &'a [Obstacle], tries: bool) -> Found<'a> {
    let of_it: Vec<&Obstacle> = obstacles.iter().filter(|obstacle| ability.needs.contains(&obstacle.of)).collect();
    let tried = if tries { ability.trial.run() } else { None };
    match tried {
        Some(Ok(())) => Found { ability, works: true, said: None, obstacles: of_it.into_iter().filter(|of| !of.stops).collect() },
        Some(Err(said)) => Found { ability, works: false, said: Some(said), obstacles: of_it },
        None => Found { ability, works: !of_it.iter().any(|obstacle| obstacle.stops), said: None, obstacles: of_it },
    }
}

fn told(facts: &Facts, found: &[Found<'_>]) -> Value {
    let obstacle = |of: &&Obstacle| json!({"what": of.what, "repair": of.repair, "stops": of.stops});
    let row = |found: &Found<'_>| json!({"ability": found.ability.name, "works": found.works, "said": found.said, "obstacles": found.obstacles.iter().map(obstacle).collect::<Vec<_>>()});
    json!({"version": env!("CARGO_PKG_VERSION"), "machine": facts.told(), "abilities": found.iter().map(row).collect::<Vec<_>>()})
}

fn show(facts: &Facts, found: &[Found<'_>]) {
    output::line(&facts.line());
    for found in found {
        // Most people never want what does not matter.
        let word = match (found.works, found.ability.matters) {
            (true, _) => "works",
            (false, true) => "fails",
            (false, false) => "lacks",
        };
        output::line(&format!("{word}  {}", found.ability.name));
        let is_explained = !found.ability.matters && found.obstacles.iter().any(|obstacle| obstacle.stops);
        if let Some(said) = found.said.as_ref().filter(|_| !is_explained) {
            said.lines().for_each(|line| output::line(&format!("         {line}")));
        }
        for obstacle in &found.obstacles {
            output::line(&format!("         {}", obstacle.what));
            output::line(&format!("         repair: {}", obstacle.repair));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_decides_where_nothing_is_tried() {
        let of = |stops| Obstacle { of: Need::UserNamespaces, what: String::new(), repair: String::new(), stops };
        let found = |stops| judge(&ABILITIES[1], &[of(stops)], false).works;
        let other = |stops| judge(&ABILITIES[0], &[of(stops)], false).works;
        assert_eq!((found(true), found(false), other(true)), (false, true, true));
    }

    #[test]
    fn what_the_machine_refuses_points_to_doctor_and_other_errors_do_not() {
        let refused = anyhow::Error::from(std::io::Error::from(rustix::io::Errno::PERM)).context("opening /dev/net/tun");
        let namespace = anyhow::anyhow!("EINVAL").context("making a user namespace");
        let missing = anyhow::Error::from(std::io::Error::from(rustix::io::Errno::NOENT)).context("reading world.toml");
        assert_eq!([refused, namespace, missing].map(|error| may_know(&error)), [true, true, false]);
    }
}
