# SPDX-License-Identifier: LGPL-2.1-or-later
"""`dressage doctor` on this host, as it is and made worse in one thing at a time; and that a daemon which cannot start here
says why."""
import json
import os
import pwd
import re
import signal
import subprocess
import sys

from harness import (DRESSAGE, DRESSAGEFS, IS_ROOT, PATIENCE, Daemon, Scratch, Skip, case, check, contains, equal, eventually, main, mounts,
                     processes_of, run, test_environment)

CHECKS = ['kernel', 'fuse', 'libfuse', 'allow_other', 'request_timeout', 'mounts', 'daemon', 'user_namespaces', 'proc', 'seccomp',
          'bwrap', 'uids', 'groups', 'user_quotas', 'cgroup', 'disk', 'descriptors', 'ports', 'nat', 'slot']
CODES = {'ok': 0, 'warn': 4, 'fail': 1}
NOBODY = pwd.getpwnam('nobody')


def place(work):
    """The environment of a daemon that would have its places there."""
    return {'HOME': work, 'XDG_STATE_HOME': work + '/state', 'XDG_RUNTIME_DIR': work, 'DRESSAGE_CONFIG': ''}


def doctor(work, words=(), config='', env=None, user=None, before=()):
    """The findings {check: [(level, finding, remedy)]} and the exit status."""
    path = os.path.join(work, 'dressage.ini')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'[dressage]\nstate_dir = {work}/state\n[mount]\nmountpoint = {work}/mnt\n{config}')
    done = run([*before, DRESSAGE, '--config', path, *words, 'doctor', '--json'], env={**place(work), **(env or {})}, user=user,
               timeout=3 * PATIENCE)
    report = json.loads(done.stdout)
    equal(done.returncode, CODES[report['result']], 'exit status')
    found = {}
    for line in report['checks']:
        found.setdefault(line['check'], []).append((line['level'], line['finding'], line['remedy']))
    levels = [level for lines in found.values() for level, _, _ in lines]
    equal(report['result'], max(levels, key=['ok', 'warn', 'fail'].index))
    # another's, on this machine, may be there for a moment
    eventually(lambda: not [name for name in os.listdir('/tmp') if name.startswith('dressagefs-doctor-')], 'nothing is left in /tmp')
    return found, done.returncode


def level(found, name):
    return max((line[0] for line in found[name]), key=['ok', 'warn', 'fail'].index)


def need_root():
    if not IS_ROOT:
        raise Skip('needs root')


@case
def every_check_says_something_and_a_host_where_the_tests_run_has_no_failure():
    with Scratch() as work:
        found, code = doctor(work)
        equal(list(found), CHECKS)
        equal({name: lines for name, lines in found.items() if level(found, name) == 'fail'}, {})
        check(code in (0, 4), 'exit status')
        check(re.fullmatch(r'one of our own was ready in \d+ ms and ran a command in \d+ ms', found['slot'][0][1]), found['slot'])
        for lines in found.values():
            for grade, finding, remedy in lines:
                check(finding, 'an empty finding')
                equal(remedy == '', grade == 'ok', finding)


@case
def the_lines_are_level_check_finding_and_remedy():
    with Scratch() as work:
        done = run([DRESSAGE, 'doctor'], env=place(work))
        names = []
        for line in done.stdout.splitlines():
            match = re.fullmatch(r'(ok  |warn|fail)  (\w+): (.+)', line)
            check(match, line)
            names.append(match[2])
        equal(list(dict.fromkeys(names)), CHECKS)
        check(done.returncode in (0, 4), done)
        equal(run([DRESSAGE, 'doctor', 'much']).returncode, 2)
        contains(run([DRESSAGE, 'doctor', '--help']).stdout, 'Exit status 0')


@case
def without_bwrap_it_fails():
    with Scratch() as work:
        found, code = doctor(work, env={'PATH': work})
        equal(code, 1)
        equal(level(found, 'bwrap'), 'fail')
        contains(found['bwrap'][0][2], 'apt-get install bubblewrap')
        equal(level(found, 'slot'), 'fail')


