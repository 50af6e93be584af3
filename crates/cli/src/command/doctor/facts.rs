//! What the system says of itself, and what of that is in somebody's way.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Descriptors that a world of a thousand nodes takes.
const DESCRIPTORS_WANTED: u64 = 20_000;
/// What a process of a node must have: the loader's descriptors have numbers up to 1023.
const DESCRIPTORS_LEAST: u64 = 1024;
/// Bit of a set of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u64 = 1 << 12;

/// What an ability takes of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Namespaces of a user without privilege.
    UserNamespaces,
    /// Calls that a container's filter may refuse.
    Calls,
    /// /dev/net/tun.
    Tun,
    /// /dev/fuse.
    Fuse,
    /// Root, or its network rights.
    NetworkRights,
    /// A Linux kernel that was built as a node.
    NodeKernel,
    /// Memory as a folder, /dev/shm, in which kernels of nodes are executed.
    KernelMemory,
    /// As many descriptors as the loader's numbers want.
    FewDescriptors,
    /// More descriptors than the usual.
    Descriptors,
    /// Letters beyond ASCII in programs of nodes.
    Locale,
    /// A program of the distribution: mmdebstrap or, for root, debootstrap.
    Bootstrap,
}

/// Something that keeps weft from doing something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// Of what it takes.
    pub of: Need,
    /// What is so.
    pub what: String,
    /// The line that makes it otherwise.
    pub repair: String,
    /// Nothing works without it; otherwise it may.
    pub stops: bool,
}

/// Is this line of /proc/mounts that of /dev/shm, where nothing can be executed?
fn is_noexec_memory(line: &str) -> bool {
    let fields: Vec<&str> = line.split(' ').collect();
    fields.get(1) == Some(&"/dev/shm") && fields.get(3).is_some_and(|options| options.split(',').any(|option| option == "noexec"))
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    release: String,
    distribution: String,
    is_root: bool,
    capabilities: u64,
    /// A filter of system calls is on this process (docker's default profile, systemd's, a sandbox).
    is_filtered: bool,
    /// In a container, as far as one can see.
    container: Option<&'static str>,
    namespaces_max: Option<u64>,
    /// kernel.unprivileged_userns_clone of older Debian kernels.
    clone_allowed: Option<bool>,
    /// kernel.apparmor_restrict_unprivileged_userns.
    apparmor_restricts: bool,
    has_tun: bool,
    /// /dev/fuse is there.
    has_fuse: bool,
    /// And this user may open it.
    opens_fuse: bool,
    descriptors_max: Option<u64>,
    has_locale: bool,
    kernels: Vec<String>,
    mmdebstrap: bool,
    debootstrap: bool,
    newuidmap: bool,
    memory_executes: bool,
}

/// A file's text, without its end.
fn text(path: PathBuf) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}

/// The value of a line `name: value`, or `name=value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| Some(line.strip_prefix(name)?.strip_prefix([':', '='])?.trim().trim_matches('"'));
    text.lines().find_map(of_line)
}

impl Facts {
    /// Reads it; `root` is / but in tests.
    pub fn read(root: &Path) -> Facts {
        let number = |path: &str| text(root.join(path))?.parse::<u64>().ok();
        let status = text(root.join("proc/self/status")).unwrap_or_default();
        let limits = text(root.join("proc/self/limits")).unwrap_or_default();
        let open_files =
            limits.lines().find_map(|line| line.strip_prefix("Max open files")).and_then(|line| line.split_whitespace().nth(1));
        let locales = ["usr/lib/locale/C.utf8", "usr/lib/locale/C.UTF-8"];
        let in_path = |program: &str| ["usr/bin", "usr/sbin", "bin", "sbin"].iter().any(|folder| root.join(folder).join(program).is_file());
        Facts {
            release: text(root.join("proc/sys/kernel/osrelease")).unwrap_or_else(|| "unknown".to_owned()),
            distribution: text(root.join("etc/os-release"))
                .and_then(|text| Some(field(&text, "PRETTY_NAME")?.to_owned()))
                .unwrap_or_default(),
            is_root: field(&status, "Uid").and_then(|ids| ids.split_whitespace().nth(1)) == Some("0"),
            capabilities: field(&status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0),
            is_filtered: field(&status, "Seccomp") == Some("2"),
            container: container(root),
            namespaces_max: number("proc/sys/user/max_user_namespaces"),
            clone_allowed: number("proc/sys/kernel/unprivileged_userns_clone").map(|value| value != 0),
            apparmor_restricts: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            has_tun: root.join("dev/net/tun").exists(),
            has_fuse: root.join("dev/fuse").exists(),
            opens_fuse: std::fs::OpenOptions::new().read(true).write(true).open(root.join("dev/fuse")).is_ok(),
            descriptors_max: open_files.and_then(|most| if most == "unlimited" { Some(u64::MAX) } else { most.parse().ok() }),
            // Debian's C library has it in itself from 12 on.
            has_locale: locales.iter().any(|place| root.join(place).exists()),
            kernels: weft_kernel::store::list().unwrap_or_default().into_iter().map(|kernel| kernel.name).collect(),
            mmdebstrap: in_path("mmdebstrap"),
            debootstrap: in_path("debootstrap"),
            newuidmap: in_path("newuidmap"),
            memory_executes: text(root.join("proc/self/mounts")).is_none_or(|mounts| !mounts.lines().any(is_noexec_memory)),
        }
    }

