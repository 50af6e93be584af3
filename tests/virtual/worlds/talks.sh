#!/bin/bash
# A program of random worlds (worlds.py): jobs, pipelines, traps and connections of a shell; each result with the time.
#     talks.sh HOST PORT COUNT SEED     the server is talks.c's
host=$1 port=$2 count=$3
RANDOM=$4

tell() { echo "$* $EPOCHREALTIME"; }
pause() { sleep "0.$(printf %03d $((RANDOM % ${1:-50})))"; }

connection() {
    exec 7<>"/dev/tcp/$host/$port" || return
    printf 'g\0\0\n' >&7
    tell fetched "$(timeout 0."$((RANDOM % 9 + 1))" cat <&7 | tr '\0' 0 | cksum)"
    exec 7>&-
}
pipeline() {
    seq $((RANDOM % 2000)) | shuf --random-source=/dev/urandom | sort -n | awk '{ s += $1 } END { print s }' | tell "$(cat)"
}
jobs_in_background() {
    local n
    for n in 1 2 3; do (pause 40; tell job $n; exit $n) & done
    if ((RANDOM % 2)); then pause 40; kill -"$((RANDOM % 2 ? 15 : 9))" $!; fi
    for n in $(jobs -p); do wait "$n"; tell waited $?; done
}
traps() {
    trap 'tell usr1' USR1
    (for n in 1 2 3; do pause 20; kill -USR1 $$; done) &
    read -r -t 0.0$((RANDOM % 10)) <> <(:)
    tell read $?
    wait; tell waited $?; wait
}
fifos() {
    rm -f /tmp/fifo; mkfifo /tmp/fifo
    (pause; echo "$RANDOM" > /tmp/fifo) &
    tell "$(cat /tmp/fifo)"
    wait
}
stopped() {
    sleep 0.1 & pause 30; kill -STOP $!; pause; tell "$(jobs)"; kill -CONT $!; wait $!; tell $?
    timeout 0.0$((RANDOM % 9 + 1)) sleep 3; tell $?
}
substitutions() {
    local n text=
    for ((n = 0; n < RANDOM % 12; n++)); do text+=$(echo "$n" | tr 0-9 a-j); done
    tell "$text" "$BASHPID" "$(exec sh -c 'echo $PPID')"
}

things=(connection pipeline jobs_in_background traps fifos stopped substitutions)
for ((turn = 0; turn < count; turn++)); do
    thing=${things[RANDOM % ${#things[@]}]}
    tell "$turn" "$thing"
    "$thing"
    pause
done 2>&1
tell done
