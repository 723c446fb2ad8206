# SPDX-License-Identifier: LGPL-2.1-or-later
"""exec/: what a command writes, read while it does and afterwards, and how soon: the same by plain pipes."""
import json
import os
import subprocess
import time

from harness import DRESSAGE, Daemon, Scratch, read_all, test_environment
from rivals import Row, attempt, run

ECHO = 'while read -r line; do echo "$line"; done'
REPEATS = 5


def start(d, command, **more):
    """The directory of a command."""
    fd = os.open(d.lease('bench', 'exec', 'new'), os.O_RDWR)
    try:
        os.write(fd, json.dumps({'command': command, **more}).encode())
        return d.lease('bench', 'exec', read_all(fd).decode().strip())
    finally:
        os.close(fd)


def timed(script, *words):
    before = time.perf_counter()
    run(['sh', '-c', script, 'sh', *words])
    return (time.perf_counter() - before) * 1e6


def quantiles(times):
    times = sorted(times)
    return times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]


def stream_rows(options):
    """All of a large output: once it is there, and through `dressage exec` while it is written."""
    size = options.size
    with Daemon(slots=1, options=[f'exec.max_spool={size}', 'exec.spool_budget=16G']) as d, Scratch() as work:
        d.mkdir('bench')
        big = d.lease('bench', 'fs', 'workspace', 'big')
        with open(big, 'wb') as f:
            for _ in range(size >> 20):
                f.write(os.urandom(1 << 20))
        run(['cp', big, f'{work}/big'])
        command = start(d, ['cat', '/workspace/big'])
        read_all_of(f'{command}/wait')
        ways = {f'cat exec/N/stdout of {size >> 20} MiB': ('cat "$1" > /dev/null', f'{command}/stdout'),
                f'dressage exec -- cat of {size >> 20} MiB': ('"$1" --mount "$2" exec -n bench -- cat /workspace/big > /dev/null', DRESSAGE, d.mnt)}
        for name, way in ways.items():
            ours, theirs = [], []
            for _ in range(REPEATS):
                ours.append(timed(*way))
                theirs.append(timed('cat "$1" | cat > /dev/null', f'{work}/big'))
            yield Row(name, 'cat big | cat', *quantiles(ours), quantiles(theirs)[0])
        d.rmdir('bench')


def read_all_of(path):
    with open(path, 'rb') as f:
        return f.read()


def echo_times(rounds, write_fd, read_fd):
    times = []
    for _ in range(rounds):
        before = time.perf_counter()
        os.write(write_fd, b'x\n')
        os.read(read_fd, 16)
        times.append((time.perf_counter() - before) * 1e6)
    return times


def wake_rows(options):
    """A line to a command that waits for it, and its answer, by a reader that waits for that."""
    with Daemon(slots=1) as d:
        d.mkdir('bench')
        command = start(d, ECHO, stdin_pipe=True)
        feed, out = os.open(f'{command}/stdin', os.O_WRONLY), os.open(f'{command}/stdout', os.O_RDONLY)
        with subprocess.Popen(['sh', '-c', ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=test_environment()) as plain:
            ours, theirs = [], []
            for _ in range(10):
                ours += echo_times(options.rounds // 10, feed, out)
                theirs += echo_times(options.rounds // 10, plain.stdin.fileno(), plain.stdout.fileno())
        os.close(feed)
        os.close(out)
        yield Row('a line to stdin, its echo from stdout', 'the same by two pipes', *quantiles(ours), quantiles(theirs)[0])
        d.rmdir('bench')


def rows(options):
    yield from attempt('exec/N/stdout', stream_rows(options))
    yield from attempt('exec/N/stdin to stdout', wake_rows(options))
