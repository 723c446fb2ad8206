# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deaths: of a slot's init, of the daemon by SIGTERM, by fusermount3 -u and by kill -9; starts that fail."""
import contextlib
import ctypes
import errno
import json
import os
import signal
import sqlite3
import subprocess

from harness import (DRESSAGEFS, PATIENCE, Daemon, Failed, Scratch, Skip, case, cgroups, check, close_late, contains, equal, eventually,
                     fails_with, main, mounts, processes_of, run, sh, sleeps_with, test_environment)


@case
def kill_9_of_init_while_leased_loses_that_lease_and_no_other(d):
    d.mkdir('t')
    d.mkdir('u')
    with open(d.lease('u', 'fs', 'workspace', 'f'), 'w', encoding='utf-8') as f:
        f.write('untouched')
    slot = f'{d.slot_of("t"):04d}'
    os.kill(int(d.read('slots', slot, 'pid')), signal.SIGKILL)
    eventually(lambda: d.read('leases', 't', 'state') == 'LOST\n', 'the lease is LOST')
    lease = d.json('leases', 't', 'lease.json')
    equal((lease['state'], lease['reason']), ('LOST', 'slot_lost'))
    equal(d.read('slots', slot, 'state'), 'LOST\n')
    check(d.read('slots', slot, 'last_error').strip(), 'the slot has no last_error')
    fails_with(errno.ENOTCONN, d.run, 't', 'true')
    contains(d.read('leases', 't', 'last_error'), 'slot')
    with open(d.lease('u', 'fs', 'workspace', 'f'), encoding='utf-8') as f:
        equal(f.read(), 'untouched')
    equal(d.run('u', 'cat f')['stdout'], 'untouched')
    d.rmdir('t')
    d.wait_ready(1)
    d.mkdir('v')
    equal(d.run('v', 'ls')['stdout'], '')


@case
def fs_shows_what_is_there_or_ENOTCONN_while_its_slot_dies(d):
    for number in range(6):
        name = f't{number}'
        eventually(lambda: d.read('status.json') and d.json('status.json')['total_ready'] > 0, 'a slot is ready')
        d.mkdir(name)
        w = d.lease(name, 'fs', 'workspace')
        for i in range(20):
            with open(f'{w}/{i}', 'w', encoding='utf-8') as f:
                f.write('data')
        os.kill(int(d.read('slots', f'{d.slot_of(name):04d}', 'pid')), signal.SIGKILL)
        try:
            while True:
                equal(len(os.listdir(w)), 20)
                equal(os.stat(f'{w}/5').st_size, 4)
                with open(f'{w}/3', encoding='utf-8') as f:
                    equal(f.read(), 'data')
        except OSError as e:
            equal(e.errno, errno.ENOTCONN)
        d.rmdir(name)


@case
def a_command_whose_slot_dies_says_infrastructure_and_not_1(d):
    d.mkdir('t')
    fd = d.begin('t', 'echo before; touch started; sleep 1000')
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'started')), 'the command runs')
    os.kill(int(d.read('slots', f'{d.slot_of("t"):04d}', 'pid')), signal.SIGKILL)
    try:
        reply = json.loads(os.read(fd, 1 << 20))
        equal((reply['metadata']['infra_failure'], reply['metadata']['reason']), (True, 'slot_lost'))
        check(reply['returncode'] is None, f'returncode {reply["returncode"]}')
    except OSError as e:
        equal(e.errno, errno.ENOTCONN)
    os.close(fd)


@case
def fs_of_a_lost_lease_gives_an_error_and_not_an_empty_directory(d):
    d.mkdir('t')
    w = d.lease('t', 'fs', 'workspace')
    with open(w + '/f', 'w', encoding='utf-8'):
        pass
    os.kill(int(d.read('slots', f'{d.slot_of("t"):04d}', 'pid')), signal.SIGKILL)
    eventually(lambda: d.read('leases', 't', 'state') == 'LOST\n', 'the lease is LOST')
    fails_with(errno.ENOTCONN, os.listdir, w)


@case
def a_ready_slot_that_dies_comes_back_by_itself(d):
    d.wait_ready()
    pid = int(d.read('slots', '0000', 'pid'))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: d.read('slots', '0000', 'state') == 'READY\n' and int(d.read('slots', '0000', 'pid') or pid) != pid,
               'the slot is READY again')


