#compdef weft

autoload -U is-at-least

_weft() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_weft_commands" \
"*::: :->weft" \
&& ret=0
    case $state in
    (weft)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:weft-command-$line[1]:"
        case $line[1] in
            (up)
_arguments "${_arguments_options[@]}" : \
'--stack=[Stack file (TOML) \[default\: TAP weft0, 10.77.0.2/24 and fd77\:\:2/64, default routes of both families to the host side; where that is taken weft1 with 10.77.1.2/24, and so on\]]:FILE:_files' \
'*--set=[Set a parameter over the stack file'\''s\: block.parameter=value]:BLOCK.PARAMETER=VALUE:_default' \
'--engine=[How the stack'\''s blocks take turns, over the stack file'\''s\: inline, queued, or threaded (a thread and a queue for each block; for comparison\: slower)]:ENGINE:((inline\:"Run to completion \[default\]"
queued\:"One thread, a queue in front of each block"
threaded\:"A thread and a queue for each block"))' \
'--tap=[Name of the TAP device instead of the stack file'\''s first, or of weft0]:NAME:_default' \
'--seed=[Seed of the node'\''s randomness \[default\: from the system\]]:SEED:_default' \
'--capture=[Write all frames of all interfaces to this pcapng file]:FILE:_files' \
'*--publish=[Carry connections to a port of the host to a port of the stack\: 8080\:80, 127.0.0.1\:8080\:80, \[\:\:1\]\:5353\:53/udp. Needs no privilege. May be given several times]:[HOST_ADDRESS:]HOST_PORT:PORT[/udp]:_default' \
'--control=[Where to listen for commands and programs\: a path in a directory that exists \[default\: \$WEFT_CONTROL, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--mptcp[Multipath TCP for every program, over the paths that the stack has; with peers that do not speak it, TCP]' \
'--nat[Let the stack'\''s network out through the host, with the host'\''s addresses (masquerading). Needs root. Ends with weft, also after kill -9, and so does forwarding that had to be switched on]' \
'(--nat --tap)--internet[Let the stack'\''s traffic out through passt\: as any user, with no TAP and no privilege. Names are resolved as the host resolves them; the host'\''s own servers are at 10.77.0.1 and fd77\:\:1. passt is started, and ends with weft]' \
'--detach[Return when the stack is up and leave it running]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(down)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(shutdown)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(run)
_arguments "${_arguments_options[@]}" : \
'--stack=[Stack file (TOML) \[default\: TAP weft0, 10.77.0.2/24 and fd77\:\:2/64, default routes of both families to the host side; where that is taken weft1 with 10.77.1.2/24, and so on\]]:FILE:_files' \
'*--set=[Set a parameter over the stack file'\''s\: block.parameter=value]:BLOCK.PARAMETER=VALUE:_default' \
'--engine=[How the stack'\''s blocks take turns, over the stack file'\''s\: inline, queued, or threaded (a thread and a queue for each block; for comparison\: slower)]:ENGINE:((inline\:"Run to completion \[default\]"
queued\:"One thread, a queue in front of each block"
threaded\:"A thread and a queue for each block"))' \
'--tap=[Name of the TAP device instead of the stack file'\''s first, or of weft0]:NAME:_default' \
'--seed=[Seed of the node'\''s randomness \[default\: from the system\]]:SEED:_default' \
'--capture=[Write all frames of all interfaces to this pcapng file]:FILE:_files' \
'*--publish=[Carry connections to a port of the host to a port of the stack\: 8080\:80, 127.0.0.1\:8080\:80, \[\:\:1\]\:5353\:53/udp. Needs no privilege. May be given several times]:[HOST_ADDRESS:]HOST_PORT:PORT[/udp]:_default' \
'(--stack --set --engine --tap --seed --capture --nat --internet --publish --mptcp)--control=[Join the stack with this control socket\: a path, or run-PID]:PATH:_files' \
'--mptcp[Multipath TCP for every program, over the paths that the stack has; with peers that do not speak it, TCP]' \
'--nat[Let the stack'\''s network out through the host, with the host'\''s addresses (masquerading). Needs root. Ends with weft, also after kill -9, and so does forwarding that had to be switched on]' \
'(--nat --tap)--internet[Let the stack'\''s traffic out through passt\: as any user, with no TAP and no privilege. Names are resolved as the host resolves them; the host'\''s own servers are at 10.77.0.1 and fd77\:\:1. passt is started, and ends with weft]' \
'--strict[Run the program by the loader of virtual time, in real time\: its sockets are the model'\''s own, without the differences that stand-ins make; a call on a socket costs more. What is different from Linux besides is in docs/compatibility.md]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::program -- The program and its arguments; `--` in front of a program whose name begins with '\''-'\'':_default' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':what -- What to show:(blocks edges interfaces addresses routes neighbours groups sockets mptcp counters drops generations calls published)' \
&& ret=0
;;
(get)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':name -- Block, or block.parameter; the block may be a pattern. Or group\:GROUP, or group\:GROUP.FIGURE:_default' \
&& ret=0
;;
(set)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':name -- block.parameter, or block.parameter=value; the block may be a pattern\: then all that match are set, or none. Or group\:GROUP:_default' \
'::value -- The value\: a number, true, false, a word, 20ms, 100mbit. Of a group KEY=VALUE:_default' \
'*::more -- Of a group, more of them:_default' \
&& ret=0
;;
(add)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':name -- Its name:_default' \
':kind -- Its kind:_default' \
'*::parameters -- Parameters that differ from their defaults:_default' \
&& ret=0
;;
(delete)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':name -- The block:_default' \
&& ret=0
;;
(bind)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':from -- Output\: block or block\:port:_default' \
':to -- Input\: block or block\:port:_default' \
&& ret=0
;;
(unbind)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':from -- Output\: block or block\:port:_default' \
'::to -- Input\: block or block\:port:_default' \
&& ret=0
;;
(insert)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':block -- The block:_default' \
':from -- The edge'\''s output\: block or block\:port:_default' \
':to -- The edge'\''s input\: block or block\:port:_default' \
&& ret=0
;;
(extract)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':block -- The block:_default' \
&& ret=0
;;
(replace)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--drop-state[Let the new one start empty]' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':name -- The block:_default' \
':kind -- The new one'\''s kind:_default' \
'*::parameters -- Parameters that become others:_default' \
&& ret=0
;;
(load)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- A block\: a WebAssembly module (.wasm), native object (.so) or Python script (.py):_default' \
&& ret=0
;;
(unload)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
':kind -- The kind:_default' \
&& ret=0
;;
(new)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
":: :_weft__subcmd__new_commands" \
"*::: :->new" \
&& ret=0

    case $state in
    (new)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:weft-new-command-$line[1]:"
        case $line[1] in
            (block)
_arguments "${_arguments_options[@]}" : \
'--lang=[The language\: rust (as WebAssembly), or c (as WebAssembly, or as a native object where clang or lld are missing)]:LANGUAGE:(rust c)' \
'-h[Print help]' \
'--help[Print help]' \
':name -- Its kind, which also names the folder:_default' \
&& ret=0
;;
        esac
    ;;
esac
;;
(apply)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--dry-run[Change nothing\: check, and print what would be done, in the words of the commands]' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- The stack file (TOML); `weft help stack` shows what to write into one:_files' \
&& ret=0
;;
(snapshot)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- The file; one that is there is replaced when the new one is complete:_default' \
&& ret=0
;;
(restore)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- The file:_default' \
&& ret=0
;;
(pause)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(unpause)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(record)
_arguments "${_arguments_options[@]}" : \
'--out=[Folder for what is recorded]:DIR:_files' \
'--every=[How often the stack is asked]:TIME:_default' \
'--for=[End after this time]:TIME:_default' \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(subscribe)
_arguments "${_arguments_options[@]}" : \
'-c+[Stop after this many lines]:LINES:_default' \
'--count=[Stop after this many lines]:LINES:_default' \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::block -- The block, or a pattern:_default' \
&& ret=0
;;
(console)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'(--lana)--fins[Also take the commands of the FINS framework'\''s console]' \
'--lana[Also take the commands of LANA'\''s fbctl and vlink]' \
'--json[Print JSON instead of tables]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(trace)
_arguments "${_arguments_options[@]}" : \
'-c+[Stop after this many frames]:FRAMES:_default' \
'--count=[Stop after this many frames]:FRAMES:_default' \
'--control=[Control socket of the stack\: a path, or the name of one in weft'\''s own directory, as run-PID for the stack of \`weft run\` with that process id \[default\: \$WEFT_CONTROL, which programs under weft have, else \$XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others\]]:PATH:_files' \
'--node=[A node of a world that runs (\`weft sim --pace 1.0\`, or --control)\: --control names the world'\''s socket then \[default\: the only world'\''s\]]:NAME:_default' \
'--json[Print JSON instead of tables]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':file -- The stack file:_files' \
&& ret=0
;;
(import)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
":: :_weft__subcmd__import_commands" \
"*::: :->import" \
&& ret=0

    case $state in
    (import)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:weft-import-command-$line[1]:"
        case $line[1] in
            (fins)
_arguments "${_arguments_options[@]}" : \
'--out=[Write the stack file here instead of to standard output]:FILE:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':stack -- Modules and links:_files' \
':environment -- Interfaces, addresses and routes:_files' \
&& ret=0
;;
        esac
    ;;
esac
;;
(bridge)
_arguments "${_arguments_options[@]}" : \
'--rate=[Rate of the wire, each direction\: 100mbit, 1gbit]:RATE:_default' \
'--queue-bytes=[Bytes that may wait for the wire, each direction]:QUEUE_BYTES:_default' \
'--delay=[Delay one way\: 20ms, 50us]:DELAY:_default' \
'--loss=[Probability that a frame is lost, 0 to 1]:LOSS:_default' \
'--loss-burst=[Lose frames in bursts of this mean length (Gilbert-Elliott); --loss is then the share that is lost]:FRAMES:_default' \
'--duplicate=[Probability that a frame comes twice]:PROBABILITY:_default' \
'--corrupt=[Probability that a bit of a frame is flipped]:PROBABILITY:_default' \
'--reorder=[Probability that a frame is overtaken by the five next ones]:PROBABILITY:_default' \
'--blackhole=[Swallow longer IP packets without an ICMP error\: a path-MTU black hole]:BYTES:_default' \
'--seed=[Seed of the losses]:SEED:_default' \
'-h[Print help]' \
'--help[Print help]' \
'*::interfaces -- The two interfaces, for example packet\:veth1 packet\:veth2:_default' \
&& ret=0
;;
(sim)
_arguments "${_arguments_options[@]}" : \
'--out=[Write results into this folder; what an earlier run left there goes. With --seeds or --grid\: the table of all runs as DIR/runs.csv and runs.parquet, and everything of the first ten that fail, in folders of DIR]:DIR:_files' \
'--record=[Also write what the hash stands for into DIR/record\: every frame, call and output, whole; for \`weft hash\` and \`weft diff\`]:WHAT:((full\:"All interfaces, all results of calls, all output"))' \
'(--seeds --grid)--pace=[Tie virtual time to the wall clock\: 1.0 as fast as it, 0.1 a tenth. Changes no result]:SPEED:_default' \
'(--seeds --grid)--control=[Let \`weft exec\` in through this socket \[default\: with --pace, sim-PID in weft'\''s own directory; else nobody\]]:PATH:_files' \
'(--seeds --grid)--break-at=[Stop before the first event at or after this virtual time, for a debugger\: in gdb as at a breakpoint, else as by SIGSTOP]:TIME:_default' \
'(--seeds --grid)--gdb=[Run a program of the scenario under gdb, or the kernel of a node (NODE). Virtual time stands still while gdb does, and no result changes]:NODE[/PROGRAM]:_default' \
'--gdb-script=[With --gdb\: commands that gdb executes, and then ends]:FILE:_files' \
'*--set=[Set a value over the scenario'\''s, for example wires.ab.loss=0.01]:PATH=VALUE:_default' \
'--seed=[Another seed]:SEED:_default' \
'(--seed)--seeds=[Run once for each seed from A to B, in parallel\: A..B]:A..B:_default' \
'*--grid=[Run once for each of these values, set over the scenario'\''s as by --set; several of them\: each value of one with each of the others]:PATH=VALUE,VALUE…:_default' \
'--threads=[Threads. They change nothing but how long it takes \[default\: 1; with --seeds or --grid, as many as there are cores\]]:N:_default' \
'--junit=[Write what was expected, and whether it was so, as JUnit'\''s XML]:FILE:_files' \
'--wall-limit=[End the run after so much real time, with complete results up to there and exit status 3. Where it ends is not reproducible]:TIME:_default' \
'--calls[Also write what each unmodified program asks of the kernel, as strace would, into DIR/programs/NAME/calls. Changes no result, but takes longer]' \
'(--seeds --grid)--keep-disks[Also write every file that programs have written on their nodes'\'' disks into DIR/files/NODE, and not only those that \`collect\` names]' \
'--until-fail[With --seeds or --grid\: stop at the first run that fails, and say how to repeat it]' \
'--resume[With --seeds or --grid and --out\: runs of the same command that have ended there are not run again]' \
'--json[Print the summary as JSON on standard output; with --seeds or --grid the table, whose margin_of_error is half of the 95 % interval of the mean, and every run]' \
'--check[Read the scenario and say what it comes to, without running it; programs and scripts that are not there are errors]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- The scenario (TOML); `weft help scenario` tells what it may hold:_files' \
&& ret=0
;;
(test)
_arguments "${_arguments_options[@]}" : \
'(--seed)--seeds=[Run each once for each seed from A to B \[default\: its own seed\]]:A..B:_default' \
'*--set=[Set a value over the scenario'\''s, for example wires.ab.loss=0.01]:PATH=VALUE:_default' \
'--seed=[Another seed]:SEED:_default' \
'--threads=[Worlds at a time \[default\: as many as there are cores\]]:N:_default' \
'--junit=[Write what was expected, and whether it was so, as JUnit'\''s XML\: a suite a run]:FILE:_files' \
'--json[Print JSON instead of a line a run]' \
'-h[Print help]' \
'--help[Print help]' \
'*::paths -- Scenarios, or folders\: of those, every scenario in them and below:_files' \
&& ret=0
;;
(twin)
_arguments "${_arguments_options[@]}" : \
'*--variants=[Only these variants; each is compared with the last one]:NAMES:_default' \
'*--set=[Set a value over the scenario'\''s, for example wires.ab.loss=0.01]:PATH=VALUE:_default' \
'--seed=[Another seed]:SEED:_default' \
'(--seed)--seeds=[Run each variant once for each seed from A to B, and print ratios of goodput with 95 % intervals instead]:A..B:_default' \
'--tolerance=[Frames may be so far apart in time before they count as different]:TIME:_default' \
'(--seeds)--out=[Write table, plot and the results of each variant into this folder; of several scenarios, into one of its folders each \[default\: twin-SCENARIO\]]:DIR:_files' \
'--threads=[Variants and seeds that run at a time \[default\: as many as there are cores\]]:N:_default' \
'--windows[Compare the receive windows of all segments, and not only of those with SYN]' \
'--json[Print JSON, a line each scenario]' \
'-h[Print help]' \
'--help[Print help]' \
'*::files -- Scenarios (TOML). All their hosts have weft'\''s stack in variant weft and are Linux kernels in variant linux; \[\[twins\]\] in a scenario names more:_files' \
&& ret=0
;;
(kernel)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
":: :_weft__subcmd__kernel_commands" \
"*::: :->kernel" \
&& ret=0

    case $state in
    (kernel)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:weft-kernel-command-$line[1]:"
        case $line[1] in
            (build)
_arguments "${_arguments_options[@]}" : \
'--version=[Version, of Debian'\''s package linux-source-VERSION]:VERSION:_default' \
'*--config=[A file with lines CONFIG_…=… over the usual configuration; may be given several times]:FRAGMENT:_files' \
'--coverage[Count which lines are executed (gcov)]' \
'--debug[With what a debugger needs]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(coverage)
_arguments "${_arguments_options[@]}" : \
'--kernel=[Which kernel they ran, as \`weft kernel list\` shows it]:NAME:_default' \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':path -- A folder or file of the kernel'\''s sources\: net/mptcp:_default' \
'*::results -- Folders of results (weft sim SCENARIO --out DIR), added up:_files' \
&& ret=0
;;
(remove)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':name -- Its name or key, as `weft kernel list` shows it:_default' \
&& ret=0
;;
        esac
    ;;
esac
;;
(root)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
":: :_weft__subcmd__root_commands" \
"*::: :->root" \
&& ret=0

    case $state in
    (root)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:weft-root-command-$line[1]:"
        case $line[1] in
            (make)
_arguments "${_arguments_options[@]}" : \
'--out=[The folder \[default\: beside the file, called as it without its .toml\]]:DIR:_files' \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':file -- What is to be in it (TOML):_files' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':dir -- The folder:_files' \
&& ret=0
;;
        esac
    ;;
esac
;;
(exec)
_arguments "${_arguments_options[@]}" : \
'--control=[Control socket. Procedures\: of the stack, as for other commands. Programs\: of the world, a path or sim-PID \[default\: that of the only world that runs\]]:PATH:_files' \
'--node=[For a procedure\: a node of a world that runs]:NAME:_default' \
'--json[Print what a procedure answers as JSON]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':name -- The block; or the node:_default' \
'::procedure -- The procedure:_default' \
'*::arguments -- Its arguments:_default' \
&& ret=0
;;
(hash)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':folder -- The folder of results:_files' \
&& ret=0
;;
(diff)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON]' \
'-h[Print help]' \
'--help[Print help]' \
':first -- Folder of results of the first run:_files' \
':second -- Folder of results of the second run:_files' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'--root=[Read /proc, /sys and /dev below this folder]:DIR:_files' \
'--json[Print JSON]' \
'--no-trials[Look only at what the system says of itself, and try nothing]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
'--json[Print JSON (blocks only)]' \
'-h[Print help]' \
'--help[Print help]' \
'*::topic -- A command, `stack`, `scenario`, `root`, `blocks`, `block NAME`, or `block FILE` for a loadable one (`./alternate.wasm`):_default' \
&& ret=0
;;
(generate)
_arguments "${_arguments_options[@]}" : \
'--check[Write nothing; fail if a page differs from what would be written]' \
'-h[Print help]' \
'--help[Print help]' \
':folder -- The folder; what is in its three subfolders and is not generated is left alone:_files' \
&& ret=0
;;
(ground-keeper)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':wish:_default' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_weft_commands] )) ||
_weft_commands() {
    local commands; commands=(
'up:Bring a stack up for programs to join. Stays in the foreground; prints \`ready control=PATH\` when up' \
'down:End a stack. Programs on it lose their connections; it says how many there are' \
'shutdown:End a stack. Programs on it lose their connections; it says how many there are' \
'run:Run a program on weft\: on a running daemon if there is one, else on a stack of its own, for the life of the program and of the processes that it leaves behind. --stack, --set, --engine, --mptcp, --tap, --seed, --capture, --nat, --internet and --publish ask for a stack of its own. The exit status is the program'\''s' \
'show:Show what a node is and what it has counted' \
'get:Read parameters\: \`weft get tcp.mss\`, \`weft get tcp\`, \`weft get '\''*'\''\`' \
'set:Set a parameter while the node runs\: \`weft set tcp.mss 536\`, or \`weft set tcp.mss=536\`. Or set all interfaces of a group, every one or none\: \`weft set group\:wifi mtu=1400\`, \`weft set group\:5 address=10.0.0.1/24\`, \`weft set group\:5 route=10.9.0.0/16\`; groups have numbers, or names in /etc/iproute2/group. With dry_run=true it says who would change' \
'add:Make a block\: \`weft add wan delay delay=20ms\`. It is bound to nothing yet\: \`weft insert\` puts it into an edge' \
'delete:Remove a block and its edges' \
'bind:Make an edge from an output to an input\: \`weft bind tcp ip4\`, \`weft bind tcp\:ip4 ip4\:upper\`' \
'unbind:Remove the edges from one block to another\: \`weft unbind tcp ip4\`; or from an output, wherever it leads\: \`weft unbind tcp\:ip4\`' \
'insert:Put a block that is bound to nothing into an edge, in one step\: \`weft insert wan ether\:lower interfaces\:upper\`' \
'extract:Take a block out of its edge and join what was before and after it, in one step. It is there still; \`weft delete\` removes it' \
'replace:Put a new block in a block'\''s place\: \`weft replace tcp tcp congestion=bbr\`. It takes over the edges, the parameters that are not given, and the state\: connections go on' \
'load:Make the kind of block in a file known\: \`weft load alternate.wasm\`. \`weft add\` and \`weft replace\` can use it then' \
'unload:Forget a kind of block that was loaded. No block may be of it' \
'new:Begin something of your own\: \`weft new block mine\`' \
'apply:Bring the running graph and its interfaces to those of a stack file, with the fewest changes, all of them in one step or none' \
'snapshot:Write the state of all blocks into a file, as it stands at one moment\: connections, tables, timers, frames that are held. Only its owner can read it' \
'restore:Put the state in a file of \`weft snapshot\` into all blocks, at one moment\: into all of them or into none. Timers go on with the time that they had left' \
'pause:Hold every frame in the graph, until \`weft unpause\`\: at most 8192, more are dropped and counted (\`weft show drops\`)' \
'unpause:Let the frames that \`weft pause\` has held go on, in their order' \
'record:Record Multipath TCP over time, until interrupted or until the stack is gone\: the series and the picture that \`weft sim\` leaves' \
'subscribe:Print the alerts of blocks and the changes that are made to them, as they come, until interrupted' \
'console:Change and look at a running stack by commands, in an interactive shell with completion (tab) and history (arrows, ctrl-R)' \
'trace:Print a line for every frame that enters or leaves the node, until interrupted' \
'check:Check a stack file without bringing it up, and say which interfaces and addresses it would have' \
'import:Convert the configuration of another framework to a stack file' \
'bridge:Join two interfaces by a wire that is slow, long or lossy, until interrupted. Needs CAP_NET_RAW in their namespace' \
'sim:Run a scenario in virtual time. Exit status 0\: all is as expected; 1\: something is not; 2\: the scenario or the command is wrong; 3\: --wall-limit; 130\: ctrl-C' \
'test:Run scenarios, and say which are as expected. Exit status 1\: one is not, or cannot be read; 2\: there is none' \
'twin:Run a scenario with weft'\''s stack and with Linux kernels, and show both side by side. Exit status 1\: something is not as expected' \
'kernel:Linux kernels as nodes of virtual worlds (kind = "linux")\: build them from Debian'\''s sources, list them, remove them' \
'root:Folders that are / for the nodes of a scenario (root = "DIR"), the same on every machine' \
'exec:Run a procedure of a block (\`weft exec arp flush\`), or a program in a node of a world that runs (\`weft exec NODE -- PROGRAM\`)' \
'hash:Compute the hash of a run again, from its record (\`weft sim --record full\`). Exit status 1\: the summary beside it says otherwise' \
'diff:Find the first event in which two recorded runs differ (\`weft sim --record full\`). Exit status 1\: there is one' \
'doctor:Say what works on this machine, what does not and why, and the line that repairs it. Exit status 1\: something that weft is mostly used for does not work' \
'help:Help on commands, stack and scenario files, and blocks\: \`weft help run\`, \`weft help stack\`, \`weft help scenario\`, \`weft help block tcp\`' \
'generate:Write manual pages (man/), shell completions (completions/), a page a block (blocks/) and the page of system calls (calls.md) into a folder' \
'ground-keeper:Not for people\: holds the namespaces under a stack that may not open a TAP' \
    )
    _describe -t commands 'weft commands' commands "$@"
}
(( $+functions[_weft__subcmd__add_commands] )) ||
_weft__subcmd__add_commands() {
    local commands; commands=()
    _describe -t commands 'weft add commands' commands "$@"
}
(( $+functions[_weft__subcmd__apply_commands] )) ||
_weft__subcmd__apply_commands() {
    local commands; commands=()
    _describe -t commands 'weft apply commands' commands "$@"
}
(( $+functions[_weft__subcmd__bind_commands] )) ||
_weft__subcmd__bind_commands() {
    local commands; commands=()
    _describe -t commands 'weft bind commands' commands "$@"
}
(( $+functions[_weft__subcmd__bridge_commands] )) ||
_weft__subcmd__bridge_commands() {
    local commands; commands=()
    _describe -t commands 'weft bridge commands' commands "$@"
}
(( $+functions[_weft__subcmd__check_commands] )) ||
_weft__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'weft check commands' commands "$@"
}
(( $+functions[_weft__subcmd__console_commands] )) ||
_weft__subcmd__console_commands() {
    local commands; commands=()
    _describe -t commands 'weft console commands' commands "$@"
}
(( $+functions[_weft__subcmd__delete_commands] )) ||
_weft__subcmd__delete_commands() {
    local commands; commands=()
    _describe -t commands 'weft delete commands' commands "$@"
}
(( $+functions[_weft__subcmd__diff_commands] )) ||
_weft__subcmd__diff_commands() {
    local commands; commands=()
    _describe -t commands 'weft diff commands' commands "$@"
}
(( $+functions[_weft__subcmd__doctor_commands] )) ||
_weft__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'weft doctor commands' commands "$@"
}
(( $+functions[_weft__subcmd__down_commands] )) ||
_weft__subcmd__down_commands() {
    local commands; commands=()
    _describe -t commands 'weft down commands' commands "$@"
}
(( $+functions[_weft__subcmd__exec_commands] )) ||
_weft__subcmd__exec_commands() {
    local commands; commands=()
    _describe -t commands 'weft exec commands' commands "$@"
}
(( $+functions[_weft__subcmd__extract_commands] )) ||
_weft__subcmd__extract_commands() {
    local commands; commands=()
    _describe -t commands 'weft extract commands' commands "$@"
}
(( $+functions[_weft__subcmd__generate_commands] )) ||
_weft__subcmd__generate_commands() {
    local commands; commands=()
    _describe -t commands 'weft generate commands' commands "$@"
}
(( $+functions[_weft__subcmd__get_commands] )) ||
_weft__subcmd__get_commands() {
    local commands; commands=()
    _describe -t commands 'weft get commands' commands "$@"
}
(( $+functions[_weft__subcmd__ground-keeper_commands] )) ||
_weft__subcmd__ground-keeper_commands() {
    local commands; commands=()
    _describe -t commands 'weft ground-keeper commands' commands "$@"
}
(( $+functions[_weft__subcmd__hash_commands] )) ||
_weft__subcmd__hash_commands() {
    local commands; commands=()
    _describe -t commands 'weft hash commands' commands "$@"
}
(( $+functions[_weft__subcmd__help_commands] )) ||
_weft__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'weft help commands' commands "$@"
}
(( $+functions[_weft__subcmd__import_commands] )) ||
_weft__subcmd__import_commands() {
    local commands; commands=(
'fins:Convert the two files of the FINS framework, modules with their links and interfaces with their addresses, to a stack file' \
    )
    _describe -t commands 'weft import commands' commands "$@"
}
(( $+functions[_weft__subcmd__import__subcmd__fins_commands] )) ||
_weft__subcmd__import__subcmd__fins_commands() {
    local commands; commands=()
    _describe -t commands 'weft import fins commands' commands "$@"
}
(( $+functions[_weft__subcmd__insert_commands] )) ||
_weft__subcmd__insert_commands() {
    local commands; commands=()
    _describe -t commands 'weft insert commands' commands "$@"
}
(( $+functions[_weft__subcmd__kernel_commands] )) ||
_weft__subcmd__kernel_commands() {
    local commands; commands=(
'build:Build a kernel\: a few minutes, about 2 GB of disk while it builds, and 10 MB then. One that was built before is found' \
'list:List the kernels that were built' \
'coverage:What of a kernel'\''s sources runs have reached, a line each file. Its nodes run a kernel that counts\: \`weft kernel build --coverage\`, kernel = "6.12+coverage"' \
'remove:Remove a kernel' \
    )
    _describe -t commands 'weft kernel commands' commands "$@"
}
(( $+functions[_weft__subcmd__kernel__subcmd__build_commands] )) ||
_weft__subcmd__kernel__subcmd__build_commands() {
    local commands; commands=()
    _describe -t commands 'weft kernel build commands' commands "$@"
}
(( $+functions[_weft__subcmd__kernel__subcmd__coverage_commands] )) ||
_weft__subcmd__kernel__subcmd__coverage_commands() {
    local commands; commands=()
    _describe -t commands 'weft kernel coverage commands' commands "$@"
}
(( $+functions[_weft__subcmd__kernel__subcmd__list_commands] )) ||
_weft__subcmd__kernel__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'weft kernel list commands' commands "$@"
}
(( $+functions[_weft__subcmd__kernel__subcmd__remove_commands] )) ||
_weft__subcmd__kernel__subcmd__remove_commands() {
    local commands; commands=()
    _describe -t commands 'weft kernel remove commands' commands "$@"
}
(( $+functions[_weft__subcmd__load_commands] )) ||
_weft__subcmd__load_commands() {
    local commands; commands=()
    _describe -t commands 'weft load commands' commands "$@"
}
(( $+functions[_weft__subcmd__new_commands] )) ||
_weft__subcmd__new_commands() {
    local commands; commands=(
'block:Write a project for a block\: it builds, and its tests pass. docs/plugins.md describes what blocks can do, docs/tutorial-ring.md makes one' \
    )
    _describe -t commands 'weft new commands' commands "$@"
}
(( $+functions[_weft__subcmd__new__subcmd__block_commands] )) ||
_weft__subcmd__new__subcmd__block_commands() {
    local commands; commands=()
    _describe -t commands 'weft new block commands' commands "$@"
}
(( $+functions[_weft__subcmd__pause_commands] )) ||
_weft__subcmd__pause_commands() {
    local commands; commands=()
    _describe -t commands 'weft pause commands' commands "$@"
}
(( $+functions[_weft__subcmd__record_commands] )) ||
_weft__subcmd__record_commands() {
    local commands; commands=()
    _describe -t commands 'weft record commands' commands "$@"
}
(( $+functions[_weft__subcmd__replace_commands] )) ||
_weft__subcmd__replace_commands() {
    local commands; commands=()
    _describe -t commands 'weft replace commands' commands "$@"
}
(( $+functions[_weft__subcmd__restore_commands] )) ||
_weft__subcmd__restore_commands() {
    local commands; commands=()
    _describe -t commands 'weft restore commands' commands "$@"
}
(( $+functions[_weft__subcmd__root_commands] )) ||
_weft__subcmd__root_commands() {
    local commands; commands=(
'make:Make such a folder as a file says, from Debian'\''s packages or from a tar file of a container; \`weft help root\` tells what the file may hold' \
'check:Read everything in such a folder, and compare it with what it was when it was made. Exit status 1\: it is another' \
    )
    _describe -t commands 'weft root commands' commands "$@"
}
(( $+functions[_weft__subcmd__root__subcmd__check_commands] )) ||
_weft__subcmd__root__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'weft root check commands' commands "$@"
}
(( $+functions[_weft__subcmd__root__subcmd__make_commands] )) ||
_weft__subcmd__root__subcmd__make_commands() {
    local commands; commands=()
    _describe -t commands 'weft root make commands' commands "$@"
}
(( $+functions[_weft__subcmd__run_commands] )) ||
_weft__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'weft run commands' commands "$@"
}
(( $+functions[_weft__subcmd__set_commands] )) ||
_weft__subcmd__set_commands() {
    local commands; commands=()
    _describe -t commands 'weft set commands' commands "$@"
}
(( $+functions[_weft__subcmd__show_commands] )) ||
_weft__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'weft show commands' commands "$@"
}
(( $+functions[_weft__subcmd__sim_commands] )) ||
_weft__subcmd__sim_commands() {
    local commands; commands=()
    _describe -t commands 'weft sim commands' commands "$@"
}
(( $+functions[_weft__subcmd__snapshot_commands] )) ||
_weft__subcmd__snapshot_commands() {
    local commands; commands=()
    _describe -t commands 'weft snapshot commands' commands "$@"
}
(( $+functions[_weft__subcmd__subscribe_commands] )) ||
_weft__subcmd__subscribe_commands() {
    local commands; commands=()
    _describe -t commands 'weft subscribe commands' commands "$@"
}
(( $+functions[_weft__subcmd__test_commands] )) ||
_weft__subcmd__test_commands() {
    local commands; commands=()
    _describe -t commands 'weft test commands' commands "$@"
}
(( $+functions[_weft__subcmd__trace_commands] )) ||
_weft__subcmd__trace_commands() {
    local commands; commands=()
    _describe -t commands 'weft trace commands' commands "$@"
}
(( $+functions[_weft__subcmd__twin_commands] )) ||
_weft__subcmd__twin_commands() {
    local commands; commands=()
    _describe -t commands 'weft twin commands' commands "$@"
}
(( $+functions[_weft__subcmd__unbind_commands] )) ||
_weft__subcmd__unbind_commands() {
    local commands; commands=()
    _describe -t commands 'weft unbind commands' commands "$@"
}
(( $+functions[_weft__subcmd__unload_commands] )) ||
_weft__subcmd__unload_commands() {
    local commands; commands=()
    _describe -t commands 'weft unload commands' commands "$@"
}
(( $+functions[_weft__subcmd__unpause_commands] )) ||
_weft__subcmd__unpause_commands() {
    local commands; commands=()
    _describe -t commands 'weft unpause commands' commands "$@"
}
(( $+functions[_weft__subcmd__up_commands] )) ||
_weft__subcmd__up_commands() {
    local commands; commands=()
    _describe -t commands 'weft up commands' commands "$@"
}

if [ "$funcstack[1]" = "_weft" ]; then
    _weft "$@"
else
    compdef _weft weft
fi
