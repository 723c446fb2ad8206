# SPDX-License-Identifier: LGPL-2.1-or-later
"""Commands that run out of their time: what the configuration says of it."""
import errno
import os
import signal
import subprocess
import sys
import threading
import time

from harness import PATIENCE, Daemon, case, check, equal, eventually, fails_with, main


def below(pid):
    """States of the processes below this one, as the host sees them: a letter each."""
    states = ''
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
            for child in f.read().split():
                with open(f'/proc/{child}/stat', encoding='utf-8', errors='replace') as stat:
                    states += stat.read().rsplit(')', 1)[1].split()[0]
                states += below(child)
    except OSError:  # it has gone meanwhile
        states += '?'
    return states


def init_of(d, lease):
    return int(d.read('slots', f'{d.slot_of(lease):04}', 'pid'))


def nothing_lives(d, lease):
    eventually(lambda: not below(init_of(d, lease)).strip('Z'), 'nothing of the commands lives')


def seconds(call):
    before = time.monotonic()
    result = call()
    return result, time.monotonic() - before


@case
def the_configured_timeouts_apply_when_a_request_gives_none():
    with Daemon(slots=1, options=('exec.timeout=2s', 'exec.timeout_max=3s')) as d:
        d.mkdir('t')
        result = d.run('t', 'while :; do echo x; sleep 0.1; done')
        equal((result['timed_out'], result['metadata']['reason']), (True, 'timeout'))
        check(result['stdout'].startswith('x\n'), 'its output is lost')
        equal(d.run('t', 'sleep 1000', idle_timeout=30)['metadata']['reason'], 'timeout')
        fails_with(errno.EINVAL, lambda: d.run('t', 'true', timeout=4))
    with Daemon(slots=1, options=('exec.timeout=60s', 'exec.idle_timeout=1s')) as d:
        d.mkdir('t')
        result = d.run('t', 'echo hi; sleep 1000')
        equal((result['timed_out'], result['metadata']['reason'], result['stdout']), (True, 'idle_timeout', 'hi\n'))
        equal(d.run('t', 'sleep 1000', timeout=2, idle_timeout=30)['metadata']['reason'], 'timeout')


@case
def a_command_may_clean_up_between_TERM_and_KILL():
    with Daemon(slots=1, options=('exec.kill_grace=3s',)) as d:
        d.mkdir('t')
        result, took = seconds(lambda: d.run(
            't', "trap 'echo bye; exit 5' TERM; (trap '' TERM; setsid sleep 1000) & while :; do sleep 0.1; done", timeout=2))
        equal((result['timed_out'], result['returncode'], result['stdout']), (True, -9, 'bye\n'))
        equal(result['metadata'].get('detail'), 'its time was over, and it exited with status 5')
        equal(result['metadata'].get('signal'), None)
        check(took < 15, f'it took {took:.1f} s, though the leader was gone')
        nothing_lives(d, 't')
        result = d.run('t', 'exec sleep 1000', timeout=1)
        equal((result['timed_out'], result['returncode'], result['metadata']['signal']), (True, -9, 'SIGTERM'))


# ends soon after its interrupt: what asks is one READ
ASK = """
import json, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.write(fd, json.dumps({'command': sys.argv[2], 'timeout': 1}).encode())
os.read(fd, 1 << 20)
"""


@case
def who_cancels_a_command_in_its_grace_does_not_wait_for_the_grace():
    with Daemon(slots=1, options=('exec.kill_grace=600s',)) as d:
        d.mkdir('t')
        script = "trap 'touch asked' TERM; while :; do sleep 0.1; done"
        with subprocess.Popen([sys.executable, '-c', ASK, d.lease('t', 'run_command'), script], stderr=subprocess.DEVNULL) as client:
            eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'asked')), 'its time is over')
            client.send_signal(signal.SIGINT)
            client.wait(PATIENCE)
        eventually(lambda: d.json('leases', 't', 'exec', '1', 'status')['state'] == 'killed', 'it has ended')
        nothing_lives(d, 't')


@case
def KILL_ends_what_outlives_its_leader_in_the_grace():
    with Daemon(slots=1, options=('exec.kill_grace=600s',)) as d:
        d.mkdir('t')
        child = "trap 'touch asked' TERM; touch up; while :; do sleep 0.1; done"
        number = d.ask('leases/t/exec/new', {
            'command': f'setsid sh -c "{child}" & until [ -e up ]; do sleep 0.01; done; exec sleep 1000', 'timeout': 2})
        if d.cgroup():  # else the leader's end is that of the rest
            eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'asked')), 'its time is over')
            time.sleep(0.5)  # and most likely its leader dead
            with open(d.lease('t', 'exec', str(number), 'signal'), 'w', encoding='ascii') as f:
                f.write('KILL\n')
        eventually(lambda: d.json('leases', 't', 'exec', str(number), 'status')['state'] == 'killed', 'it has ended')
        nothing_lives(d, 't')


@case
def a_signal_right_after_the_start_reaches_what_the_leader_starts(d):
    d.mkdir('t')
    for _ in range(30):
        number = d.ask('leases/t/exec/new', 'sleep 1000 & wait')
        with open(d.lease('t', 'exec', str(number), 'signal'), 'w', encoding='ascii') as f:
            f.write('TERM\n')
        equal(d.json('leases', 't', 'exec', str(number), 'wait')['returncode'], -15)
        nothing_lives(d, 't')


@case
def time_in_which_the_daemon_stood_still_is_not_held_against_a_command(d):
    d.mkdir('t')
    work = d.lease('t', 'fs', 'workspace')
    results = {}

    def ask(name, script, **more):
        results[name] = d.run('t', script, **more)
    threads = [
        threading.Thread(target=ask, args=('busy', 'touch a; for i in $(seq 80); do echo $i; sleep 0.1; done'), kwargs={'idle_timeout': 5}),
        threading.Thread(target=ask, args=('in time', 'touch b; sleep 1; echo done'), kwargs={'timeout': 6}),
        threading.Thread(target=ask, args=('out of time', 'touch c; sleep 60'), kwargs={'timeout': 6})]
    for thread in threads:
        thread.start()
    eventually(lambda: {'a', 'b', 'c'} <= set(os.listdir(work)), 'the commands run')
    os.kill(d.pid, signal.SIGSTOP)
    try:
        time.sleep(7)  # as a machine that is suspended
    finally:
        os.kill(d.pid, signal.SIGCONT)
    for thread in threads:
        thread.join(PATIENCE)
    ends = {name: (result['returncode'], result['timed_out']) for name, result in results.items()}
    equal(ends, {'busy': (0, False), 'in time': (0, False), 'out of time': (-9, True)})


main()
