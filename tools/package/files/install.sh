#!/bin/sh
# Installs weft below a folder.
#
#   ./install.sh [PREFIX]               PREFIX is /usr/local for root, ~/.local for others
#   PREFIX/share/weft/uninstall.sh      removes what was installed, and nothing else
#
# With DESTDIR in the environment files go below that, for packagers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 1 ]; then
    echo "install.sh: one folder at most (one with spaces in quotes); see install.sh --help" >&2
    exit 2
fi
if [ "$(id -u)" -eq 0 ]; then
    usual=/usr/local
    umask 022
else
    usual=$HOME/.local
fi
prefix=${1:-$usual}
case $prefix in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;;
    -*) echo "install.sh: there is no option $prefix; see install.sh --help" >&2; exit 2 ;;
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
esac
prefix=${prefix%/}
target=${DESTDIR-}$prefix
list=$target/share/weft/installed folders=$target/share/weft/folders
cd "$here"

# What is replaced had made folders that go with this one.
made=$(cat "$folders" 2>/dev/null || :)
[ ! -e "$list" ] || sh "$target/share/weft/uninstall.sh" >/dev/null
[ -d "$target" ] || made="$made ."
mkdir -p "$target"
for folder in share share/weft; do
    [ -d "$target/$folder" ] || { mkdir "$target/$folder"; made="$made $folder"; }
done
printf '%s\n' $made >"$folders"

# Makes a folder and those above it, and notes each that was not there.
folder() {
    if [ ! -d "$target/$1" ]; then
        case $1 in */*) folder "${1%/*}" ;; esac
        mkdir "$target/$1"
        echo "$1" >>"$folders"
    fi
}
find bin lib include share \( -type f -o -type l \) | LC_ALL=C sort >"$list"
while read -r file; do
    folder "${file%/*}"
    cp -dp "$file" "$target/$file"
    # It may have been unpacked by a user who is not root.
    [ "$(id -u)" -ne 0 ] || chown -h 0:0 "$target/$file"
done <"$list"
pc=$target/lib/pkgconfig/weft.pc
# pkg-config wants a backslash before spaces and quotes, and sed before its own signs.
told=$(printf '%s\n' "$prefix" | sed "s/[ '\"]/\\\\&/g; s/[\\\\&|]/\\\\&/g")
sed "s|^prefix=.*|prefix=$told|" "$pc" >"$pc.new"
cat "$pc.new" >"$pc"
rm "$pc.new"

echo "weft is at $target/bin/weft; $target/share/weft/uninstall.sh removes it"
case :$PATH: in
    *":$prefix/bin:"*) exit ;;
esac
quoted=$(printf '%s\n' "$prefix/bin" | sed "s/'/'\\\\''/g; s/.*/'&'/")
if [ "$prefix" = "${HOME-}/.local" ]; then
    echo "a new login finds it on Debian and its like, by ~/.profile; until then, and elsewhere in ~/.profile:"
else
    echo "this shell finds it after this line, and each later login with the line in ~/.profile:"
fi
echo "export PATH=$quoted:\"\$PATH\""