@case
def a_closed_dev_fuse_is_a_failure_for_a_plain_user():
    need_root()
    if os.stat('/dev/fuse').st_mode & 0o6:
        raise Skip('/dev/fuse is open to everybody here')
    with Scratch() as work:
        os.chown(work, NOBODY.pw_uid, NOBODY.pw_gid)
        found, code = doctor(work, user=(NOBODY.pw_uid, NOBODY.pw_gid))
        equal((code, level(found, 'fuse')), (1, 'fail'))
        contains(found['fuse'][0][1], 'closed to this user')
        equal(level(found, 'uids'), 'ok')


@case
def a_user_without_a_name_is_a_failure_and_the_daemons_start_says_so():
    need_root()
    nameless = 54321
    try:
        raise Skip(f'{nameless} is {pwd.getpwuid(nameless).pw_name} here')
    except KeyError:
        pass
    with Scratch() as work:
        os.chown(work, nameless, nameless)
        found, code = doctor(work, user=(nameless, nameless))
        equal((code, level(found, 'fuse')), (1, 'fail'))
        contains(' '.join(line[1] for line in found['fuse']), f'user {nameless} has no name')
        done = run([DRESSAGEFS, '-o', 'pool.slots=1', f'{work}/mnt'], env=place(work), user=(nameless, nameless))
        equal(done.returncode, 1, done.stderr)
        contains(done.stderr, f'users without a name, and {nameless} has none')


@case
def a_plain_user_in_group_0_is_a_failure_and_one_that_opens_more_is_named():
    need_root()
    with Scratch() as work:
        os.chown(work, NOBODY.pw_uid, NOBODY.pw_gid)
        secret = os.path.join(work, 'open', 'secret')
        os.mkdir(os.path.dirname(secret))
        with open(secret, 'w', encoding='utf-8'):
            pass
        os.chown(secret, 0, 1234)
        os.chmod(secret, 0o640)
        config = f'[slot]\nreadonly_mounts = {work}/open\n'
        prefix = ['setpriv', f'--reuid={NOBODY.pw_uid}', f'--regid={NOBODY.pw_gid}']
        found, _ = doctor(work, config=config, before=[*prefix, '--groups=1234'])
        equal(level(found, 'groups'), 'warn')
        contains(found['groups'][0][1], f"1234 (), which opens '{secret}'")
        found, code = doctor(work, config=config, before=[*prefix, '--groups=0,1234'])
        equal((code, level(found, 'groups')), (1, 'fail'))
        contains(found['groups'][0][1], 'group 0')
        found, _ = doctor(work, config=config, before=[*prefix, '--clear-groups'])
        equal(level(found, 'groups'), 'ok')


@case
def a_masked_proc_is_found_and_its_remedy_is_right_about_the_slot_too():
    need_root()
    with Scratch() as work:
        found, code = doctor(work, before=['unshare', '-m', 'sh', '-c', 'mount --bind /dev/null /proc/interrupts && exec "$@"', 'sh'])
        equal((code, level(found, 'proc'), level(found, 'slot')), (1, 'fail', 'fail'))
        contains(found['proc'][0][1], "'/proc/interrupts'")
        for name in ('proc', 'slot'):
            contains(found[name][0][2], 'systempaths=unconfined')


@case
def a_full_disk_is_a_failure():
    need_root()
    with Scratch() as work:
        os.mkdir(work + '/state')
        words = ['unshare', '-m', 'sh', '-c', f'mount -t tmpfs -o size=8m none {work}/state && exec "$@"', 'sh']
        found, code = doctor(work, before=words)
        equal((code, level(found, 'disk')), (1, 'fail'))
        contains(found['disk'][0][1], ' MiB free')


