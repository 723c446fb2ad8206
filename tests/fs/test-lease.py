# SPDX-License-Identifier: LGPL-2.1-or-later
"""A lease from mkdir and create to rmdir and terminate: what works, what is refused, who waits."""
import errno
import json
import os
import signal
import subprocess
import time

from harness import (DRESSAGE, PATIENCE, Daemon, case, check, contains, equal, eventually, fails_with, main, run, sh,
                     test_environment)


@case
def the_four_commands_of_the_first_screen_print_the_result(d):
    done = sh(f"cd {d.mnt}; mkdir leases/t1; echo 'echo hi; id -u; ls /' > leases/t1/run_command; "
              'cat leases/t1/run_command; rmdir leases/t1')
    equal(done.stderr, '')
    result = json.loads(done.stdout)
    equal(result['returncode'], 0)
    words = result['stdout'].split()
    equal(words[:2], ['hi', '1000'])
    check({'bin', 'etc', 'home', 'tmp', 'usr', 'workspace'} <= set(words[2:]), f'ls / gave {words[2:]}')
    check(not os.path.exists(d.lease('t1')), 'the lease is still there')


@case
def terminate_of_nonsense_fails_in_the_shell_with_ENOENT_and_last_error_explains(d):
    done = sh(f'echo nonsense > {d.mnt}/terminate')
    check(done.returncode != 0, 'echo succeeded')
    contains(done.stderr, 'No such file or directory')
    contains(d.read('last_error'), 'nonsense')


@case
def a_second_mkdir_gives_EEXIST(d):
    d.mkdir('t1')
    fails_with(errno.EEXIST, d.mkdir, 't1')
    equal(os.listdir(d.path('leases')), ['t1'])


@case
def mkdir_with_no_slot_free_gives_EAGAIN_at_once(d):
    d.mkdir('a')
    d.mkdir('b')
    before = time.monotonic()
    fails_with(errno.EAGAIN, d.mkdir, 'c')
    check(time.monotonic() - before < 5, 'mkdir waited')
    contains(d.read('last_error'), 'free')


@case
def rmdir_of_no_lease_gives_ENOENT(d):
    fails_with(errno.ENOENT, d.rmdir, 'never')


@case
def create_takes_a_bare_id_and_gives_the_lease(d):
    lease = d.ask('create', 't1\n')
    equal(lease['trajectory_id'], 't1')
    equal(lease['provider'], 'local_bwrap')
    equal(sorted(lease['capabilities']), ['command', 'file'])
    for key in ('pool_mode', 'paddock_mode', 'node_id', 'node_ip', 'slot_id', 'generation'):
        check(key in lease['metadata'], f'no metadata.{key}')
    equal(d.json('leases', 't1', 'lease.json')['state'], 'ACTIVE')
    equal(d.read('leases', 't1', 'state'), 'ACTIVE\n')


@case
def create_of_a_live_trajectory_gives_the_same_lease(d):
    first = d.ask('create', {'trajectory_id': 't1'})
    again = d.ask('create', {'trajectory_id': 't1'})
    equal(again['sandbox_id'], first['sandbox_id'])
    equal(d.json('status.json')['leases']['active'], 1)


@case
def create_with_another_spec_for_a_live_trajectory_gives_EEXIST(d):
    d.mkdir('t1')
    fd = os.open(d.path('create'), os.O_RDWR)
    os.write(fd, b'{"trajectory_id": "t1", "env": {"A": "b"}}')
    fails_with(errno.EEXIST, os.read, fd, 4096)
    equal(json.loads(os.read(fd, 4096))['error']['reason'], 'spec_differs')
    os.close(fd)
    contains(d.read('last_error'), 'env')


@case
def create_with_wait_0_and_no_slot_free_gives_EAGAIN(d):
    d.mkdir('a')
    d.mkdir('b')
    fails_with(errno.EAGAIN, d.ask, 'create', {'trajectory_id': 'c', 'wait': 0})


@case
def create_gives_ETIMEDOUT_when_its_wait_is_over(d):
    d.mkdir('a')
    d.mkdir('b')
    fails_with(errno.ETIMEDOUT, d.ask, 'create', {'trajectory_id': 'c', 'wait': 0.2})


