# SPDX-License-Identifier: LGPL-2.1-or-later
"""Slots that fail, hang or die, seen through the mount: the others serve, and each comes back by itself. The shorter deadlines
are in the unit test pool-supervisor."""
import concurrent.futures
import contextlib
import json
import os
import signal
import time

from harness import DRESSAGE, PATIENCE, Daemon, Scratch, case, check, contains, equal, eventually, is_symbolizer, main, run

MOODY = r"""#!/bin/sh
dir=%s all="$*"
slot=${all#*/slots/} slot=${slot%%%%/*}
if [ -e $dir/fail-$slot ] || [ -e $dir/fail-ALL ]; then echo 'bwrap: not today' >&2; exit 1; fi
if [ -e $dir/dice ] && [ $(od -An -N1 -tu1 /dev/urandom) -lt 77 ]; then echo 'bwrap: bad luck' >&2; exit 1; fi
while [ -e $dir/hang-$slot ]; do sleep 0.05; done
exec bwrap "$@"
"""


class Mood:
    """A bwrap that fails, or hangs, for as long as a file is there."""

    def __init__(self, directory):
        self.dir = directory
        self.option = f'slot.bwrap={directory}/bwrap'
        with open(f'{directory}/bwrap', 'w', encoding='utf-8') as f:
            f.write(MOODY % directory)
        os.chmod(f'{directory}/bwrap', 0o755)

    @contextlib.contextmanager
    def __call__(self, name):
        with open(f'{self.dir}/{name}', 'w', encoding='utf-8'):
            pass
        try:
            yield
        finally:
            os.unlink(f'{self.dir}/{name}')


@contextlib.contextmanager
def moody_daemon(slots):
    with Scratch() as work:
        mood = Mood(work)
        with Daemon(slots=slots, options=[mood.option]) as d:
            yield d, mood


def pid_of(d, slot):
    return int(d.read('slots', slot, 'pid'))


def state_of(d, slot):
    return d.read('slots', slot, 'state').strip()


def counts(d):
    status = d.json('status.json')
    return status['total_ready'], status['total_failed']


def bwraps_of(d):
    """Children of the daemon that are no zombies."""
    found = []
    for task in os.listdir(f'/proc/{d.pid}/task'):
        try:
            with open(f'/proc/{d.pid}/task/{task}/children', encoding='ascii') as f:
                found += f.read().split()
        except OSError:  # a worker that libfuse has no more use for
            continue
    return [pid for pid in found if not is_symbolizer(pid)]


def status_code(d):
    return run([DRESSAGE, '--mount', d.mnt, 'status']).returncode


@case
def while_a_slot_that_failed_is_tried_again_status_ends_with_4():
    with moody_daemon(2) as (d, mood):
        equal(status_code(d), 0)
        with mood('hang-0000'):
            with mood('fail-0000'):
                os.kill(pid_of(d, '0000'), signal.SIGKILL)
                eventually(lambda: state_of(d, '0000') == 'FAILED', 'slot 0 is FAILED')
                equal(status_code(d), 4)
            eventually(lambda: state_of(d, '0000') == 'RESTARTING', 'slot 0 is tried again')
            status = d.json('status.json')
            equal((status['total_failed'], status['slots'][0]['failing'], status['slots'][1]['failing']), (0, True, False))
            equal(status_code(d), 4)
        eventually(lambda: state_of(d, '0000') == 'READY', 'slot 0 is READY')
        equal(status_code(d), 0)
        equal(d.json('status.json')['slots'][0]['failing'], False)


@case
def a_slot_that_cannot_start_says_why_and_comes_back_by_itself_when_it_can():
    with moody_daemon(2) as (d, mood):
        with mood('fail-0000'):
            os.kill(pid_of(d, '0000'), signal.SIGKILL)
            eventually(lambda: state_of(d, '0000') == 'FAILED', 'slot 0 is FAILED')
            eventually(lambda: counts(d) == (1, 1), 'one is READY, one FAILED')  # between its tries it is RESTARTING
            contains(d.read('slots', '0000', 'last_error'), 'bwrap: not today')
            contains(d.read('status'), 'bwrap: not today')
            generation = int(d.read('slots', '0000', 'generation'))
            d.mkdir('t')
            equal(d.run('t', 'echo served')['stdout'], 'served\n')
            eventually(lambda: int(d.read('slots', '0000', 'generation')) > generation + 1, 'it is tried again and again')
        eventually(lambda: state_of(d, '0000') == 'READY', 'slot 0 is READY')
        d.rmdir('t')