@case
def a_configuration_that_cannot_be_read_is_a_failure():
    with Scratch() as work:
        found, code = doctor(work, config='[pool]\nslots = many\n')
        equal((code, list(found)), (1, ['configuration']))
        contains(found['configuration'][0][1], 'slots')


@case
def a_running_daemon_is_asked_how_it_is(d):
    with Scratch() as work:
        found, code = doctor(work, words=['--mount', d.mnt])
        check(code in (0, 4), found)
        equal(level(found, 'daemon'), 'ok')
        contains(found['daemon'][0][1], 'local_bwrap')
        found, _ = doctor(work, env={'DRESSAGE_MOUNT': d.mnt})
        contains(found['daemon'][0][1], 'local_bwrap')
        found, _ = doctor(work, env={'DRESSAGE_MOUNT': ''})
        contains(found['daemon'][0][1], f"'{work}/mnt'")
        d.mkdir('lost')
        os.kill(int(d.read('slots', f'{d.slot_of("lost"):04}', 'pid')), signal.SIGKILL)
        eventually(lambda: d.read('leases', 'lost', 'state') == 'LOST\n', 'the lease is lost')
        found, code = doctor(work, words=['--mount', d.mnt])
        equal((code, level(found, 'daemon')), (4, 'warn'))
        os.rmdir(d.lease('lost'))
        d.wait_ready()


@case
def a_daemon_that_does_not_answer_is_a_failure(d):
    with Scratch() as work:
        os.kill(d.pid, signal.SIGSTOP)
        try:
            found, code = doctor(work, words=['--mount', d.mnt])
        finally:
            os.kill(d.pid, signal.SIGCONT)
        equal((code, level(found, 'mounts')), (1, 'fail'))
        contains(found['mounts'][0][1], f"'{d.mnt}' does not answer")


@case
def a_dead_mount_and_a_dead_bind_of_a_lease_are_found_with_their_remedies():
    need_root()
    with Scratch() as work:
        os.mkdir(work + '/bind')
        d = Daemon(slots=1).start()
        try:
            d.mkdir('bound')
            subprocess.run(['mount', '--bind', d.lease('bound', 'fs'), work + '/bind'], check=True)
            found, _ = doctor(work)
            equal(level(found, 'mounts'), 'ok')
            d.kill()
            found, code = doctor(work)
            check(code in (4, 1), code)
            text = '\n'.join(f'{finding}; {remedy}' for _, finding, remedy in found['mounts'])
            contains(text, f"'{d.mnt}' is a dead mount: its daemon has gone; fusermount3 -uz '{d.mnt}'")
            contains(text, f"'{work}/bind' is a dead bind mount of a part of a dressagefs: its daemon has gone; umount -l '{work}/bind'")
            subprocess.run(f"fusermount3 -uz '{d.mnt}'; umount -l '{work}/bind'", shell=True, check=True)
            check(not {d.mnt, work + '/bind'} & set(mounts()), 'the remedies help')
        finally:
            if work + '/bind' in mounts():
                subprocess.run(['umount', '-l', work + '/bind'], check=False)
            d.destroy()


IN_A_RESTRICTED_NAMESPACE = r'''
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
asks, asked = os.pipe()
answered, answers = os.pipe()
pid = os.fork()
if pid == 0:
    if libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
        os._exit(99)
    os.write(asked, b'x')
    os.read(answered, 1)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    with open('/proc/sys/user/max_user_namespaces', 'w') as f:
        f.write('0')
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    os.execv(sys.argv[1], sys.argv[1:])
os.read(asks, 1)
for name in 'uid_map', 'gid_map':
    with open(f'/proc/{pid}/{name}', 'w') as f:
        f.write('0 0 1\n1000 1000 1\n')
os.write(answers, b'x')
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'''


def in_a_restricted_namespace(program):
    return [sys.executable, '-c', IN_A_RESTRICTED_NAMESPACE, program]


