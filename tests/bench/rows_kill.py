# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kill of one command's tree, from the asking until nothing of it lives."""
import os

from rivals import PROGRAMS, Row, run

KILL = os.path.join(PROGRAMS, 'kill')
WILD_TREE = os.path.join(PROGRAMS, '..', 'unit', 'pool', 'wild-tree')
KINDS = {'daemons1': 'a daemon that ignores all signals', 'daemons50': '50 such', 'churn64': '64 that fork again for ever'}


def rows(options):
    ways = {'as root': [], 'as a plain user': ['--user']} if os.geteuid() == 0 else {'as a plain user': []}
    for way, words in ways.items():
        lines = run([KILL, str(max(options.rounds // 5, 5)), WILD_TREE, *words]).splitlines()
        times = {name: (float(p50), float(p99)) for name, p50, p99 in map(str.split, lines)}
        for kind, name in KINDS.items():
            yield Row(f'kill of {name}, {way}', 'SIGKILL and wait of sleep', *times[kind], times['sleep'][0])