@case
def a_slot_whose_init_is_killed_a_hundred_times_over_is_never_more_than_one():
    with Daemon(slots=1) as d:
        for number in range(1, 101):
            d.ask('create', {'trajectory_id': 't', 'wait': PATIENCE})
            equal(int(d.read('slots', '0000', 'generation')), number)
            if number % 10 == 0:
                eventually(lambda: len(processes_of(d.state)) == 2, 'the daemon and one bubblewrap')
            os.kill(int(d.read('slots', '0000', 'pid')), signal.SIGKILL)
            equal(d.read('leases', 't', 'wait'), 'LOST slot_lost\n')
            d.rmdir('t')


def a_daemon_at_work(**more):
    """Two leases, one with a command that runs."""
    d = Daemon(slots=3, **more).start()
    d.mkdir('t')
    d.mkdir('u')
    fd = d.begin('t', 'touch started; (setsid sleep 1000 &); sleep 1000')
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'started')), 'the command runs')
    return d, fd


@case
def SIGTERM_with_leases_and_a_running_command_leaves_nothing():
    d, fd = a_daemon_at_work()
    try:
        cgroup = d.cgroup()
        d.stop()
        close_late(fd)
        check(not cgroups(cgroup), f'cgroups are left: {cgroups(cgroup)}')
        equal(os.listdir(d.mnt), [])
    finally:
        d.destroy()


@case
def SIGINT_stops_it_too():
    with Daemon(slots=1) as d:
        d.process.send_signal(signal.SIGINT)
        d.wait_end()
        d.look_for_leftovers()


@case
def fusermount3_u_ends_the_daemon_and_leaves_nothing():
    with Daemon(slots=2) as d:
        d.mkdir('t')
        equal(run(['fusermount3', '-u', d.mnt]).returncode, 0)
        d.wait_end()
        d.look_for_leftovers()


