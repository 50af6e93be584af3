//! Corners of a node's files and processes, each a program of its own node: what it prints is what Linux would have it print.

use crate::support;

use support::output;
use weft_sim::World;
use weft_sim::scenario::Scenario;

/// What it is, what else its node has, the program (Python), and what it prints.
const CORNERS: &[(&str, &str, &str, &str)] = &[
    (
        "a reader at the other end of a pipe that execve(2) has closed",
        "",
        "import os, subprocess\n\
         p = subprocess.Popen(['cat'], stdin=-1, stdout=-1, preexec_fn=os.setsid)\n\
         print(p.communicate(b'two'))",
        "(b'two', None)\n",
    ),
    (
        "a lock that execve(2) has released",
        "",
        "import fcntl, os, time\n\
         f = open('/tmp/l', 'w'); begun = time.monotonic()\n\
         if os.fork() == 0:\n    fcntl.flock(open('/tmp/l'), fcntl.LOCK_EX); time.sleep(.05); os.execvp('sleep', ['sleep', '3'])\n\
         time.sleep(.02); fcntl.flock(f, fcntl.LOCK_EX); print(time.monotonic() - begun < 1)",
        "True\n",
    ),
    (
        "files of its own at the top, and through links there",
        "files = { \"/x\" = \"text\", \"/bin/own\" = \"echo own\", \"/a/b\" = \"c\" }",
        "import os, subprocess\n\
         print(open('/x').read(), open('/a/b').read(), os.path.isfile('/x'), subprocess.check_output(['sh', '/usr/bin/own']))",
        "text c True b'own\\n'\n",
    ),
    (
        "a folder that was made somebody's root, before and after it is written to",
        "",
        "import os\n\
         os.chroot('/sys'); os.chdir('/'); open('f', 'w').close(); print(sorted(os.listdir('/')))",
        "['class', 'devices', 'f']\n",
    ),
    (
        "a child of vfork(2) writes where the parent is",
        "",
        "import os\n\
         os.chdir('/sys')\n\
         p = os.posix_spawn('/bin/true', ['true'], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/sys/log', os.O_CREAT | os.O_WRONLY, 0o644)])\n\
         os.waitpid(p, 0); print(sorted(os.listdir('/sys')), len(os.listdir('.')))",
        "['class', 'devices', 'log'] 3\n",
    ),
    (
        "names are read while one is added",
        "",
        "import os\n\
         seen = []\n\
         for entry in os.scandir('/'):\n    seen.append(entry.name); open('/added', 'w').close()\n\
         print(len(seen) - len(set(seen)), {'usr', 'etc', 'dev'} - set(seen))",
        "0 set()\n",
    ),
    (
        "/run is emptied before the first write elsewhere",
        "",
        "import os, subprocess\n\
         subprocess.run('rm -rf /run/*', shell=True)\n\
         open('/var/tmp/weft-x', 'w').close(); open('/opt/weft-y', 'w').close(); open('/z', 'w').close()\n\
         print(os.path.exists('/var/tmp/weft-x'), os.path.exists('/opt/weft-y'), os.path.exists('/proc/self/stat'))",
        "True True True\n",
    ),
    (
        "flags of an open folder stay when it becomes the node's own",
        "",
        "import fcntl, os\n\
         f = os.open('/sys', os.O_RDONLY | os.O_NONBLOCK); before = fcntl.fcntl(f, fcntl.F_GETFL)\n\
         open('/sys/x', 'w').close(); print(fcntl.fcntl(f, fcntl.F_GETFL) == before, sorted(os.listdir(f)))",
        "True ['class', 'devices', 'x']\n",
    ),
    (
        "what another process executes",
        "",
        "import os, subprocess\n\
         p = subprocess.Popen(['sleep', '5']); q = f'/proc/{p.pid}/exe'; sleep = os.path.realpath('/bin/sleep')\n\
         print(os.readlink(q) == sleep, os.stat(q) == os.stat(sleep), open(q, 'rb').read(4))\n\
         p.kill(); os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)\n\
         print(os.path.exists(q))",
        "True True b'\\x7fELF'\nFalse\n",
    ),
    (
        "sockets in TIME-WAIT are counted as such",
        "",
        "import socket\n\
         s = socket.create_server(('127.0.0.1', 9)); c = socket.create_connection(('127.0.0.1', 9)); a = s.accept()[0]\n\
         c.close(); a.recv(1); a.close()\n\
         print(open('/proc/net/sockstat').read().splitlines()[1])",
        "TCP: inuse 1 orphan 0 tw 1 alloc 1 mem 0\n",
    ),
    (
        "what the host has in memory, where its processes lie and who opens its files",
        "",
        "import ctypes, mmap, os\n\
         libc = ctypes.CDLL(None)\n\
         f = os.open('/usr/bin/env', os.O_RDONLY); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)\n\
         m = mmap.mmap(f, 8192, mmap.MAP_PRIVATE); v = ctypes.create_string_buffer(2)\n\
         libc.mincore(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 8192, v)\n\
         print(v.raw, os.path.isdir('/proc/1/map_files'), len(os.listdir('/proc/1/map_files')) > 3)\n\
         w = libc.inotify_init1(os.O_NONBLOCK)\n\
         print(libc.inotify_add_watch(w, b'/dev/null', 0xfff), libc.inotify_add_watch(w, b'/usr/bin/env', 0xfff))\n\
         open('/usr/bin/env', 'rb').read(1); print(len(os.read(w, 4096)) > 0, os.listdir('/proc/1/map_files'))\n\
         open('/dev/null').close(); print(end='')",
        "",
    ),
    (
        "who has another root stays where it is",
        "",
        "import os, time\n\
         os.makedirs('/tmp/j/usr/jail'); os.chdir('/usr')\n\
         if os.fork() == 0:\n    time.sleep(.1); open('/made', 'w').close(); os._exit(0)\n\
         os.chroot('/tmp/j'); time.sleep(.2); print(os.path.exists('bin'), os.path.exists('jail'))",
        "True False\n",
    ),
];

