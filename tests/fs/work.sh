# SPDX-License-Identifier: LGPL-2.1-or-later
# What an agent's harness does, in any POSIX shell: arguments = mount, trajectory.
set -eu
lease=$1/leases/$2
mkdir "$lease"
mkdir "$lease/fs/workspace/src"
printf 'pear\napple\nfig\n' >"$lease/fs/workspace/src/words.txt"
cat >"$lease/run_command" <<'SCRIPT'
cd src
LC_ALL=C sort words.txt >sorted.txt
wc -l <sorted.txt
SCRIPT
grep -q '"stdout":"3\\n"' "$lease/run_command"
exec 3<>"$lease/run_command"
echo '{"command": ["echo", "a  b"]}' >&3
cat <&3 | grep -q '"stdout":"a  b\\n"'
exec 3>&-
[ "$(cat "$lease/fs/workspace/src/sorted.txt")" = "$(printf 'apple\nfig\npear')" ]
rmdir "$lease"
echo done