@case
def a_slots_last_error_goes_when_it_is_READY_again_and_events_keep_it():
    with moody_daemon(1) as (d, mood):
        with mood('fail-0000'):
            os.kill(pid_of(d, '0000'), signal.SIGKILL)
            eventually(lambda: 'bwrap: not today' in d.read('slots', '0000', 'last_error'), 'its last_error')
            contains(d.json('status.json')['slots'][0]['last_error'], 'bwrap: not today')
        eventually(lambda: state_of(d, '0000') == 'READY', 'it is READY')
        equal(d.read('slots', '0000', 'last_error'), '')
        status = d.json('status.json')
        equal((status['slots'][0]['last_error'], status['nodes'][0]['last_error']), ('', ''))
        events = [json.loads(line) for line in d.read('events').splitlines()]
        why = {event['to']: event['why'] for event in events if event['kind'] == 'slot' and event.get('why')}
        contains(why['DEAD'], 'killed by signal 9')
        contains(why['FAILED'], 'bwrap: not today')


@case
def a_start_that_hangs_delays_neither_status_nor_other_leases():
    with moody_daemon(2) as (d, mood):
        with mood('hang-0000'):
            os.kill(pid_of(d, '0000'), signal.SIGKILL)
            eventually(lambda: state_of(d, '0000') == 'RESTARTING', 'slot 0 hangs')
            for i in range(5):
                start = time.monotonic()
                d.read('status')
                d.mkdir(f't{i}')
                equal(d.run(f't{i}', 'echo served')['stdout'], 'served\n')
                check(time.monotonic() - start < 5, 'it waited')
                d.rmdir(f't{i}')
                d.wait_ready(1)
            equal(state_of(d, '0000'), 'RESTARTING')
        d.wait_ready()


@case
def a_hundred_creates_while_starts_fail_are_served_and_leave_as_many_processes_as_slots():
    with moody_daemon(6) as (d, mood):
        def use(number):
            name = f't{number}'
            d.ask('create', {'trajectory_id': name, 'wait': PATIENCE})
            equal(d.run(name, f'echo {name}')['stdout'], name + '\n')
            d.rmdir(name)
        with mood('dice'), concurrent.futures.ThreadPoolExecutor(100) as pool:
            for done in [pool.submit(use, number) for number in range(100)]:
                done.result()
        d.wait_ready()
        equal(os.listdir(d.path('leases')), [])
        status = d.json('status.json')
        equal((status['total_ready'], status['queue'], status['leases']['tracked']), (6, 0, 0))
        eventually(lambda: len(bwraps_of(d)) == 6, 'as many bwraps as slots')
        equal(len({pid_of(d, f'{n:04d}') for n in range(6)}), 6)


@case
def a_fresh_slot_is_empty_whatever_the_lease_before_left():
    with Daemon(slots=1) as d:
        look = 'ls -A /tmp /workspace ~ /dev/shm; find / -xdev -name .git 2>/dev/null'
        for name in ('first', 'second'):
            d.mkdir(name)
            equal(d.run(name, look)['stdout'], '/dev/shm:\n\n/home/blackbox:\n\n/tmp:\n\n/workspace:\n')
            made = d.run(name, 'mkdir /tmp/.git /workspace/.git ~/.git && touch /tmp/.hidden /dev/shm/x; ls -A /tmp')
            equal(made['stdout'], '.git\n.hidden\n')
            d.rmdir(name)
            d.wait_ready()


@case
def the_death_of_bwrap_alone_does_not_touch_its_slot():
    with Daemon(slots=1) as d:
        pid = pid_of(d, '0000')
        d.mkdir('t')
        bwrap = bwraps_of(d)
        equal(len(bwrap), 1)
        os.kill(int(bwrap[0]), signal.SIGKILL)
        eventually(lambda: not bwraps_of(d), 'it is reaped')
        equal(d.run('t', 'echo alive')['stdout'], 'alive\n')
        equal((pid_of(d, '0000'), state_of(d, '0000')), (pid, 'LEASED'))
        d.rmdir('t')
        d.wait_ready()
        check(pid_of(d, '0000') != pid, 'it was not reset')


@case
def a_lost_slot_is_kept_to_be_looked_at_until_its_lease_is_terminated():
    with Daemon(slots=2) as d:
        d.mkdir('t')
        slot = f'{d.slot_of("t"):04d}'
        generation = d.read('slots', slot, 'generation')
        equal(d.run('t', 'echo evidence > /workspace/f')['returncode'], 0)
        os.kill(pid_of(d, slot), signal.SIGKILL)
        eventually(lambda: state_of(d, slot) == 'LOST', 'it is LOST')
        with open(f'{d.state}/slots/{slot}/work/f', encoding='ascii') as f:
            equal(f.read(), 'evidence\n')
        d.mkdir('u')  # the other one
        equal((state_of(d, slot), d.read('slots', slot, 'generation')), ('LOST', generation))
        contains(d.read('slots', slot, 'last_error'), 'killed by signal 9')
        d.rmdir('t')
        d.wait_ready(1)
        check(not os.path.exists(f'{d.state}/slots/{slot}/work/f'), 'its files are still there')


@case
def the_soft_limit_of_descriptors_does_not_bound_the_slots():
    d = Daemon(slots=24)
    d.words = ['bash', '-c', 'ulimit -Sn 64; exec "$@"', 'bash', *d.words]
    with d:
        equal(d.json('status.json')['total_ready'], 24)


main()
