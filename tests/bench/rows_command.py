# SPDX-License-Identifier: LGPL-2.1-or-later
"""One command: through the mount, by a bare posix_spawn, by a bubblewrap of its own."""
from harness import Daemon, Scratch
from rivals import COMMAND, Row, attempt, bwrap_words, run


def measure(path, rounds, idle_ms, words):
    lines = run([COMMAND, path, str(rounds), str(idle_ms), *words]).splitlines()
    return {name: (float(p50), float(p99)) for name, p50, p99 in map(str.split, lines)}


def compare(options, name, idle_ms):
    with Daemon(slots=1) as d, Scratch() as work:
        d.mkdir('bench')
        path, words = d.lease('bench', 'run_command'), bwrap_words(work)
        measure(path, 20, 0, words)  # caches warm
        times = measure(path, options.rounds, idle_ms, words)
        for rival, key, budget in (('spawn of sh -c true', 'spawn', 1.6), ('one-shot bwrap', 'bwrap', 0.3)):
            yield Row(name, rival, *times['mount'], times[key][0], budget)
        d.rmdir('bench')


def rows(options):
    for name, idle_ms in (('run_command true', 0), ('run_command true, 50 ms idle before', 50)):
        yield from attempt(name, compare(options, name, idle_ms))
