# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of a lease: the backing directory itself, and libfuse's own passthrough over it."""
import os

from harness import Daemon, Scratch
from rivals import Missing, Mount, Row, timed_files

# what kernel passthrough is to bring; until then these only tell
AGAINST_BACKING = (('read', 'sequential read'), ('write', 'sequential write'), ('pread', '64 x pread of 4 KiB'))
AGAINST_NOCACHE = (('open-read-close', 'open, read 64 B, close'), ('stat', 'stat'), ('ls-lR', 'ls -lR of 1,000 files'))


def fill(directory, size):
    with open(f'{directory}/small', 'wb') as f:
        f.write(b'x' * 64)
    with open(f'{directory}/big', 'wb') as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    for i in range(10):
        os.makedirs(f'{directory}/tree/{i}')
        for j in range(100):
            with open(f'{directory}/tree/{i}/{j}', 'wb'):
                pass


def rows(options):
    with Daemon(slots=1) as d, Scratch() as work:
        d.mkdir('bench')
        ours, backing = d.lease('bench', 'fs', 'workspace'), f'{d.state}/slots/0000/work'
        fill(backing, options.size)
        fd = os.open(d.lease('bench', 'run_command'), os.O_RDWR)
        os.write(fd, b'exec sleep 1000')  # commands may change anything: no cache is used
        os.fsync(fd)
        mib = options.size >> 20
        for operation, name in AGAINST_BACKING:
            rounds = options.rounds if operation == 'pread' else max(5, options.rounds // 100)
            mine, theirs = timed_files(operation, rounds, ours, backing)
            what = name if operation == 'pread' else f'{name} of {mib} MiB'
            yield Row(f'{what}', 'the backing directory', *mine, theirs[0])
        try:
            with Mount('passthrough_hp', backing, f'{work}/mnt') as rival:
                for operation, name in (*AGAINST_BACKING[:2], *AGAINST_NOCACHE):
                    small = operation in ('read', 'write', 'ls-lR')
                    mine, theirs = timed_files(operation, max(5, options.rounds // 100) if small else options.rounds, ours, rival.path)
                    what = f'{name} of {mib} MiB' if operation in ('read', 'write') else name
                    budget = 0.8 if operation in dict(AGAINST_NOCACHE) else None
                    yield Row(what, "libfuse's passthrough_hp --nocache", *mine, theirs[0], budget)
        except Missing as e:
            print(f'# no row: {e}')
        os.close(fd)
        d.rmdir('bench')
