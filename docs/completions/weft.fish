# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_weft_global_optspecs
    string join \n h/help V/version
end

function __fish_weft_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_weft_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_weft_using_subcommand
    set -l cmd (__fish_weft_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c weft -n "__fish_weft_needs_command" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_needs_command" -s V -l version -d 'Print version'
complete -c weft -n "__fish_weft_needs_command" -f -a "up" -d 'Bring a stack up for programs to join. Stays in the foreground; prints `ready control=PATH` when up'
complete -c weft -n "__fish_weft_needs_command" -f -a "down" -d 'End a stack. Programs on it lose their connections; it says how many there are'
complete -c weft -n "__fish_weft_needs_command" -f -a "shutdown" -d 'End a stack. Programs on it lose their connections; it says how many there are'
complete -c weft -n "__fish_weft_needs_command" -f -a "run" -d 'Run a program on weft: on a running daemon if there is one, else on a stack of its own, for the life of the program and of the processes that it leaves behind. --stack, --set, --engine, --mptcp, --tap, --seed, --capture, --nat, --internet and --publish ask for a stack of its own. The exit status is the program\'s'
complete -c weft -n "__fish_weft_needs_command" -f -a "show" -d 'Show what a node is and what it has counted'
complete -c weft -n "__fish_weft_needs_command" -f -a "get" -d 'Read parameters: `weft get tcp.mss`, `weft get tcp`, `weft get \'*\'`'
complete -c weft -n "__fish_weft_needs_command" -f -a "set" -d 'Set a parameter while the node runs: `weft set tcp.mss 536`, or `weft set tcp.mss=536`. Or set all interfaces of a group, every one or none: `weft set group:wifi mtu=1400`, `weft set group:5 address=10.0.0.1/24`, `weft set group:5 route=10.9.0.0/16`; groups have numbers, or names in /etc/iproute2/group. With dry_run=true it says who would change'
complete -c weft -n "__fish_weft_needs_command" -f -a "add" -d 'Make a block: `weft add wan delay delay=20ms`. It is bound to nothing yet: `weft insert` puts it into an edge'
complete -c weft -n "__fish_weft_needs_command" -f -a "delete" -d 'Remove a block and its edges'
complete -c weft -n "__fish_weft_needs_command" -f -a "bind" -d 'Make an edge from an output to an input: `weft bind tcp ip4`, `weft bind tcp:ip4 ip4:upper`'
complete -c weft -n "__fish_weft_needs_command" -f -a "unbind" -d 'Remove the edges from one block to another: `weft unbind tcp ip4`; or from an output, wherever it leads: `weft unbind tcp:ip4`'
complete -c weft -n "__fish_weft_needs_command" -f -a "insert" -d 'Put a block that is bound to nothing into an edge, in one step: `weft insert wan ether:lower interfaces:upper`'
complete -c weft -n "__fish_weft_needs_command" -f -a "extract" -d 'Take a block out of its edge and join what was before and after it, in one step. It is there still; `weft delete` removes it'
complete -c weft -n "__fish_weft_needs_command" -f -a "replace" -d 'Put a new block in a block\'s place: `weft replace tcp tcp congestion=bbr`. It takes over the edges, the parameters that are not given, and the state: connections go on'
complete -c weft -n "__fish_weft_needs_command" -f -a "load" -d 'Make the kind of block in a file known: `weft load alternate.wasm`. `weft add` and `weft replace` can use it then'
complete -c weft -n "__fish_weft_needs_command" -f -a "unload" -d 'Forget a kind of block that was loaded. No block may be of it'
complete -c weft -n "__fish_weft_needs_command" -f -a "new" -d 'Begin something of your own: `weft new block mine`'
complete -c weft -n "__fish_weft_needs_command" -f -a "apply" -d 'Bring the running graph and its interfaces to those of a stack file, with the fewest changes, all of them in one step or none'
complete -c weft -n "__fish_weft_needs_command" -f -a "snapshot" -d 'Write the state of all blocks into a file, as it stands at one moment: connections, tables, timers, frames that are held. Only its owner can read it'
complete -c weft -n "__fish_weft_needs_command" -f -a "restore" -d 'Put the state in a file of `weft snapshot` into all blocks, at one moment: into all of them or into none. Timers go on with the time that they had left'
complete -c weft -n "__fish_weft_needs_command" -f -a "pause" -d 'Hold every frame in the graph, until `weft unpause`: at most 8192, more are dropped and counted (`weft show drops`)'
complete -c weft -n "__fish_weft_needs_command" -f -a "unpause" -d 'Let the frames that `weft pause` has held go on, in their order'
complete -c weft -n "__fish_weft_needs_command" -f -a "record" -d 'Record Multipath TCP over time, until interrupted or until the stack is gone: the series and the picture that `weft sim` leaves'
complete -c weft -n "__fish_weft_needs_command" -f -a "subscribe" -d 'Print the alerts of blocks and the changes that are made to them, as they come, until interrupted'
complete -c weft -n "__fish_weft_needs_command" -f -a "console" -d 'Change and look at a running stack by commands, in an interactive shell with completion (tab) and history (arrows, ctrl-R)'
complete -c weft -n "__fish_weft_needs_command" -f -a "trace" -d 'Print a line for every frame that enters or leaves the node, until interrupted'
complete -c weft -n "__fish_weft_needs_command" -f -a "check" -d 'Check a stack file without bringing it up, and say which interfaces and addresses it would have'
complete -c weft -n "__fish_weft_needs_command" -f -a "import" -d 'Convert the configuration of another framework to a stack file'
complete -c weft -n "__fish_weft_needs_command" -f -a "bridge" -d 'Join two interfaces by a wire that is slow, long or lossy, until interrupted. Needs CAP_NET_RAW in their namespace'
complete -c weft -n "__fish_weft_needs_command" -f -a "sim" -d 'Run a scenario in virtual time. Exit status 0: all is as expected; 1: something is not; 2: the scenario or the command is wrong; 3: --wall-limit; 130: ctrl-C'
complete -c weft -n "__fish_weft_needs_command" -f -a "test" -d 'Run scenarios, and say which are as expected. Exit status 1: one is not, or cannot be read; 2: there is none'
complete -c weft -n "__fish_weft_needs_command" -f -a "twin" -d 'Run a scenario with weft\'s stack and with Linux kernels, and show both side by side. Exit status 1: something is not as expected'
complete -c weft -n "__fish_weft_needs_command" -f -a "kernel" -d 'Linux kernels as nodes of virtual worlds (kind = "linux"): build them from Debian\'s sources, list them, remove them'
complete -c weft -n "__fish_weft_needs_command" -f -a "root" -d 'Folders that are / for the nodes of a scenario (root = "DIR"), the same on every machine'
complete -c weft -n "__fish_weft_needs_command" -f -a "exec" -d 'Run a procedure of a block (`weft exec arp flush`), or a program in a node of a world that runs (`weft exec NODE -- PROGRAM`)'
complete -c weft -n "__fish_weft_needs_command" -f -a "hash" -d 'Compute the hash of a run again, from its record (`weft sim --record full`). Exit status 1: the summary beside it says otherwise'
complete -c weft -n "__fish_weft_needs_command" -f -a "diff" -d 'Find the first event in which two recorded runs differ (`weft sim --record full`). Exit status 1: there is one'
complete -c weft -n "__fish_weft_needs_command" -f -a "doctor" -d 'Say what works on this machine, what does not and why, and the line that repairs it. Exit status 1: something that weft is mostly used for does not work'
complete -c weft -n "__fish_weft_needs_command" -f -a "help" -d 'Help on commands, stack and scenario files, and blocks: `weft help run`, `weft help stack`, `weft help scenario`, `weft help block tcp`'
complete -c weft -n "__fish_weft_needs_command" -f -a "generate" -d 'Write manual pages (man/), shell completions (completions/), a page a block (blocks/) and the page of system calls (calls.md) into a folder'
complete -c weft -n "__fish_weft_needs_command" -f -a "ground-keeper" -d 'Not for people: holds the namespaces under a stack that may not open a TAP'
complete -c weft -n "__fish_weft_using_subcommand up" -l stack -d 'Stack file (TOML) [default: TAP weft0, 10.77.0.2/24 and fd77::2/64, default routes of both families to the host side; where that is taken weft1 with 10.77.1.2/24, and so on]' -r -F
complete -c weft -n "__fish_weft_using_subcommand up" -l set -d 'Set a parameter over the stack file\'s: block.parameter=value' -r
complete -c weft -n "__fish_weft_using_subcommand up" -l engine -d 'How the stack\'s blocks take turns, over the stack file\'s: inline, queued, or threaded (a thread and a queue for each block; for comparison: slower)' -r -f -a "inline\t'Run to completion [default]'
queued\t'One thread, a queue in front of each block'
threaded\t'A thread and a queue for each block'"
complete -c weft -n "__fish_weft_using_subcommand up" -l tap -d 'Name of the TAP device instead of the stack file\'s first, or of weft0' -r
complete -c weft -n "__fish_weft_using_subcommand up" -l seed -d 'Seed of the node\'s randomness [default: from the system]' -r
complete -c weft -n "__fish_weft_using_subcommand up" -l capture -d 'Write all frames of all interfaces to this pcapng file' -r -F
complete -c weft -n "__fish_weft_using_subcommand up" -l publish -d 'Carry connections to a port of the host to a port of the stack: 8080:80, 127.0.0.1:8080:80, [::1]:5353:53/udp. Needs no privilege. May be given several times' -r
complete -c weft -n "__fish_weft_using_subcommand up" -l control -d 'Where to listen for commands and programs: a path in a directory that exists [default: $WEFT_CONTROL, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand up" -l mptcp -d 'Multipath TCP for every program, over the paths that the stack has; with peers that do not speak it, TCP'
complete -c weft -n "__fish_weft_using_subcommand up" -l nat -d 'Let the stack\'s network out through the host, with the host\'s addresses (masquerading). Needs root. Ends with weft, also after kill -9, and so does forwarding that had to be switched on'
complete -c weft -n "__fish_weft_using_subcommand up" -l internet -d 'Let the stack\'s traffic out through passt: as any user, with no TAP and no privilege. Names are resolved as the host resolves them; the host\'s own servers are at 10.77.0.1 and fd77::1. passt is started, and ends with weft'
complete -c weft -n "__fish_weft_using_subcommand up" -l detach -d 'Return when the stack is up and leave it running'
complete -c weft -n "__fish_weft_using_subcommand up" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand down" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand down" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand down" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand down" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand shutdown" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand shutdown" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand shutdown" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand shutdown" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand run" -l stack -d 'Stack file (TOML) [default: TAP weft0, 10.77.0.2/24 and fd77::2/64, default routes of both families to the host side; where that is taken weft1 with 10.77.1.2/24, and so on]' -r -F
complete -c weft -n "__fish_weft_using_subcommand run" -l set -d 'Set a parameter over the stack file\'s: block.parameter=value' -r
complete -c weft -n "__fish_weft_using_subcommand run" -l engine -d 'How the stack\'s blocks take turns, over the stack file\'s: inline, queued, or threaded (a thread and a queue for each block; for comparison: slower)' -r -f -a "inline\t'Run to completion [default]'
queued\t'One thread, a queue in front of each block'
threaded\t'A thread and a queue for each block'"
complete -c weft -n "__fish_weft_using_subcommand run" -l tap -d 'Name of the TAP device instead of the stack file\'s first, or of weft0' -r
complete -c weft -n "__fish_weft_using_subcommand run" -l seed -d 'Seed of the node\'s randomness [default: from the system]' -r
complete -c weft -n "__fish_weft_using_subcommand run" -l capture -d 'Write all frames of all interfaces to this pcapng file' -r -F
complete -c weft -n "__fish_weft_using_subcommand run" -l publish -d 'Carry connections to a port of the host to a port of the stack: 8080:80, 127.0.0.1:8080:80, [::1]:5353:53/udp. Needs no privilege. May be given several times' -r
complete -c weft -n "__fish_weft_using_subcommand run" -l control -d 'Join the stack with this control socket: a path, or run-PID' -r -F
complete -c weft -n "__fish_weft_using_subcommand run" -l mptcp -d 'Multipath TCP for every program, over the paths that the stack has; with peers that do not speak it, TCP'
complete -c weft -n "__fish_weft_using_subcommand run" -l nat -d 'Let the stack\'s network out through the host, with the host\'s addresses (masquerading). Needs root. Ends with weft, also after kill -9, and so does forwarding that had to be switched on'
complete -c weft -n "__fish_weft_using_subcommand run" -l internet -d 'Let the stack\'s traffic out through passt: as any user, with no TAP and no privilege. Names are resolved as the host resolves them; the host\'s own servers are at 10.77.0.1 and fd77::1. passt is started, and ends with weft'
complete -c weft -n "__fish_weft_using_subcommand run" -l strict -d 'Run the program by the loader of virtual time, in real time: its sockets are the model\'s own, without the differences that stand-ins make; a call on a socket costs more. What is different from Linux besides is in docs/compatibility.md'
complete -c weft -n "__fish_weft_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand show" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand show" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand show" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand show" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand get" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand get" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand get" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand get" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand set" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand set" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand set" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand set" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand add" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand add" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand add" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand delete" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand delete" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand delete" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand delete" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand bind" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand bind" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand bind" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand bind" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand unbind" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand unbind" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand unbind" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand unbind" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand insert" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand insert" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand insert" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand insert" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand extract" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand extract" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand extract" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand extract" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand replace" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand replace" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand replace" -l drop-state -d 'Let the new one start empty'
complete -c weft -n "__fish_weft_using_subcommand replace" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand replace" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand load" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand load" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand load" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand unload" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand unload" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand unload" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand unload" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand new; and not __fish_seen_subcommand_from block" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand new; and not __fish_seen_subcommand_from block" -f -a "block" -d 'Write a project for a block: it builds, and its tests pass. docs/plugins.md describes what blocks can do, docs/tutorial-ring.md makes one'
complete -c weft -n "__fish_weft_using_subcommand new; and __fish_seen_subcommand_from block" -l lang -d 'The language: rust (as WebAssembly), or c (as WebAssembly, or as a native object where clang or lld are missing)' -r -f -a "rust\t''
c\t''"
complete -c weft -n "__fish_weft_using_subcommand new; and __fish_seen_subcommand_from block" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand apply" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand apply" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand apply" -l dry-run -d 'Change nothing: check, and print what would be done, in the words of the commands'
complete -c weft -n "__fish_weft_using_subcommand apply" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand snapshot" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand snapshot" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand snapshot" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand snapshot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand restore" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand restore" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand restore" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand pause" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand pause" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand pause" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand unpause" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand unpause" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand unpause" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand unpause" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand record" -l out -d 'Folder for what is recorded' -r -F
complete -c weft -n "__fish_weft_using_subcommand record" -l every -d 'How often the stack is asked' -r
complete -c weft -n "__fish_weft_using_subcommand record" -l for -d 'End after this time' -r
complete -c weft -n "__fish_weft_using_subcommand record" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand record" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand record" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand subscribe" -s c -l count -d 'Stop after this many lines' -r
complete -c weft -n "__fish_weft_using_subcommand subscribe" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand subscribe" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand subscribe" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand subscribe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand console" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand console" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand console" -l fins -d 'Also take the commands of the FINS framework\'s console'
complete -c weft -n "__fish_weft_using_subcommand console" -l lana -d 'Also take the commands of LANA\'s fbctl and vlink'
complete -c weft -n "__fish_weft_using_subcommand console" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand console" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand trace" -s c -l count -d 'Stop after this many frames' -r
complete -c weft -n "__fish_weft_using_subcommand trace" -l control -d 'Control socket of the stack: a path, or the name of one in weft\'s own directory, as run-PID for the stack of `weft run` with that process id [default: $WEFT_CONTROL, which programs under weft have, else $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]' -r -F
complete -c weft -n "__fish_weft_using_subcommand trace" -l node -d 'A node of a world that runs (`weft sim --pace 1.0`, or --control): --control names the world\'s socket then [default: the only world\'s]' -r
complete -c weft -n "__fish_weft_using_subcommand trace" -l json -d 'Print JSON instead of tables'
complete -c weft -n "__fish_weft_using_subcommand trace" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand check" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand check" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand import; and not __fish_seen_subcommand_from fins" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand import; and not __fish_seen_subcommand_from fins" -f -a "fins" -d 'Convert the two files of the FINS framework, modules with their links and interfaces with their addresses, to a stack file'
complete -c weft -n "__fish_weft_using_subcommand import; and __fish_seen_subcommand_from fins" -l out -d 'Write the stack file here instead of to standard output' -r -F
complete -c weft -n "__fish_weft_using_subcommand import; and __fish_seen_subcommand_from fins" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand bridge" -l rate -d 'Rate of the wire, each direction: 100mbit, 1gbit' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l queue-bytes -d 'Bytes that may wait for the wire, each direction' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l delay -d 'Delay one way: 20ms, 50us' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l loss -d 'Probability that a frame is lost, 0 to 1' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l loss-burst -d 'Lose frames in bursts of this mean length (Gilbert-Elliott); --loss is then the share that is lost' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l duplicate -d 'Probability that a frame comes twice' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l corrupt -d 'Probability that a bit of a frame is flipped' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l reorder -d 'Probability that a frame is overtaken by the five next ones' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l blackhole -d 'Swallow longer IP packets without an ICMP error: a path-MTU black hole' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -l seed -d 'Seed of the losses' -r
complete -c weft -n "__fish_weft_using_subcommand bridge" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand sim" -l out -d 'Write results into this folder; what an earlier run left there goes. With --seeds or --grid: the table of all runs as DIR/runs.csv and runs.parquet, and everything of the first ten that fail, in folders of DIR' -r -F
complete -c weft -n "__fish_weft_using_subcommand sim" -l record -d 'Also write what the hash stands for into DIR/record: every frame, call and output, whole; for `weft hash` and `weft diff`' -r -f -a "full\t'All interfaces, all results of calls, all output'"
complete -c weft -n "__fish_weft_using_subcommand sim" -l pace -d 'Tie virtual time to the wall clock: 1.0 as fast as it, 0.1 a tenth. Changes no result' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l control -d 'Let `weft exec` in through this socket [default: with --pace, sim-PID in weft\'s own directory; else nobody]' -r -F
complete -c weft -n "__fish_weft_using_subcommand sim" -l break-at -d 'Stop before the first event at or after this virtual time, for a debugger: in gdb as at a breakpoint, else as by SIGSTOP' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l gdb -d 'Run a program of the scenario under gdb, or the kernel of a node (NODE). Virtual time stands still while gdb does, and no result changes' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l gdb-script -d 'With --gdb: commands that gdb executes, and then ends' -r -F
complete -c weft -n "__fish_weft_using_subcommand sim" -l set -d 'Set a value over the scenario\'s, for example wires.ab.loss=0.01' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l seed -d 'Another seed' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l seeds -d 'Run once for each seed from A to B, in parallel: A..B' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l grid -d 'Run once for each of these values, set over the scenario\'s as by --set; several of them: each value of one with each of the others' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l threads -d 'Threads. They change nothing but how long it takes [default: 1; with --seeds or --grid, as many as there are cores]' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l junit -d 'Write what was expected, and whether it was so, as JUnit\'s XML' -r -F
complete -c weft -n "__fish_weft_using_subcommand sim" -l wall-limit -d 'End the run after so much real time, with complete results up to there and exit status 3. Where it ends is not reproducible' -r
complete -c weft -n "__fish_weft_using_subcommand sim" -l calls -d 'Also write what each unmodified program asks of the kernel, as strace would, into DIR/programs/NAME/calls. Changes no result, but takes longer'
complete -c weft -n "__fish_weft_using_subcommand sim" -l keep-disks -d 'Also write every file that programs have written on their nodes\' disks into DIR/files/NODE, and not only those that `collect` names'
complete -c weft -n "__fish_weft_using_subcommand sim" -l until-fail -d 'With --seeds or --grid: stop at the first run that fails, and say how to repeat it'
complete -c weft -n "__fish_weft_using_subcommand sim" -l resume -d 'With --seeds or --grid and --out: runs of the same command that have ended there are not run again'
complete -c weft -n "__fish_weft_using_subcommand sim" -l json -d 'Print the summary as JSON on standard output; with --seeds or --grid the table, whose margin_of_error is half of the 95 % interval of the mean, and every run'
complete -c weft -n "__fish_weft_using_subcommand sim" -l check -d 'Read the scenario and say what it comes to, without running it; programs and scripts that are not there are errors'
complete -c weft -n "__fish_weft_using_subcommand sim" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand test" -l seeds -d 'Run each once for each seed from A to B [default: its own seed]' -r
complete -c weft -n "__fish_weft_using_subcommand test" -l set -d 'Set a value over the scenario\'s, for example wires.ab.loss=0.01' -r
complete -c weft -n "__fish_weft_using_subcommand test" -l seed -d 'Another seed' -r
complete -c weft -n "__fish_weft_using_subcommand test" -l threads -d 'Worlds at a time [default: as many as there are cores]' -r
complete -c weft -n "__fish_weft_using_subcommand test" -l junit -d 'Write what was expected, and whether it was so, as JUnit\'s XML: a suite a run' -r -F
complete -c weft -n "__fish_weft_using_subcommand test" -l json -d 'Print JSON instead of a line a run'
complete -c weft -n "__fish_weft_using_subcommand test" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand twin" -l variants -d 'Only these variants; each is compared with the last one' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l set -d 'Set a value over the scenario\'s, for example wires.ab.loss=0.01' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l seed -d 'Another seed' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l seeds -d 'Run each variant once for each seed from A to B, and print ratios of goodput with 95 % intervals instead' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l tolerance -d 'Frames may be so far apart in time before they count as different' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l out -d 'Write table, plot and the results of each variant into this folder; of several scenarios, into one of its folders each [default: twin-SCENARIO]' -r -F
complete -c weft -n "__fish_weft_using_subcommand twin" -l threads -d 'Variants and seeds that run at a time [default: as many as there are cores]' -r
complete -c weft -n "__fish_weft_using_subcommand twin" -l windows -d 'Compare the receive windows of all segments, and not only of those with SYN'
complete -c weft -n "__fish_weft_using_subcommand twin" -l json -d 'Print JSON, a line each scenario'
complete -c weft -n "__fish_weft_using_subcommand twin" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand kernel; and not __fish_seen_subcommand_from build list coverage remove" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand kernel; and not __fish_seen_subcommand_from build list coverage remove" -f -a "build" -d 'Build a kernel: a few minutes, about 2 GB of disk while it builds, and 10 MB then. One that was built before is found'
complete -c weft -n "__fish_weft_using_subcommand kernel; and not __fish_seen_subcommand_from build list coverage remove" -f -a "list" -d 'List the kernels that were built'
complete -c weft -n "__fish_weft_using_subcommand kernel; and not __fish_seen_subcommand_from build list coverage remove" -f -a "coverage" -d 'What of a kernel\'s sources runs have reached, a line each file. Its nodes run a kernel that counts: `weft kernel build --coverage`, kernel = "6.12+coverage"'
complete -c weft -n "__fish_weft_using_subcommand kernel; and not __fish_seen_subcommand_from build list coverage remove" -f -a "remove" -d 'Remove a kernel'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from build" -l version -d 'Version, of Debian\'s package linux-source-VERSION' -r
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from build" -l config -d 'A file with lines CONFIG_…=… over the usual configuration; may be given several times' -r -F
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from build" -l coverage -d 'Count which lines are executed (gcov)'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from build" -l debug -d 'With what a debugger needs'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from build" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from coverage" -l kernel -d 'Which kernel they ran, as `weft kernel list` shows it' -r
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from coverage" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from coverage" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand kernel; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand root; and not __fish_seen_subcommand_from make check" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand root; and not __fish_seen_subcommand_from make check" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand root; and not __fish_seen_subcommand_from make check" -f -a "make" -d 'Make such a folder as a file says, from Debian\'s packages or from a tar file of a container; `weft help root` tells what the file may hold'
complete -c weft -n "__fish_weft_using_subcommand root; and not __fish_seen_subcommand_from make check" -f -a "check" -d 'Read everything in such a folder, and compare it with what it was when it was made. Exit status 1: it is another'
complete -c weft -n "__fish_weft_using_subcommand root; and __fish_seen_subcommand_from make" -l out -d 'The folder [default: beside the file, called as it without its .toml]' -r -F
complete -c weft -n "__fish_weft_using_subcommand root; and __fish_seen_subcommand_from make" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand root; and __fish_seen_subcommand_from make" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand root; and __fish_seen_subcommand_from check" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand root; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand exec" -l control -d 'Control socket. Procedures: of the stack, as for other commands. Programs: of the world, a path or sim-PID [default: that of the only world that runs]' -r -F
complete -c weft -n "__fish_weft_using_subcommand exec" -l node -d 'For a procedure: a node of a world that runs' -r
complete -c weft -n "__fish_weft_using_subcommand exec" -l json -d 'Print what a procedure answers as JSON'
complete -c weft -n "__fish_weft_using_subcommand exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c weft -n "__fish_weft_using_subcommand hash" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand hash" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand diff" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand diff" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand doctor" -l root -d 'Read /proc, /sys and /dev below this folder' -r -F
complete -c weft -n "__fish_weft_using_subcommand doctor" -l json -d 'Print JSON'
complete -c weft -n "__fish_weft_using_subcommand doctor" -l no-trials -d 'Look only at what the system says of itself, and try nothing'
complete -c weft -n "__fish_weft_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand help" -l json -d 'Print JSON (blocks only)'
complete -c weft -n "__fish_weft_using_subcommand help" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand generate" -l check -d 'Write nothing; fail if a page differs from what would be written'
complete -c weft -n "__fish_weft_using_subcommand generate" -s h -l help -d 'Print help'
complete -c weft -n "__fish_weft_using_subcommand ground-keeper" -s h -l help -d 'Print help'
