# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of a lease: the backing directory itself, and libfuse's own passthrough over it."""
import contextlib
import os

from harness import Daemon, Scratch, need
from rivals import Mount, Row, attempt, run, timed_files

# (operation of the `files` program, what it is called)
STREAMS = (('read', 'sequential read of {} MiB'), ('write', 'sequential write of {} MiB'))
RANDOM = (('pread', '64 x pread of 4 KiB at random, file open'), ('pwrite', '64 x pwrite of 4 KiB at random, file open'))
NAMES = (('open-read-close', 'open, read 64 B, close'), ('stat', 'stat'), ('ls-lR', 'ls -lR of 1,000 files'),
         ('git-status', 'git status of 1,000 files'))
LONG = ('read', 'write', 'ls-lR', 'git-status')  # milliseconds each: fewer rounds do
GIT = ('git', '-c', 'safe.directory=*', '-c', 'user.name=bench', '-c', 'user.email=bench')


def make_tree(directory):
    for i in range(10):
        os.makedirs(f'{directory}/tree/{i}')
        for j in range(100):
            with open(f'{directory}/tree/{i}/{j}', 'wb') as f:
                f.write(b'%d\n' % j)
            os.utime(f.name, (1e9, 1e9))  # else git takes it for one that may change again within the second


def fill(directory, size):
    with open(f'{directory}/small', 'wb') as f:
        f.write(b'x' * 64)
    with open(f'{directory}/big', 'wb') as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    make_tree(directory)


def make_repositories(backing, places):
    """One in each place, made through it: git's index remembers owners and inode numbers as that shows them."""
    need('git')
    for i, place in enumerate(places):
        make_tree(f'{backing}/repository-{i}')
        for words in (['init', '-q'], ['add', '.'], ['commit', '-qm', 'all'], ['status', '--porcelain']):
            run([*GIT, '-C', f'{place}/repository-{i}', *words])
    return [f'{place}/repository-{i}' for i, place in enumerate(places)]


def rounds_of(operation, options):
    return max(10, options.rounds // 50) if operation in LONG else options.rounds


@contextlib.contextmanager
def filled_lease(options):
    """(its workspace on the mount, the directory behind it, its daemon)"""
    with Daemon(slots=1) as d:
        d.mkdir('bench')
        backing = f'{d.state}/slots/0000/work'
        fill(backing, options.size)
        yield d.lease('bench', 'fs', 'workspace'), backing, d
        d.rmdir('bench')


@contextlib.contextmanager
def running_command(d):
    """One that may change any file at any time, for all that the daemon knows."""
    fd = d.begin('bench', 'exec sleep 1000')
    try:
        yield
    finally:
        os.close(fd)


def against_backing(ours, backing, options):
    for operation, name in (*STREAMS, *RANDOM):
        mine, theirs = timed_files(operation, rounds_of(operation, options), ours, backing)
        yield Row(name.format(options.size >> 20), 'the backing directory', *mine, theirs[0], 1.1, 'reads and writes by the kernel itself')


def against_passthrough(ours, backing, options, flags, budget, later, state):
    rival_name = ' '.join(["libfuse's passthrough_hp", *flags])
    with Scratch() as work, Mount('passthrough_hp', backing, f'{work}/mnt', *flags) as rival:
        for operation, name in NAMES:
            places = [ours, rival.path]
            if operation == 'git-status':
                places = make_repositories(backing, places)
            mine, theirs = timed_files(operation, rounds_of(operation, options), *places)
            yield Row(f'{name}, {state}', rival_name, *mine, theirs[0], budget, later)


def busy_rows(options):
    with filled_lease(options) as (ours, backing, d), running_command(d):
        yield from against_backing(ours, backing, options)
        yield from against_passthrough(ours, backing, options, ['--nocache'], 0.8, '', 'commands running')


def quiet_rows(options):
    with filled_lease(options) as (ours, backing, _):
        yield from against_passthrough(ours, backing, options, [], 1.1, 'caches of a quiet lease', 'a quiet lease')


def rows(options):
    yield from attempt('files of a lease with commands running', busy_rows(options))
    yield from attempt('files of a quiet lease', quiet_rows(options))
