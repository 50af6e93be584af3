#!/bin/sh
# $1: upgrade or remove (dpkg), 1 or 0 (rpm).
set -e
case ${1:-remove} in
    upgrade | 1) exit 0 ;;
esac
if [ -e /etc/apparmor.d/weft ]; then
    if command -v apparmor_parser >/dev/null && [ -e /sys/kernel/security/apparmor ]; then
        apparmor_parser -R /etc/apparmor.d/weft || true
    fi
    rm -f /etc/apparmor.d/weft
fi
