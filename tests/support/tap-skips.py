# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a cmocka program and tells its skipped cases as TAP has them.

    tap-skips.py PROGRAM ARGUMENT...

cmocka prints "not ok 3 # SKIP name", which is a failure to whoever reads TAP. The reason is the comment that the case printed
last: print_message("# why\\n"); skip();
"""
import re
import subprocess
import sys


def main():
    why = ''
    with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            skipped = re.match(r'not ok (\d+) # SKIP (.*)', line)
            if skipped:
                line = f'ok {skipped[1]} - {skipped[2]} # SKIP {why}\n'
            why = line[2:].strip() if line.startswith('# ') else ''
            print(line, end='', flush=True)
    sys.exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)


main()
