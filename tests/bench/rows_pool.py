# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pool: leases by many clients on many slots, resets, starts, what an idle slot and a busy daemon cost."""
import json
import os
import statistics
import subprocess
import time

from harness import Daemon, Scratch, eventually, test_environment
from rivals import PROGRAMS, Mount, Row, attempt, bwrap_words, run


def percentiles(times):
    times = sorted(times)
    return times[len(times) // 2], times[len(times) * 99 // 100]


def spawn_times(words, rounds):
    """Microseconds of so many runs, one after another."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(words, check=True, env=test_environment())
        times.append((time.perf_counter() - start) * 1e6)
    return times


def wait_ready(events):
    """Until events.follow, open and read so far, tells of a READY slot: looking again and again would take the processor."""
    for line in events:
        event = json.loads(line)
        if (event['kind'], event['to']) == ('slot', 'READY'):
            return


# --- one lease at a time ---

def timed_mkdir(path):
    start = time.perf_counter()
    os.mkdir(path)
    return (time.perf_counter() - start) * 1e6


def mkdir_rows(options):
    """In turns, and without resets beside them: the slots come back between two batches."""
    ours, theirs, batch = [], [], range(16)
    with Daemon(slots=len(batch)) as d, Scratch() as work:
        os.mkdir(f'{work}/source')
        with Mount('passthrough_ll', f'{work}/source', f'{work}/mnt') as rival:
            for _ in range(max(2, options.rounds // len(batch))):
                for i in batch:
                    ours.append(timed_mkdir(d.lease(f'bench-{i}')))
                    theirs.append(timed_mkdir(f'{rival.path}/bench-{i}'))
                for i in batch:
                    d.rmdir(f'bench-{i}')
                    os.rmdir(f'{rival.path}/bench-{i}')
                d.wait_ready()
        yield Row('mkdir of a lease', "mkdir in libfuse's passthrough_ll", *percentiles(ours), statistics.median(theirs), 3)


def reset_rows(options):
    rounds = max(10, options.rounds // 20)
    with Daemon(slots=1) as d, Scratch() as work:
        times, rival, words, events = [], [], bwrap_words(work), open(d.path('events.follow'), encoding='utf-8')
        wait_ready(events)  # of the daemon's start
        for _ in range(rounds):
            d.mkdir('bench')
            left = d.run('bench', 'mkdir a b c d e; for i in a b c d e; do (cd $i; seq 1000 | xargs touch); done; ls * | wc -l')
            assert int(left['stdout']) > 5000, left
            start = time.perf_counter()
            d.rmdir('bench')
            wait_ready(events)
            times.append((time.perf_counter() - start) * 1e6)
            rival += spawn_times(words, 1)
            eventually(lambda: not os.listdir(f'{d.state}/trash'), 'the trash is empty')
        events.close()
        yield Row('rmdir to READY, 5,000 files left', 'one-shot bwrap', *percentiles(times), statistics.median(rival), 2)


# --- many ---

def events_of(d):
    return [json.loads(line) for line in d.read('events').splitlines()]


def reset_times(d, since):
    """Microseconds from the end of a lease to the slot's READY, from the milliseconds of the events behind that one."""
    began, times = {}, []
    for event in events_of(d):
        if event['kind'] != 'slot' or event['seq'] <= since:
            continue
        if (event['from'], event['to']) == ('LEASED', 'RELEASING'):
            began[event['id']] = event['ts']
        elif event['to'] == 'READY' and event['id'] in began:
            times.append((event['ts'] - began.pop(event['id'])) * 1e6)
    return times


def client_rows(d, slots, clients, options):
    rounds, since = max(4, options.rounds // clients), events_of(d)[-1]['seq']
    lines = run([os.path.join(PROGRAMS, 'clients'), d.mnt, str(clients), str(rounds)]).splitlines()
    times = {kind: (float(p50), float(p99)) for kind, p50, p99 in map(str.split, lines)}
    what = f'{clients} clients, {slots} slots'
    rival = f'spawn of sh -c true, {clients} at once'
    for kind in ('create', 'run_command', 'terminate'):
        yield Row(f'{kind}: {what}', rival, *times[kind], times['spawn'][0])
    d.wait_ready()
    yield Row(f'terminate to READY: {what}', rival, *percentiles(reset_times(d, since)), times['spawn'][0])


def idle_rows(d, slots):
    """What the kernel counts for each slot's bwrap and init, and the daemon's part."""
    pss, processes = 0, 0
    with open(f'/proc/{d.pid}/task/{d.pid}/children', encoding='ascii') as f:
        todo = f.read().split()
    while todo:
        pid = todo.pop()
        try:
            with open(f'/proc/{pid}/smaps_rollup', encoding='ascii') as f:
                pss += next(int(line.split()[1]) for line in f if line.startswith('Pss:'))
            with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
                todo += f.read().split()
        except OSError:
            continue
        processes += 1
    yield Row(f'idle slot of {slots}: PSS in KiB', '1 MiB', pss / slots, pss / slots, 1024, 1)
    yield Row(f'idle slot of {slots}: processes', '2', processes / slots, processes / slots, 2, 1)
    yield Row(f'daemon with {slots} idle slots: RSS in KiB', '', resident(d), resident(d))


def resident(d):
    with open(f'/proc/{d.pid}/status', encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS:'))


def scale_rows(slots, options):
    with Scratch() as work:
        words = ' '.join(bwrap_words(work)[:-1]) + ' "true"'
        d = Daemon(slots=slots, options=['pool.wait_ready_timeout=10m', 'dressage.log_level=warn'])
        try:
            start = time.perf_counter()
            d.start()
            took = (time.perf_counter() - start) * 1e6
            start = time.perf_counter()
            subprocess.run(['sh', '-c', f'seq {slots} | xargs -P 2 -I @ {words}'], check=True, env=test_environment())
            rival = (time.perf_counter() - start) * 1e6
            yield Row(f'start of {slots} slots', f'{slots} one-shot bwraps, two at a time', took, took, rival, 2.5)
            yield from idle_rows(d, slots)
            for clients in options.clients:
                yield from attempt(f'{clients} clients, {slots} slots', client_rows(d, slots, clients, options))
            start = time.perf_counter()
            d.stop()
            took = (time.perf_counter() - start) * 1e6
            yield Row(f'stop of {slots} slots', f'{slots} one-shot bwraps, two at a time', took, took, rival)
        finally:
            d.destroy()


# --- a busy daemon ---

def busy_rows(options):
    leases, fds = options.leases, []
    with Daemon(slots=leases, options=['pool.wait_ready_timeout=10m', 'dressage.log_level=warn']) as d:
        for i in range(leases):
            d.mkdir(f't{i}')
            fds.append(d.begin(f't{i}', 'exec sleep 1000'))
        yield Row(f'daemon with {leases} leases and commands: RSS in KiB', '100 MiB', resident(d), resident(d), 100 << 10, 1)
        stats, reads = [], []
        for _ in range(options.rounds):
            start = time.perf_counter()
            os.stat(d.path('status'))
            middle = time.perf_counter()
            d.read('status')
            stats.append((middle - start) * 1e6)
            reads.append((time.perf_counter() - middle) * 1e6)
        yield Row(f'status with {leases} leases', 'a stat of it', *percentiles(reads), statistics.median(stats), 10)
        for fd in fds:
            os.close(fd)
        for i in range(leases):
            d.rmdir(f't{i}')


def rows(options):
    yield from attempt('mkdir of a lease', mkdir_rows(options))
    yield from attempt('rmdir to READY, 5,000 files left', reset_rows(options))
    for slots in options.slots:
        yield from attempt(f'a pool of {slots} slots', scale_rows(slots, options))
    yield from attempt(f'a daemon with {options.leases} leases', busy_rows(options))
