# SPDX-License-Identifier: LGPL-2.1-or-later
"""leases/T/hold: a lease lives while somebody keeps it open for writing, and no longer than a grace after that."""
import errno
import json
import os
import signal
import subprocess
import time

from harness import (PATIENCE, Daemon, case, check, contains, equal, eventually, fails_with, main, need, sh, sleeps_with,
                     test_environment)

GRACE = 0.2  # seconds


def holders(d, name):
    return int(d.read('leases', name, 'hold'))


def start_holder(d, name, words):
    """A process that holds the lease, once it does. It ends when its standard input does."""
    before = holders(d, name)
    process = subprocess.Popen(words, env=test_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    eventually(lambda: holders(d, name) > before, f'{words[0]} holds it')
    return process


def shell_holder(d, name):
    return start_holder(d, name, ['sh', '-c', f'exec 9>{d.lease(name, "hold")}; read _ || :'])


def end(process):
    out, err = process.communicate(timeout=PATIENCE)
    equal((process.returncode, out, err), (0, '', ''))


def last_reason(d, lease_id):
    """Why the lease ended, as its last event has it."""
    events = [json.loads(line) for line in d.read('events').splitlines()]
    return [e['reason'] for e in events if e['id'] == lease_id][-1]


def is_gone(d, name):
    return not os.path.exists(d.lease(name))


def released(d, name, lease_id):
    eventually(lambda: is_gone(d, name), f'{name} is released')
    equal(last_reason(d, lease_id), 'hold_released')


@case
def the_lease_is_released_when_the_last_holder_has_closed(d):
    lease_id = d.ask('create', 't')['sandbox_id']
    first, second = shell_holder(d, 't'), shell_holder(d, 't')
    waiter = subprocess.Popen(['cat', d.lease('t', 'wait')], stdout=subprocess.PIPE, text=True, env=test_environment())
    eventually(lambda: sleeps_with(d.lease('t', 'wait'), waiter.pid), 'it waits')
    equal(d.read('leases', 't', 'hold'), '2\n')
    end(first)
    eventually(lambda: holders(d, 't') == 1, 'the kernel has told of the close')
    equal(d.read('leases', 't', 'ttl'), 'unlimited\n')
    end(second)
    equal(waiter.communicate(timeout=PATIENCE)[0], 'RELEASING hold_released\n')
    released(d, 't', lease_id)


@case
def a_shell_s_exec_a_python_file_and_node_hold(d):
    path = d.lease('t', 'hold')
    for words in (['bash', '-c', f'exec 9>{path}; read _ || :'], ['bash', '-c', f'exec {{fd}}>>{path}; read _ || :'],
                  ['python3', '-c', f'import sys\nwith open({path!r}, "w") as f: sys.stdin.read()'],
                  ['python3', '-c', f'import sys\nwith open({path!r}, "r+") as f: sys.stdin.read()'],
                  [need('node'), '-e', f'require("fs").openSync({path!r}, "w"); require("fs").readSync(0, Buffer.alloc(9))']):
        lease_id = d.ask('create', 't')['sandbox_id']
        end(start_holder(d, 't', words))
        released(d, 't', lease_id)


@case
def kill_9_of_the_holder_releases_the_lease_and_ends_its_commands(d):
    lease_id = d.ask('create', 't')['sandbox_id']
    script = f'exec 9>{d.lease("t", "hold")} 8<>{d.lease("t", "run_command")}; echo sleep 1000 >&8; cat <&8'
    client = start_holder(d, 't', ['sh', '-c', script])
    os.killpg(client.pid, signal.SIGKILL)
    client.communicate(timeout=PATIENCE)
    released(d, 't', lease_id)
    d.wait_ready()


@case
def a_lease_that_was_never_held_is_not_affected(d):
    d.mkdir('other')
    lease_id = d.ask('create', 't')['sandbox_id']
    end(shell_holder(d, 't'))
    released(d, 't', lease_id)
    equal(d.read('leases', 'other', 'state'), 'ACTIVE\n')
    equal(d.json('leases', 'other', 'lease.json')['deadline'] is None, False)


@case
def who_only_reads_hold_changes_nothing(d):
    d.mkdir('t')
    deadline = d.json('leases', 't', 'lease.json')['deadline']
    equal(d.read('leases', 't', 'hold'), '0\n')
    equal(sh(f'grep -rs --exclude-dir=fs --exclude=wait . {d.lease("t")} > /dev/null; tar -cf /dev/null {d.lease("t", "hold")}; '
             f'head -c 1 {d.lease("t", "hold")}').stdout, '0')
    equal(os.stat(d.lease('t', 'hold')).st_size, 2)
    equal(d.json('leases', 't', 'lease.json')['deadline'], deadline)
    equal(d.read('leases', 't', 'state'), 'ACTIVE\n')


@case
def a_new_holder_within_the_grace_keeps_the_lease(d):
    with Daemon(slots=1, options=['pool.hold_grace=1h']) as own:
        own.mkdir('t')
        end(shell_holder(own, 't'))
        eventually(lambda: holders(own, 't') == 0, 'the kernel has told of the close')
        left = float(own.read('leases', 't', 'ttl'))
        check(3500 < left <= 3600, f'{left} s are left')
        check(abs(own.json('leases', 't', 'lease.json')['deadline'] - time.time() - left) < 10, 'another deadline')
        holder = shell_holder(own, 't')
        equal(own.read('leases', 't', 'ttl'), 'unlimited\n')
        equal(own.json('leases', 't', 'lease.json')['deadline'], None)
        end(holder)
        # who renews it within the grace has a lease that lives by its time again
        sh(f'echo 0.1 > {own.lease("t", "ttl")}; cat {own.lease("t", "wait")}')
        equal(own.json('leases', 't', 'lease.json')['reason'], 'lease_ttl_expired')


@case
def a_ttl_written_while_it_is_held_changes_nothing_and_says_so(d):
    lease_id = d.ask('create', {'trajectory_id': 't', 'timeout_sec': 1000})['sandbox_id']
    holder = shell_holder(d, 't')
    equal(d.ask('leases/t/ttl', '0.01\n'), {'ttl': None, 'deadline': None})
    equal(d.read('leases', 't', 'ttl'), 'unlimited\n')
    equal(d.run('t', 'sleep 0.1; echo hi')['stdout'], 'hi\n')
    end(holder)
    released(d, 't', lease_id)


@case
def a_child_that_inherited_the_descriptor_holds_too(d):
    lease_id = d.ask('create', 't')['sandbox_id']
    child = start_holder(d, 't', ['sh', '-c', f'exec 9>{d.lease("t", "hold")} 8<&0; cat <&8 & exit 0'])
    child.wait(PATIENCE)
    equal(d.read('leases', 't', 'hold'), '1\n')
    child.stdin.close()
    released(d, 't', lease_id)
    child.stdout.close()
    child.stderr.close()


@case
def what_is_written_to_hold_means_nothing_and_an_echo_is_a_short_hold(d):
    lease_id = d.ask('create', 't')['sandbox_id']
    fd = os.open(d.lease('t', 'hold'), os.O_RDWR | os.O_TRUNC)
    equal(os.write(fd, b'4711\n'), 5)
    os.ftruncate(fd, 0)
    os.fsync(fd)
    equal(os.pread(fd, 100, 0), b'1\n')
    equal(d.read('leases', 't', 'hold'), '1\n')
    os.close(fd)
    released(d, 't', lease_id)
    lease_id = d.ask('create', 't')['sandbox_id']
    equal(sh(f'echo $$ > {d.lease("t", "hold")}').stderr, '')
    released(d, 't', lease_id)


@case
def a_lease_that_is_over_cannot_be_held(d):
    d.ask('create', {'trajectory_id': 't', 'timeout_sec': 0.1})
    sh(f'cat {d.lease("t", "wait")}')
    fails_with(errno.ESTALE, os.open, d.lease('t', 'hold'), os.O_WRONLY)
    contains(d.read('leases', 't', 'last_error'), 'hold: the lease of')
    equal(d.read('leases', 't', 'hold'), '0\n')
    d.mkdir('lost')
    os.kill(int(d.read('slots', f'{d.slot_of("lost"):04d}', 'pid')), signal.SIGKILL)
    sh(f'cat {d.lease("lost", "wait")}')
    fails_with(errno.ENOTCONN, os.open, d.lease('lost', 'hold'), os.O_WRONLY)


@case
def a_lost_lease_goes_with_its_holder(d):
    lease_id = d.ask('create', 't')['sandbox_id']
    holder = shell_holder(d, 't')
    os.kill(int(d.read('slots', f'{d.slot_of("t"):04d}', 'pid')), signal.SIGKILL)
    equal(sh(f'cat {d.lease("t", "wait")}').stdout, 'LOST slot_lost\n')
    end(holder)
    released(d, 't', lease_id)


@case
def a_holder_of_an_ended_lease_does_not_hold_the_next_one(d):
    d.mkdir('t')
    holder = shell_holder(d, 't')
    d.rmdir('t')
    lease_id = d.ask('create', 't')['sandbox_id']
    equal(d.read('leases', 't', 'hold'), '0\n')
    end(holder)
    d.mkdir('short')
    end(shell_holder(d, 'short'))
    eventually(lambda: is_gone(d, 'short'), 'what was held after that is released')
    equal(d.json('leases', 't', 'lease.json')['sandbox_id'], lease_id)
    equal(d.read('leases', 't', 'state'), 'ACTIVE\n')


@case
def twenty_clients_killed_in_mid_rollout_leave_no_lease_older_than_the_grace(d):
    script = (f'exec 8<>{d.path("create")}; echo $1 >&8; cat <&8 > /dev/null; exec 9>{d.mnt}/leases/$1/hold; '
              f'exec 7<>{d.mnt}/leases/$1/run_command; echo "echo \\$\\$ > /workspace/pid; sleep 1000" >&7; cat <&7')
    for number in range(20):
        client = subprocess.Popen(['sh', '-c', script, 'sh', f'r{number}'], env=test_environment(), start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda n=number: os.path.exists(d.lease(f'r{n}', 'fs', 'workspace', 'pid')), 'its command runs')
        os.killpg(client.pid, signal.SIGKILL)
        client.wait(PATIENCE)
    eventually(lambda: os.listdir(d.path('leases')) == [], 'every lease is released')
    d.wait_ready()
    events = [json.loads(line) for line in d.read('events').splitlines()]
    own = [e for e in events if e['kind'] == 'lease' and '-r' in e['id'] and e['to'] == 'RELEASING']
    equal(len(own), 20)
    equal({e['reason'] for e in own}, {'hold_released'})


main(slots=4, options=[f'pool.hold_grace={GRACE}s'])
