# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kill of one command's tree, from the asking until nothing of it lives."""
import os

from rivals import PROGRAMS, Row, attempt, run

KILL = os.path.join(PROGRAMS, 'kill')
WILD_TREE = os.path.join(PROGRAMS, '..', 'unit', 'pool', 'wild-tree')
KINDS = {'daemons1': 'a daemon that ignores all signals', 'daemons50': '50 such', 'churn64': '64 that fork again for ever'}


def compare(options, way, kind, words):
    # a round takes 20 ms at best, and 64 that fork for ever leave little room for anything else
    lines = run([KILL, str(max(options.rounds // 10, 5)), WILD_TREE, kind, *words]).splitlines()
    times = {name: tuple(map(float, numbers)) for name, *numbers in map(str.split, lines)}
    p50, p99, rounds, resets = times[kind]
    how = f', {resets:.0f} of {rounds:.0f} by a reset of the slot' if resets else ''
    yield Row(f'kill of {KINDS[kind]}, {way}{how}', 'SIGKILL and wait of sleep', p50, p99, times['sleep'][0])


def rows(options):
    ways = {'as root': [], 'as a plain user': ['--user']} if os.geteuid() == 0 else {'as a plain user': []}
    for way, words in ways.items():
        for kind, name in KINDS.items():
            yield from attempt(f'kill of {name}, {way}', compare(options, way, kind, words))