@case
def a_client_that_waits_at_the_stop_gets_an_answer():
    d, fd = a_daemon_at_work()
    try:
        cat = subprocess.Popen(['cat', d.lease('t', 'run_command')], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        eventually(lambda: sleeps_with(d.lease('t', 'run_command'), cat.pid), 'cat waits')
        d.process.send_signal(signal.SIGTERM)
        out, err = cat.communicate(timeout=PATIENCE)
        check(out or err, 'neither a reply nor an error')
        d.wait_end()
        close_late(fd)
        d.look_for_leftovers()
    finally:
        d.destroy()


@case
def kill_9_of_the_daemon_leaves_what_the_next_start_clears_by_itself():
    d, fd = a_daemon_at_work()
    try:
        cgroup = d.cgroup()
        former = json.loads(d.read('leases', 't', 'lease.json'))['metadata']['lease_id']
        d.kill()
        close_late(fd)
        again = Daemon(slots=3, base=d.base)
        again.start()
        try:
            equal(os.listdir(again.path('leases')), [])
            told = [e for e in map(json.loads, again.read('events').splitlines()) if e['id'] == former]
            equal([(e['from'], e['to'], e['reason']) for e in told], [('ACTIVE', 'RELEASED', 'daemon_lost')])
            for name in ('t', former):
                reply = again.ask('terminate', name + '\n')
                equal((reply['lease_id'], reply['already_released'], reply['slot_reusable']), (former, True, True))
            again.wait_ready()
            again.mkdir('t')
            equal(again.run('t', 'ls; echo fresh')['stdout'], 'fresh\n')
            eventually(lambda: len(processes_of(d.state)) == 4, 'the daemon and three bubblewraps')
            again.stop()
            check(not cgroups(cgroup), f'cgroups are left: {cgroups(cgroup)}')
            with contextlib.closing(sqlite3.connect(d.base + '/state/journal.db')) as journal:
                equal(journal.execute('SELECT lease_id FROM leases').fetchall(), [])
        finally:
            again.destroy()
    finally:
        d.destroy()


@case
def a_second_daemon_on_the_same_state_directory_is_refused_and_harms_nothing():
    with Daemon(slots=1) as d:
        d.mkdir('t')
        with Scratch() as other:
            done = run([*d.words, '-f', other])
            equal(done.returncode, 1)
            contains(done.stderr, str(d.pid))
        equal(d.run('t', 'echo alive')['stdout'], 'alive\n')


@case
def an_occupied_mountpoint_is_refused_before_anything_is_made():
    with Daemon(slots=1) as d, Scratch() as work:
        d.mkdir('t')
        for more in ([], ['-f']):
            done = run([DRESSAGEFS, '-o', f'dressage.state_dir={work}/state', *more, d.mnt])
            equal(done.returncode, 1)
            contains(done.stderr, 'alive')
            equal(os.listdir(work), [])
        equal(d.run('t', 'echo alive')['stdout'], 'alive\n')


@case
def a_dead_mount_of_somebody_else_is_refused_and_left_alone():
    if os.getuid() != 0:
        raise Skip('mounting as somebody else needs root')
    libc = ctypes.CDLL(None, use_errno=True)
    with Scratch() as work:
        os.mkdir(work + '/mnt')
        fd = os.open('/dev/fuse', os.O_RDWR)
        data = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
        if libc.mount(b'other', (work + '/mnt').encode(), b'fuse.other', 0, data) != 0:
            os.close(fd)
            raise Skip(f'mount: {os.strerror(ctypes.get_errno())}')
        os.close(fd)
        try:
            done = run([DRESSAGEFS, '-f', '-o', f'dressage.state_dir={work}/state', work + '/mnt'])
            equal(done.returncode, 1)
            contains(done.stderr, 'none of ours')
            check(work + '/mnt' in mounts(), 'it was detached')
        finally:
            libc.umount2((work + '/mnt').encode(), 2)


@case
def going_to_the_background_returns_when_it_is_ready_and_says_why_not():
    d = Daemon(slots=2)
    try:
        done = run([*d.words, d.mnt])
        equal((done.returncode, done.stdout, done.stderr), (0, '', ''))
        status = d.json('status.json')
        equal((status['total_ready'], status['total_capacity']), (2, 2))
        with Scratch() as other:
            done = run([*d.words, other])
            equal(done.returncode, 1)
            contains(done.stderr, 'dressagefs: ')
        pids = [p for p, (name, text) in processes_of(d.base).items() if b'--ready-fd' in text]
        equal(len(pids), 1, 'daemons')
        equal(os.readlink(f'/proc/{pids[0]}/fd/0'), '/dev/null')
        equal(os.readlink(f'/proc/{pids[0]}/fd/1'), '/dev/null')
        equal(os.readlink(f'/proc/{pids[0]}/cwd'), '/')
        check(os.getsid(pids[0]) == pids[0], 'it is in our session')
        equal(run(['fusermount3', '-u', d.mnt]).returncode, 0)
        eventually(lambda: not processes_of(d.base), 'everything has ended')
    finally:
        d.destroy()


@case
def a_start_without_standard_descriptors_works():
    for closed in ('<&-', '>&-', '2>&-', '<&- >&- 2>&-'):
        d = Daemon(slots=1)
        try:
            equal(sh(f'"$@" {closed}', words=[*d.words, d.mnt]).returncode, 0, closed)
            equal(d.json('status.json')['total_ready'], 1)
            equal(run(['fusermount3', '-u', d.mnt]).returncode, 0)
            eventually(lambda: not processes_of(d.base), 'everything has ended')
        finally:
            d.destroy()


@case
def a_start_that_cannot_be_gives_exit_status_1_and_the_reason():
    with Scratch() as work:
        def start(*options):
            os.makedirs(work + '/mnt', exist_ok=True)
            done = run([DRESSAGEFS, '-o', f'dressage.state_dir={work}/state', *options, work + '/mnt'])
            equal(done.returncode, 1, done.stderr)
            check(done.stderr.startswith('dressagefs: '), done.stderr)
            check(work + '/mnt' not in mounts(), 'it is mounted')
            return done.stderr
        contains(start('-o', 'slot.bwrap=/nowhere/bwrap'), '/nowhere/bwrap')
        contains(start('-o', 'slot.bwrap=/bin/false'), 'slot')
        with open(work + '/plain', 'w', encoding='utf-8'):
            pass
        contains(start('-o', f'dressage.state_dir={work}/plain/state'), 'plain')
        eventually(lambda: not processes_of(work), 'nothing runs')


@case
def descriptors_that_the_daemon_inherited_reach_no_command():
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    d = Daemon(slots=1)
    try:
        d.words = ['bash', '-c', f'exec "$@" {writer + 20}>&{writer}', 'bash', *d.words]
        pass_fds = subprocess.Popen([*d.words, d.mnt], env=test_environment(), pass_fds=[writer], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = pass_fds.communicate(timeout=PATIENCE)
        equal((pass_fds.returncode, out, err), (0, b'', b''))
        d.mkdir('t')
        listed = d.run('t', 'ls -l /proc/self/fd')['stdout']
        check('socket' not in listed and listed.count('->') <= 4, listed)
        equal(sh(f'fusermount3 -u {d.mnt}').returncode, 0)
        eventually(lambda: not processes_of(d.base), 'everything has ended')
    except BaseException as e:
        raise Failed(f'{e}\n{d.log()}') from e
    finally:
        d.destroy()
        os.close(reader)
        os.close(writer)


main(slots=2)
