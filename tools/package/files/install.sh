#!/bin/sh
# Installs weft below a folder, and takes it away again.
#
#   ./install.sh [PREFIX]               PREFIX is /usr/local for root, ~/.local for others
#   PREFIX/share/weft/uninstall.sh      removes what was installed, and nothing else
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -eq 0 ]; then usual=/usr/local; else usual=$HOME/.local; fi
prefix=${1:-$usual}
case $prefix in
    -*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
esac
mkdir -p "$prefix/share/weft"
list=$prefix/share/weft/installed
[ ! -e "$list" ] || sh "$prefix/share/weft/uninstall.sh"
mkdir -p "$prefix/share/weft"
cd "$here"
find bin lib include share \( -type f -o -type l \) | sort >"$list"
while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    cp -dp "$file" "$prefix/$file"
done <"$list"
for pc in "$prefix"/lib/pkgconfig/weft.pc; do
    sed "s|^prefix=.*|prefix=$prefix|" "$pc" >"$pc.new" && mv "$pc.new" "$pc"
done
cat >"$prefix/share/weft/uninstall.sh" <<END
#!/bin/sh
# Removes what weft's install.sh has put below $prefix.
set -eu
cd "$prefix"
while read -r file; do
    rm -f "\$file"
done <share/weft/installed
sed 's|/[^/]*\$||' share/weft/installed | sort -ru | while read -r folder; do
    while [ "\$folder" != . ] && rmdir "\$folder" 2>/dev/null; do folder=\$(dirname "\$folder"); done
done
rm -f share/weft/installed share/weft/uninstall.sh
rmdir share/weft 2>/dev/null || true
END
chmod 755 "$prefix/share/weft/uninstall.sh"
echo "weft is at $prefix/bin/weft; $prefix/share/weft/uninstall.sh removes it"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "put it into the path: export PATH=$prefix/bin:\$PATH" ;;
esac