SLOW_BWRAP = """#!/bin/sh
[ "$1" != --version ] || exec bwrap --version
touch {work}/began
exec tail -f {work}/began
"""


def ends_in_time(work, number):
    before = set(os.listdir('/tmp'))
    with open(work + '/dressage.ini', 'w', encoding='utf-8') as f:
        f.write(f'[dressage]\nstate_dir = {work}/state\n[mount]\nmountpoint = {work}/mnt\n[slot]\nbwrap = {work}/bwrap\n')
    process = subprocess.Popen([DRESSAGE, '--config', work + '/dressage.ini', 'doctor'], env={**test_environment(), **place(work)},
                               stdout=subprocess.DEVNULL)
    eventually(lambda: os.path.exists(work + '/began'), 'the slot starts')
    process.send_signal(number)
    equal(process.wait(PATIENCE), -number)
    os.unlink(work + '/began')
    equal([name for name in set(os.listdir('/tmp')) - before if name.startswith('dressagefs-doctor-')], [])
    eventually(lambda: not processes_of(work), 'no process is left')


@case
def a_doctor_that_is_interrupted_leaves_nothing():
    with Scratch() as work:
        os.chmod(work, 0o777)
        with open(work + '/bwrap', 'w', encoding='utf-8') as f:
            f.write(SLOW_BWRAP.format(work=work))
        os.chmod(work + '/bwrap', 0o755)
        for number in (signal.SIGINT, signal.SIGTERM):
            ends_in_time(work, number)


@case
def a_running_daemon_is_found_whatever_its_mountpoint_is_called():
    with Daemon(slots=1) as d, Scratch() as work:
        os.symlink(d.base, work + '/link')
        os.symlink('link/mnt', work + '/deeper')
        for name in (d.mnt, d.mnt + '/', d.base + '/./mnt', d.mnt + '/../mnt', work + '/link/mnt', work + '/deeper'):
            found, _ = doctor(work, words=['--mount', name])
            check('dressagefs 0' in found['daemon'][0][1], (name, found['daemon']))
        found, _ = doctor(work, words=['--mount', d.base])
        contains(found['daemon'][0][1], 'none runs at')


@case
def where_user_namespaces_are_forbidden_the_daemons_start_fails_with_a_sentence_in_time():
    need_root()
    with Scratch() as work:
        os.mkdir(work + '/mnt')
        os.chown(work, 1000, 1000)
        os.chown(work + '/mnt', 1000, 1000)
        words = [DRESSAGEFS, '-o', f'dressage.state_dir={work}/state', '-o', 'pool.slots=2']
        for more in (['-f'], []):
            done = run([*in_a_restricted_namespace(DRESSAGEFS), *words[1:], *more, work + '/mnt'], env=place(work))
            equal(done.returncode, 1)
            last = done.stderr.strip().splitlines()[-1]
            check(re.match(r'dressagefs: 2 of 2 slots did not start: .*namespace.*dressage doctor', last), last)
            check(work + '/mnt' not in mounts(), 'it is mounted')
        found, code = doctor(work, before=in_a_restricted_namespace('/usr/bin/env'))
        equal((code, level(found, 'user_namespaces'), level(found, 'slot')), (1, 'fail', 'fail'))
        contains(found['user_namespaces'][0][2], 'sysctl user.max_user_namespaces')


@case
def root_of_a_container_with_few_ids_is_told_so():
    need_root()
    with Scratch() as work:
        os.mkdir(work + '/mnt')
        done = run(['unshare', '-Ur', DRESSAGEFS, '-f', '-o', f'dressage.state_dir={work}/state', '-o', 'pool.slots=2', work + '/mnt'],
                   env=place(work))
        equal(done.returncode, 1)
        contains(done.stderr, 'slot.uid_base: 131072 ids from 2000000 on are not all there in this user namespace')
        found, code = doctor(work, before=['unshare', '-Ur'])
        equal((code, level(found, 'uids')), (1, 'fail'))


main(slots=2)
