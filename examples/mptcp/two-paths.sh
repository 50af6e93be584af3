#!/bin/sh
# As root, in real time: a program on weft has two paths to a web server, by 20 Mbit/s and by 10 Mbit/s, and Multipath TCP uses both.
#
#     two-paths.sh                     curl downloads 12 MB; meanwhile `weft show mptcp`; then results/pictures/mptcp.svg
#     two-paths.sh PROGRAM [WORD …]    what you like; the server is http://10.1.0.2:8000/file
#
#     PROGRAM ··· weft: wifi0 ═ [ weft bridge ] ═ eth0: weft ··· python3 -m http.server
#                       lte0  ═ [ weft bridge ] ═ eth1
#
# It all happens in a network namespace of its own, and goes with it.
set -eu

fail() {
    echo "two-paths.sh: $*" >&2
    [ ! -s "${folder:-}/log" ] || { echo "the server says:"; cat "$folder/log"; } >&2
    exit 1
}

# Asks until the command says yes. An end of the server's or the phone's stack is an end of the wait, and so are 30 seconds.
until_it() {
    what=$1; shift
    end=$(($(date +%s) + 30))
    until "$@"; do
        # Of a process that has ended there is no file.
        for one in server phone; do [ -e "/proc/$(cat "$folder/$one.pid")/exe" ] || fail "$what: weft of the $one has ended"; done
        [ "$(date +%s)" -lt "$end" ] || fail "$what: not within 30 s"
        sleep 0.1
    done
}

if [ -z "${TWO_PATHS:-}" ]; then
    [ "$(id -u)" = 0 ] || fail "only root may make network interfaces; try: sudo env PATH=\"\$PATH\" $0"
    for tool in weft curl python3 ip unshare; do
        command -v "$tool" > /dev/null || fail "there is no $tool in the PATH"
    done
    ( : <> /dev/net/tun ) 2> /dev/null || fail "/dev/net/tun cannot be opened: there is none (modprobe tun), or this is the root of a user namespace only"
    exec env TWO_PATHS=1 unshare --net -- "$0" "$@"
fi

folder=$(mktemp -d)
trap 'trap "" HUP INT TERM; kill $(cat "$folder"/*.pid) 2>/dev/null || true; wait; rm -r "$folder"' EXIT
# Without these a shell that a signal ends may leave everything behind.
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM
ip link set lo up

# The stack NAME with two interfaces, each with its address.
stack() {
    echo "[node]"; echo "name = \"$1\""; shift
    for interface; do
        printf '[[interface]]\nname = "%s"\nbackend = "tap:%s"\n' "${interface%=*}" "${interface%=*}"
        printf '[[address]]\ninterface = "%s"\naddress = "%s"\n' "${interface%=*}" "${interface#*=}"
    done
}
stack phone wifi0=10.1.0.1/24 lte0=10.2.0.1/24 > "$folder/phone.toml"
stack server eth0=10.1.0.2/24 eth1=10.2.0.2/24 > "$folder/server.toml"
truncate -s 12000000 "$folder/file"

weft run --mptcp --stack "$folder/server.toml" -- python3 -m http.server --directory "$folder" 8000 > "$folder/log" 2>&1 & echo $! > "$folder/server.pid"
weft up --mptcp --stack "$folder/phone.toml" --control "$folder/control" > /dev/null & echo $! > "$folder/phone.pid"
export WEFT_CONTROL="$folder/control"

stacks_are_up() { [ -S "$WEFT_CONTROL" ] && ip link show eth1 && ip link show lte0; } > /dev/null 2>&1
until_it "interfaces of two stacks" stacks_are_up
for interface in wifi0 eth0 lte0 eth1; do ip link set "$interface" up; done
weft bridge packet:wifi0 packet:eth0 --rate 20mbit --delay 5ms > /dev/null & echo $! > "$folder/wifi.pid"
weft bridge packet:lte0 packet:eth1 --rate 10mbit --delay 20ms > /dev/null & echo $! > "$folder/lte.pid"
until_it "an answer of the server" weft run -- curl -s -m 5 -o /dev/null http://10.1.0.2:8000/

if [ $# -gt 0 ]; then
    weft run -- "$@"
else
    weft record --out "${RESULTS:-results}" & echo $! > "$folder/record.pid"
    weft run -- curl -sS -o /dev/null -w '%{size_download} bytes in %{time_total} s\n' http://10.1.0.2:8000/file &
    fetch=$!; echo "$fetch" > "$folder/fetch.pid"
    sleep 2
    weft show mptcp
    wait "$fetch"
    kill -TERM "$(cat "$folder/record.pid")"; wait "$(cat "$folder/record.pid")"
fi
