#!/bin/sh
# As root, in real time: a program on weft has two paths to a web server, by 20 Mbit/s and by 10 Mbit/s, and Multipath TCP uses both.
#
#     two-paths.sh                     curl downloads 12 MB; meanwhile `weft show mptcp`
#     two-paths.sh PROGRAM [WORD …]    what you like; the server is http://10.1.0.2:8000/file
#
#     PROGRAM ··· weft: wifi0 ═ [ weft bridge ] ═ eth0: weft ··· python3 -m http.server
#                       lte0  ═ [ weft bridge ] ═ eth1
#
# It all happens in a network namespace of its own, and goes with it.
set -eu
[ -n "${TWO_PATHS:-}" ] || exec env TWO_PATHS=1 unshare --net -- "$0" "$@"

folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid) 2>/dev/null; wait; rm -r "$folder"' EXIT
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

until [ -S "$WEFT_CONTROL" ] && ip link show eth1 > /dev/null 2>&1 && ip link show lte0 > /dev/null 2>&1; do sleep 0.1; done
for interface in wifi0 eth0 lte0 eth1; do ip link set "$interface" up; done
weft bridge packet:wifi0 packet:eth0 --rate 20mbit --delay 5ms > /dev/null & echo $! > "$folder/wifi.pid"
weft bridge packet:lte0 packet:eth1 --rate 10mbit --delay 20ms > /dev/null & echo $! > "$folder/lte.pid"
until weft run -- curl -s -o /dev/null http://10.1.0.2:8000/; do sleep 0.1; done

if [ $# -gt 0 ]; then
    weft run -- "$@"
else
    weft run -- curl -sS -o /dev/null -w '%{size_download} bytes in %{time_total} s\n' http://10.1.0.2:8000/file &
    fetch=$!
    sleep 2
    weft show mptcp
    wait "$fetch"
fi
