# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who waits for a slot, in which order they are served, and what one who goes away costs the others: nothing."""
import errno
import json
import os
import signal
import subprocess
import threading
import time

from harness import DRESSAGE, PATIENCE, Daemon, case, check, contains, equal, eventually, fails_with, main, test_environment

WAITERS = 200


def queue(d):
    return d.json('status.json')['queue']


def start_create(d, name):
    """A create in a process of its own, once it stands in line."""
    before = queue(d)
    process = subprocess.Popen([DRESSAGE, '--mount', d.mnt, 'create', name], env=test_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: queue(d) == before + 1, f'{name} is in line')
    return process


def served(d):
    """The one lease that is there."""
    return eventually(lambda: os.listdir(d.path('leases')), 'somebody is served')[0]


@case
def two_hundred_waiters_on_one_slot_are_served_in_order_and_the_killed_cost_nobody_anything():
    with Daemon(slots=1) as d:
        d.mkdir('first')
        waiters = {f'w{number:03d}': start_create(d, f'w{number:03d}') for number in range(WAITERS)}
        equal(queue(d), WAITERS)
        killed = [name for number, name in enumerate(waiters) if number % 9 in (0, 4)]
        for name in killed[:-5]:
            waiters[name].kill()
        eventually(lambda: queue(d) == WAITERS - len(killed[:-5]), 'the killed have left the line')
        d.rmdir('first')
        order = []
        while len(order) < WAITERS - len(killed):
            order.append(served(d))
            out, err = waiters[order[-1]].communicate(timeout=PATIENCE)
            equal((waiters[order[-1]].returncode, err, json.loads(out)['trajectory_id']), (0, '', order[-1]))
            if len(order) == 100:  # these go while others are being served
                for name in killed[-5:]:
                    waiters[name].kill()
            d.rmdir(d.lease(order[-1]))
        equal(order, [name for name in waiters if name not in killed])
        for name in killed:
            out, _ = waiters[name].communicate(timeout=PATIENCE)
            equal((waiters[name].returncode, out), (-signal.SIGKILL, ''))
        equal(queue(d), 0)
        d.wait_ready()
        equal(os.listdir(d.path('leases')), [])


@case
def wait_0_gives_EAGAIN_at_once_and_wait_30_waits_and_then_succeeds(d):
    d.mkdir('a')
    d.mkdir('b')
    before = time.monotonic()
    fails_with(errno.EAGAIN, d.ask, 'create', {'trajectory_id': 'c', 'wait': 0})
    check(time.monotonic() - before < 5, 'wait 0 waited')
    replies = []
    waiter = threading.Thread(target=lambda: replies.append(d.ask('create', {'trajectory_id': 'c', 'wait': 30})))
    waiter.start()
    eventually(lambda: queue(d) == 1, 'it waits')
    equal(replies, [])
    d.rmdir('a')
    waiter.join(PATIENCE)
    equal([reply['trajectory_id'] for reply in replies], ['c'])


@case
def one_who_does_not_want_to_wait_does_not_overtake_those_in_line(d):
    d.mkdir('a')
    d.mkdir('b')
    waiter = start_create(d, 'c')
    fails_with(errno.EAGAIN, d.ask, 'create', {'trajectory_id': 'd', 'wait': 0})
    fails_with(errno.EAGAIN, d.mkdir, 'e')
    equal(queue(d), 1)
    d.rmdir('a')
    waiter.communicate(timeout=PATIENCE)
    equal(sorted(os.listdir(d.path('leases'))), ['b', 'c'])


@case
def without_a_wait_of_its_own_a_create_waits_for_the_configured_time():
    with Daemon(slots=1, options=['pool.acquire_timeout=200ms']) as d:
        d.mkdir('a')
        fails_with(errno.ETIMEDOUT, d.ask, 'create', 'b\n')
        equal(queue(d), 0)
        d.rmdir('a')
        equal(d.ask('create', {'trajectory_id': 'b', 'wait': PATIENCE})['trajectory_id'], 'b')


@case
def create_of_a_trajectory_whose_slot_is_being_reset_gets_that_slot_again(d):
    for _ in range(10):
        first = d.ask('create', 't\n')['metadata']
        d.rmdir('t')
        again = d.ask('create', 't\n')['metadata']
        equal((again['slot_id'], again['generation']), (first['slot_id'], first['generation'] + 1))
        d.rmdir('t')


@case
def two_daemons_with_state_directories_of_their_own_do_not_touch_each_other_s_slots():
    with Daemon(slots=2) as one, Daemon(slots=2) as other:
        for d in (one, other):
            d.mkdir('t')
        client = subprocess.Popen([DRESSAGE, '--mount', other.mnt, 'exec', '-n', 't', '--', 'sleep', '1000'],
                                  env=test_environment(), stderr=subprocess.PIPE)
        pids = [other.read('slots', name, 'pid') for name in ('0000', '0001')]
        # a start after kill -9 clears what the former one left, and only that
        one.kill()
        one.start()
        one.wait_ready()
        one.mkdir('t')
        # without cgroups that reaches the process above the command, and the command goes with it
        contains(('0', '-9'), str(one.run('t', 'kill -9 -1; echo here')['returncode']))
        one.rmdir('t')
        equal([other.read('slots', name, 'pid') for name in ('0000', '0001')], pids)
        equal(other.read('leases', 't', 'state'), 'ACTIVE\n')
        equal(client.poll(), None, 'the command in the other')
        equal(other.run('t', 'echo hi')['stdout'], 'hi\n')
        client.kill()
        client.communicate(timeout=PATIENCE)


main(slots=2)