/// Takes locks of files that all nodes have, which belong to open files: child processes hold them too, and others of the node wait for them.
const LOCKS: &str = "
import fcntl, os, time
def tried(f, how):
    try:
        return fcntl.flock(f, how | fcntl.LOCK_NB)
    except OSError as error:
        return error.strerror
for name, mode in ('/usr/bin/env', os.O_RDONLY), ('/dev/null', os.O_WRONLY), ('/dev/zero', os.O_RDWR), ('/usr/lib', os.O_RDONLY):
    f, g, h = (os.open(name, mode) for _ in range(3))
    said = [tried(f, fcntl.LOCK_SH), tried(g, fcntl.LOCK_SH), tried(g, fcntl.LOCK_EX), tried(g, fcntl.LOCK_SH)]
    said += [tried(f, fcntl.LOCK_UN), tried(g, fcntl.LOCK_EX), tried(f, fcntl.LOCK_SH), tried(g, fcntl.LOCK_SH), tried(f, fcntl.LOCK_SH)]
    said += [tried(f, fcntl.LOCK_UN), tried(g, fcntl.LOCK_UN), tried(h, fcntl.LOCK_EX)]
    ends = os.pipe()
    if os.fork() == 0:
        time.sleep(.05)
        os.write(ends[1], b'gone')
        os._exit(0)
    os.close(h)
    said.append(tried(f, fcntl.LOCK_EX))
    fcntl.flock(f, fcntl.LOCK_EX)
    os.set_blocking(ends[0], False)
    print(name, said, os.read(ends[0], 9))
    os.wait()
time.sleep(1)
";

#[test]
fn locks_of_the_hosts_files_are_a_nodes_own() {
    let native = std::process::Command::new("python3").args(["-c", LOCKS]).output().unwrap();
    assert!(native.status.success(), "{native:?}");
    let native = String::from_utf8(native.stdout).unwrap();
    assert_eq!(native.matches("'Resource temporarily unavailable'").count(), 12, "{native}");
    let text = format!(
        "duration = \"5s\"\n[nodes.n]\ncount = 3\n[programs.p]\nnode = \"n*\"\ncommand = [\"python3\", \"-c\", \"\"\"{LOCKS}\"\"\"]\n"
    );
    let scenario = Scenario::parse("locks.toml", &text, &[], &|_| Err(String::new())).unwrap_or_else(|error| panic!("{error}"));
    let mut world = World::new(scenario.plan, 2).unwrap_or_else(|error| panic!("{error}"));
    world.run(&mut |_| true);
    for node in 0..3 {
        assert_eq!(output(&world, node), native);
    }
}

#[test]
fn what_programs_see_is_what_linux_shows() {
    let mut text = "duration = \"20s\"\n".to_owned();
    for (number, (_, node, program, _)) in CORNERS.iter().enumerate() {
        text += &format!(
            "[nodes.n{number}]\n{node}\n[programs.p{number}]\nnode = \"n{number}\"\ncommand = [\"python3\", \"-c\", '''{program}''']\n"
        );
    }
    // Nodes without a wire's delay between them: nothing looks again by chance.
    for number in (1..CORNERS.len()).step_by(2) {
        text += &format!("[wires.w{number}]\nbetween = [\"n{}\", \"n{number}\"]\n", number - 1);
    }
    let scenario = Scenario::parse("corners.toml", &text, &[], &|_| Err(String::new())).unwrap_or_else(|error| panic!("{error}"));
    let run = || {
        let mut world = World::new(scenario.plan.clone(), 2).unwrap_or_else(|error| panic!("{error}"));
        world.run(&mut |_| true);
        world
    };
    let (world, again) = (run(), run());
    for (number, (what, _, _, expected)) in CORNERS.iter().enumerate() {
        if !expected.is_empty() {
            assert_eq!(output(&world, number), *expected, "{what}");
        }
        assert_eq!(output(&world, number), output(&again, number), "{what}, again");
    }
    assert_eq!(world.hash(), again.hash());
}
