#!/bin/sh
# Removes what weft's install.sh, or `make install`, has put below the folder that this file is installed in. Folders go
# that the installation made, if nothing else is in them.
#
#   PREFIX/share/weft/uninstall.sh
set -eu
prefix=$(cd "$(dirname "$0")/../.." && pwd)
case $#,${1-} in
    0,*) ;;
    1,-h | 1,--help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; echo "Here PREFIX is $prefix."; exit ;;
    *) echo "uninstall.sh: it takes no argument such as $1, and has removed nothing; see uninstall.sh --help" >&2; exit 2 ;;
esac
list=$prefix/share/weft/installed
if [ ! -e "$list" ]; then
    echo "uninstall.sh: $list is missing: nothing is known of what was installed below $prefix" >&2
    exit 1
fi
count=0
while read -r file; do
    if [ -e "$prefix/$file" ] || [ -h "$prefix/$file" ]; then
        rm -f "$prefix/$file"
        count=$((count + 1))
    fi
    case $file in
        *.py)
            # What Python has compiled of it.
            compiled=$prefix/${file%/*}/__pycache__ name=${file##*/}
            rm -f "$compiled/${name%.py}".*.pyc
            [ ! -d "$compiled" ] || rmdir "$compiled" 2>/dev/null || :
            ;;
    esac
done <"$list"
folders=$(LC_ALL=C sort -ru "$prefix/share/weft/folders")
rm -f "$list" "$prefix/share/weft/folders"
for folder in $folders; do
    if [ "$folder" = . ]; then rmdir "$prefix"; else rmdir "$prefix/$folder"; fi 2>/dev/null || :
done
echo "removed $count files of weft from $prefix"