def start_create(d, name):
    """A create in a process of its own, after it stands in the queue."""
    before = d.json('status.json')['queue']
    process = subprocess.Popen([DRESSAGE, '--mount', d.mnt, 'create', name], env=test_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    eventually(lambda: queue_length(d) > queue_length_of(before), f'{name} is queued')
    return process


def queue_length_of(queue):
    return queue if isinstance(queue, (int, float)) else len(queue) if isinstance(queue, list) else queue['length']


def queue_length(d):
    return queue_length_of(d.json('status.json')['queue'])


@case
def create_with_no_slot_free_waits_its_turn_first_come_first_served(d):
    d.mkdir('a')
    d.mkdir('b')
    first, second = start_create(d, 'c'), start_create(d, 'd')
    equal(os.path.exists(d.lease('c')), False)
    d.rmdir('a')
    out, err = first.communicate(timeout=PATIENCE)
    equal((first.returncode, err), (0, ''))
    equal(json.loads(out)['trajectory_id'], 'c')
    equal(second.poll(), None, 'the second create')
    d.rmdir('b')
    out, err = second.communicate(timeout=PATIENCE)
    equal((second.returncode, err), (0, ''))


@case
def a_waiting_create_is_interrupted_by_Ctrl_C_and_leaves_the_queue(d):
    d.mkdir('a')
    d.mkdir('b')
    process = start_create(d, 'c')
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    equal(process.returncode, -signal.SIGINT)
    eventually(lambda: queue_length(d) == 0, 'the queue is empty')
    d.rmdir('a')
    d.wait_ready(1)
    check(not os.path.exists(d.lease('c')), 'the interrupted create got a lease')


@case
def terminate_answers_by_trajectory_and_by_lease_id_and_twice(d):
    lease = d.ask('create', 't1')
    reply = d.ask('terminate', 't1\n')
    equal(reply['released'], True)
    equal(reply['trajectory_id'], 't1')
    equal(reply['slot_id'], lease['metadata']['slot_id'])
    again = d.ask('terminate', 't1\n')
    equal((again['released'], again['already_released']), (True, True))
    lease = d.ask('create', 't1')
    equal(d.ask('terminate', {'lease_id': lease['sandbox_id']})['released'], True)


@case
def terminate_in_the_leases_directory_takes_any_text(d):
    d.mkdir('t1')
    with open(d.lease('t1', 'terminate'), 'r+b', buffering=0) as f:
        f.write(b'done with it\n')
        equal(json.loads(f.read())['released'], True)
    check(not os.path.exists(d.lease('t1')), 'the lease is still there')


@case
def a_command_has_one_event_that_names_its_slot_and_exec_id(d):
    d.mkdir('t1')
    d.run('t1', 'true')
    exec_id = d.run('t1', 'exit 3')['metadata']['exec_id']
    events = [json.loads(line) for line in d.read('events').splitlines()]
    name, generation = f'{d.slot_of("t1"):04d}/{exec_id}', d.json('leases/t1/lease.json')['metadata']['generation']
    own = [e for e in events if (e['kind'], e['id'], e['generation']) == ('exec', name, generation)]
    equal([(e['to'], e['why']) for e in own], [('EXITED', 'returncode 3')])


def whys(d, lease_id):
    """What the events of the lease's end say of why."""
    events = [json.loads(line) for line in d.read('events').splitlines()]
    return [e.get('why') for e in events if e['id'] == lease_id and e['reason'] == 'terminated']


@case
def the_reason_written_to_terminate_stands_in_the_events(d):
    for path, request in (('leases/{name}/terminate', 'done with it\n'), ('leases/{name}/terminate', '{{"reason": "done with it"}}'),
                          ('terminate', '{{"trajectory_id": "{name}", "reason": "done with it"}}')):
        d.wait_ready()
        d.mkdir('why')
        lease_id = d.json('leases/why/lease.json')['metadata']['lease_id']
        d.ask(path.format(name='why'), request.format(name='why'))
        eventually(lambda: len(whys(d, lease_id)) == 2, 'RELEASING and RELEASED are told')  # pylint: disable=cell-var-from-loop
        equal(whys(d, lease_id), ['done with it'] * 2)


@case
def the_node_has_one_id_everywhere(d):
    d.mkdir('t1')
    ids = {d.json('status.json')['nodes'][0]['node_id'], d.json('leases/t1/lease.json')['metadata']['node_id'],
           d.run('t1', 'true')['metadata']['node_id'], d.ask('terminate', 't1\n')['node_id']}
    equal(len(ids), 1, f'{ids}')


@case
def a_control_file_still_open_at_the_end_of_its_lease_delivers_its_reply(d):
    d.mkdir('t1')
    fd = d.begin('t1', 'echo kept')
    eventually(lambda: d.run('t1', 'true')['returncode'] == 0, 'another command has run')
    first = os.read(fd, 1 << 20)
    d.rmdir('t1')
    equal(json.loads(os.pread(fd, 1 << 20, 0))['stdout'], 'kept\n')
    equal(json.loads(first)['stdout'], 'kept\n')
    os.close(fd)


@case
def ttl_reads_seconds_left_and_a_number_renews(d):
    d.mkdir('t1')
    check(2000 < float(d.read('leases', 't1', 'ttl')) <= 2100, d.read('leases', 't1', 'ttl'))
    equal(sh(f'echo 77 > {d.lease("t1", "ttl")}').returncode, 0)
    check(70 < float(d.read('leases', 't1', 'ttl')) <= 77, d.read('leases', 't1', 'ttl'))
    done = sh(f'echo soon > {d.lease("t1", "ttl")}')
    check(done.returncode != 0, 'ttl took a word')
    contains(done.stderr, 'Invalid argument')


@case
def a_lease_ends_when_its_ttl_has_passed_and_says_so(d):
    d.ask('create', {'trajectory_id': 't1', 'timeout_sec': 0.3})
    eventually(lambda: d.read('leases', 't1', 'state') == 'EXPIRED\n', 'EXPIRED')
    equal(d.json('leases', 't1', 'lease.json')['reason'], 'lease_ttl_expired')
    fails_with(errno.ESTALE, d.run, 't1', 'true')
    d.wait_ready()
    d.ask('create', 't1')
    equal(d.read('leases', 't1', 'state'), 'ACTIVE\n')


@case
def an_expired_lease_frees_its_slot_and_stays_to_be_looked_at_until_terminated(d):
    d.ask('create', {'trajectory_id': 't1', 'timeout_sec': 0.2})
    eventually(lambda: d.read('leases', 't1', 'state') == 'EXPIRED\n', 'EXPIRED')
    d.mkdir('a')
    eventually(lambda: d.json('status.json')['total_ready'] == 1, 'the slot came back')
    d.mkdir('b')
    equal(sorted(os.listdir(d.path('leases'))), ['a', 'b', 't1'])
    equal(d.ask('terminate', 't1')['already_released'], True)
    check(not os.path.exists(d.lease('t1')), 'the lease is still there')


@case
def slots_show_state_generation_lease_and_pid(d):
    d.mkdir('t1')
    slot = f'{d.slot_of("t1"):04d}'
    equal(sorted(os.listdir(d.path('slots'))), ['0000', '0001'])
    equal(d.read('slots', slot, 'state'), 'LEASED\n')
    contains(d.read('slots', slot, 'lease'), 't1')
    check(os.path.exists(f'/proc/{int(d.read("slots", slot, "pid"))}'), 'no such process')
    generation = int(d.read('slots', slot, 'generation'))
    d.rmdir('t1')
    d.wait_ready()
    equal(int(d.read('slots', slot, 'generation')), generation + 1)
    equal(d.read('slots', slot, 'state'), 'READY\n')


@case
def a_released_slot_comes_back_empty(d):
    for name in ('a', 'b'):
        d.mkdir(name)
        d.run(name, 'for d in /workspace /tmp ~ /dev/shm; do echo mine > $d/secret; done')
        d.rmdir(name)
    d.wait_ready()
    for name in ('c', 'd'):
        d.mkdir(name)
        equal(d.run(name, 'ls -A /workspace /tmp ~ /dev/shm')['stdout'].count('secret'), 0)


@case
def status_events_and_config_tell_people_and_programs(d):
    d.mkdir('t1')
    contains(d.read('status'), 't1')
    status = d.json('status.json')
    for key in ('closed', 'pool_mode', 'total_capacity', 'total_ready', 'total_leased', 'total_resetting', 'total_restarting',
                'total_failed', 'total_lost', 'nodes', 'leases', 'slots', 'queue', 'version'):
        check(key in status, f'no {key} in status.json')
    equal((status['total_capacity'], status['total_leased'], status['total_ready']), (2, 1, 1))
    events = [json.loads(line) for line in d.read('events').splitlines()]
    equal([e['seq'] for e in events], sorted({e['seq'] for e in events}))
    check(any(e['kind'] == 'slot' and e['from'] == 'READY' and e['to'] == 'LEASED' for e in events), 'no READY to LEASED')
    check(any(e['kind'] == 'lease' and e['to'] == 'ACTIVE' for e in events), 'no lease became ACTIVE')
    contains(d.read('config'), 'slots = 2')


@case
def the_command_line_does_it_all(d):
    def tool(*words, **more):
        return run([DRESSAGE, '--mount', d.mnt, *words], **more)
    done = tool('create', 't1')
    equal((done.returncode, done.stderr), (0, ''))
    equal(json.loads(done.stdout)['trajectory_id'], 't1')
    done = tool('exec', 't1', '--cwd', '/tmp', '--env', 'A=b c', '--', 'sh', '-c', 'pwd; echo "$A"; echo err >&2; exit 7')
    equal((done.returncode, done.stdout, done.stderr), (7, '/tmp\nb c\n', 'err\n'))
    equal(tool('exec', 't1', '--', 'cat', stdin='through\n').stdout, 'through\n')
    done = run([DRESSAGE, '--mount', d.mnt, 'exec', 't1', '--', 'printf', '\\377\\000\\376'], text=False)
    equal(done.stdout, b'\xff\x00\xfe')
    equal(tool('exec', 't1', '--timeout', '0.2', '--', 'sleep', '60').returncode, 124)
    equal(tool('exec', 't1', '--', 'sh', '-c', 'kill -TERM $$').returncode, 128 + signal.SIGTERM)
    done = tool('exec', 't1', '--', 'no-such-program')
    equal(done.returncode, 127)
    equal(tool('exec', 'nobody', '--', 'true').returncode, 125)
    for bad in ('', '{', 'words', '[]'):
        equal(tool('create', '--spec', '-', stdin=bad).returncode, 1, bad)
    equal(json.loads(tool('create', '--spec', '-', stdin='{"trajectory_id": "-dash"}').stdout)['trajectory_id'], '-dash')
    equal(tool('exec', '--', '-dash', '--', 'echo', 'x').stdout, 'x\n')
    equal(tool('terminate', '--', '-dash').returncode, 0)
    contains(tool('ls').stdout, 't1')
    equal(tool('status').returncode, 0)
    equal(json.loads(tool('status', '--json').stdout)['total_leased'], 1)
    equal(tool('terminate', 't1').returncode, 0)
    done = tool('terminate', 'nonsense')
    equal(done.returncode, 1)
    contains(done.stderr, 'nonsense')
    d.wait_ready()
    d.mkdir('a')
    d.mkdir('b')
    equal(tool('create', '--wait', '0', 'c').returncode, 6)
    equal(tool('create', '--wait', '0.2', 'c').returncode, 5)
    equal(run([DRESSAGE, '--mount', '/nowhere', 'status']).returncode, 3)
    equal(tool('exec').returncode, 2)


@case
def a_read_only_mount_shows_and_changes_nothing():
    with Daemon(slots=1, command=['-o', 'ro']) as d:
        contains(d.read('status'), '0000')
        contains(d.read('config'), 'slots = 1')
        contains(d.read('events'), '"READY"')
        equal(d.read('slots', '0000', 'state'), 'READY\n')
        fails_with(errno.EROFS, d.mkdir, 't1')
        for name in ('create', 'terminate'):
            fails_with(errno.EROFS, os.open, d.path(name), os.O_RDWR)


main(slots=2)