    /// What is in the way.
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let mut add = |of, stops, what: &str, repair: &str| {
            found.push(Obstacle { of, what: what.to_owned(), repair: repair.to_owned(), stops });
        };
        let (user, docker) = (!self.is_root, "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …");
        if self.namespaces_max == Some(0) {
            add(
                Need::UserNamespaces,
                true,
                "user namespaces are switched off (user.max_user_namespaces = 0)",
                "sudo sysctl -w user.max_user_namespaces=15000",
            );
        }
        if user && self.clone_allowed == Some(false) {
            let what = "the kernel gives user namespaces to root only (kernel.unprivileged_userns_clone = 0)";
            add(Need::UserNamespaces, true, what, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
        }
        if user && self.apparmor_restricts {
            let what = "AppArmor gives user namespaces only to programs that have a profile for it, as weft's Debian package brings one";
            add(Need::UserNamespaces, false, what, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
        }
        if self.is_filtered {
            let what = match self.container {
                Some(kind) => format!("{kind} filters system calls, and may refuse namespaces, mounts and userfaultfd"),
                None => "a filter of system calls is on this process (seccomp): it may refuse namespaces and mounts".to_owned(),
            };
            add(Need::Calls, false, &what, docker);
        }
        if !self.has_tun {
            let (what, repair) = match self.container {
                Some(kind) => (format!("{kind} shows no /dev/net/tun"), "docker run --device /dev/net/tun --cap-add NET_ADMIN …"),
                None => ("there is no /dev/net/tun".to_owned(), "sudo modprobe tun"),
            };
            add(Need::Tun, true, &what, repair);
        }
        if !self.opens_fuse {
            let (what, repair) = match (self.has_fuse, self.container) {
                (true, _) => ("this user may not open /dev/fuse".to_owned(), "sudo chmod 666 /dev/fuse"),
                (false, Some(kind)) => (format!("{kind} shows no /dev/fuse"), "docker run --device /dev/fuse --cap-add SYS_ADMIN …"),
                (false, None) => ("there is no /dev/fuse".to_owned(), "sudo modprobe fuse"),
            };
            add(Need::Fuse, false, &format!("{what}: programs see /proc/net of the host, and not of their stack"), repair);
        }
        if self.capabilities & CAP_NET_ADMIN == 0 {
            let repair =
                if self.is_root { "docker run --cap-add NET_ADMIN …" } else { "sudo weft up; or weft run, which takes no rights" };
            add(Need::NetworkRights, true, "this user may not change the network of the host (CAP_NET_ADMIN)", repair);
        }
        if self.kernels.is_empty() {
            add(
                Need::NodeKernel,
                true,
                "there is no Linux kernel for nodes here",
                "install the package weft-kernel, or: weft kernel build",
            );
        }
        let raise = "ulimit -Hn 65536 as root; or LimitNOFILE=65536 in the unit, --ulimit nofile=65536 of docker run";
        if let Some(most) = self.descriptors_max.filter(|most| *most < DESCRIPTORS_LEAST) {
            let what = format!("a process may have {most} descriptors, and a node with programs wants {DESCRIPTORS_LEAST}");
            add(Need::FewDescriptors, true, &what, raise);
        }
        if let Some(most) = self.descriptors_max.filter(|most| *most < DESCRIPTORS_WANTED) {
            let what = format!("a process may have {most} descriptors, enough for about {} nodes with programs", most / 8);
            add(Need::Descriptors, false, &what, raise);
        }
        if !self.has_locale {
            let what = "the locale C.UTF-8 is not there: programs in nodes take letters beyond ASCII for question marks";
            add(Need::Locale, false, what, "sudo apt install libc-bin; elsewhere glibc-minimal-langpack or glibc-common");
        }
        if !self.memory_executes {
            let what = "/dev/shm is mounted noexec, and kernels of nodes are executed there";
            add(Need::KernelMemory, true, what, "sudo mount -o remount,exec /dev/shm");
        }
        match (self.mmdebstrap, self.debootstrap) {
            (false, false) => {
                add(Need::Bootstrap, true, "neither mmdebstrap nor debootstrap is installed", "sudo apt install mmdebstrap uidmap")
            }
            (false, true) if user => {
                add(
                    Need::Bootstrap,
                    true,
                    "debootstrap is for root, and mmdebstrap is not installed",
                    "sudo apt install mmdebstrap uidmap",
                );
            }
            (true, _) if user && !self.newuidmap => {
                add(Need::Bootstrap, true, "for a user mmdebstrap needs newuidmap", "sudo apt install uidmap");
            }
            _ => {}
        }
        found
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let who = if self.is_root { "root" } else { "a user" };
        let filter = if self.is_filtered { ", under a filter of system calls" } else { "" };
        let container = self.container.map_or(String::new(), |kind| format!(", in {kind}"));
        format!("weft {} as {who}{container}{filter}: {}, Linux {}", env!("CARGO_PKG_VERSION"), self.distribution, self.release)
    }

    /// For programs.
    pub fn told(&self) -> Value {
        json!({"release": self.release, "distribution": self.distribution, "root": self.is_root, "seccomp": self.is_filtered, "container": self.container,
               "max_user_namespaces": self.namespaces_max, "apparmor_restricts": self.apparmor_restricts, "tun": self.has_tun,
               "descriptors_max": self.descriptors_max, "kernels": self.kernels})
    }
}

fn container(root: &Path) -> Option<&'static str> {
    if root.join(".dockerenv").exists() {
        return Some("docker");
    }
    root.join("run/.containerenv").exists().then_some("podman")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine where all is well, but for these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Facts) {
        let folder = tempfile::tempdir().unwrap();
        let well = [
            ("proc/self/status", "Name:\tweft\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000001000\nSeccomp:\t0\n"),
            (
                "proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 1048576              files\n",
            ),
            ("proc/sys/user/max_user_namespaces", "15000\n"),
            ("proc/sys/kernel/osrelease", "6.12.0\n"),
            ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            ("dev/net/tun", ""),
            ("dev/fuse", ""),
            ("usr/lib/locale/C.utf8/LC_CTYPE", ""),
            ("usr/bin/mmdebstrap", ""),
            ("usr/bin/newuidmap", ""),
        ];
        for (path, text) in well.iter().chain(files) {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let facts = Facts { kernels: vec!["6.12".to_owned()], ..Facts::read(folder.path()) };
        (folder, facts)
    }

    fn found(files: &[(&str, &str)]) -> Vec<(Need, bool)> {
        machine(files).1.obstacles().iter().map(|obstacle| (obstacle.of, obstacle.stops)).collect()
    }

    #[test]
    fn each_thing_that_is_in_the_way_is_named_with_what_repairs_it() {
        assert_eq!(found(&[]), []);
        for (files, wanted) in [
            (&[("proc/sys/user/max_user_namespaces", "0\n")][..], (Need::UserNamespaces, true)),
            (&[("proc/sys/kernel/unprivileged_userns_clone", "0\n")], (Need::UserNamespaces, true)),
            (&[("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")], (Need::UserNamespaces, false)),
            (&[("proc/self/status", "Uid:\t1000\t1000\nCapEff:\t0000000000001000\nSeccomp:\t2\n")], (Need::Calls, false)),
            (&[("proc/self/status", "Uid:\t1000\t1000\nCapEff:\t0\nSeccomp:\t0\n")], (Need::NetworkRights, true)),
            (
                &[("proc/self/limits", "Max open files            1024                 4096                 files\n")],
                (Need::Descriptors, false),
            ),
        ] {
            assert_eq!(found(files), [wanted], "{files:?}");
        }
        let noexec = "tmpfs /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime 0 0\n";
        assert_eq!(found(&[("proc/self/mounts", noexec)]), [(Need::KernelMemory, true)]);
        assert_eq!(found(&[("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0\ntmpfs /run tmpfs rw,noexec 0 0\n")]), []);
        let (folder, _) = machine(&[]);
        std::fs::remove_file(folder.path().join("usr/bin/newuidmap")).unwrap();
        assert_eq!(Facts { kernels: vec![String::new()], ..Facts::read(folder.path()) }.obstacles()[0].repair, "sudo apt install uidmap");
        for path in ["dev/net/tun", "dev/fuse", "usr/lib/locale/C.utf8/LC_CTYPE", "usr/bin/mmdebstrap"] {
            std::fs::remove_file(folder.path().join(path)).unwrap();
        }
        std::fs::remove_dir(folder.path().join("usr/lib/locale/C.utf8")).unwrap();
        let facts = Facts { kernels: Vec::new(), ..Facts::read(folder.path()) };
        let all: Vec<Need> = facts.obstacles().iter().map(|obstacle| obstacle.of).collect();
        assert_eq!(all, [Need::Tun, Need::Fuse, Need::NodeKernel, Need::Locale, Need::Bootstrap]);
        assert!(facts.obstacles().iter().all(|obstacle| !obstacle.repair.is_empty()));
    }

    #[test]
    fn root_needs_no_namespaces_of_users_and_a_container_is_named() {
        let root = ("proc/self/status", "Uid:\t0\t0\nCapEff:\tffffffffffffffff\nSeccomp:\t2\n");
        let (_folder, facts) = machine(&[root, ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"), (".dockerenv", "")]);
        let obstacles = facts.obstacles();
        assert!(obstacles.len() == 1 && obstacles[0].what.starts_with("docker filters"), "{obstacles:?}");
        assert!(facts.line().contains("as root, in docker, under a filter"), "{}", facts.line());
    }
}
