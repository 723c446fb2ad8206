# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tree as ls, cat, df, grep and find see it: names, sizes, modes, times, who waits and who does not."""
import errno
import json
import os
import select
import signal
import stat
import subprocess
import time

from harness import (PATIENCE, Daemon, Scratch, case, check, contains, equal, eventually, fails_with, main, need, read_all, run, sh,
                     sleeps_with, test_environment)

LEASE_FILES = ['endpoints', 'exec', 'fs', 'hold', 'last_error', 'lease.json', 'log', 'run_command', 'state', 'terminate', 'ttl', 'wait']


@case
def the_root_has_the_files_that_the_docs_name(d):
    equal(sorted(os.listdir(d.mnt)),
          ['config', 'control', 'create', 'events', 'events.follow', 'last_error', 'leases', 'metrics', 'slots', 'status', 'status.json', 'terminate'])
    d.mkdir('t')
    equal(sorted(os.listdir(d.lease('t'))), LEASE_FILES)
    equal(sorted(os.listdir(d.path('slots', '0000'))), ['generation', 'health', 'last_error', 'lease', 'limits', 'log', 'pid', 'state'])


@case
def ls_l_shows_the_owner_real_times_and_what_may_be_done(d):
    before = time.time()
    d.mkdir('t')
    after = time.time()
    st = os.stat(d.lease('t'))
    check(before - 1 <= st.st_mtime <= after + 1, f'the lease was made at {st.st_mtime}, not {before}')
    d.run('t', 'true')
    check(os.stat(d.lease('t', 'run_command')).st_mtime > st.st_mtime, 'run_command does not have the time of the last command')
    for path, mode in (('', 0o750), ('create', 0o640), ('terminate', 0o640), ('status', 0o440), ('leases', 0o750),
                       ('leases/t', 0o750), ('leases/t/lease.json', 0o440), ('leases/t/run_command', 0o640),
                       ('leases/t/ttl', 0o640), ('slots', 0o550), ('slots/0000', 0o550), ('slots/0000/state', 0o440)):
        st = os.stat(d.path(path))
        equal((st.st_uid, st.st_gid), (os.getuid(), os.getgid()), path)
        got = stat.S_IMODE(st.st_mode)
        equal(oct(got), oct(mode), f'mode of {path}')
        if stat.S_ISDIR(st.st_mode):
            shown = os.listdir(d.path(path))
            equal(st.st_nlink, 2 + sum(os.path.isdir(d.path(path, name)) for name in shown), f'links of {path}')


@case
def leases_tells_of_one_that_came_or_went_though_its_attributes_are_remembered(d):
    def links():
        return os.stat(d.path('leases')).st_nlink
    began = time.time()
    for i in range(10):  # of those that the kernel has no part in it is told: else it would ask each second
        equal(links(), 2)
        equal(sh(f'echo t{i} > {d.path("create")}').returncode, 0)
        eventually(lambda: links() == 3, 'it has come')
        equal(sh(f'echo t{i} > {d.path("terminate")}').returncode, 0)
        eventually(lambda: links() == 2, 'it has gone')
        d.wait_ready()
    check(time.time() - began < 10, 'the kernel was not told')


@case
def a_remembered_name_is_gone_with_its_lease_at_once_and_then_stands_for_the_next(d):
    for _ in range(20):
        lease_id = d.ask('create', 't\n')['sandbox_id']
        for _ in range(2):  # the kernel has all of it now
            equal(d.json('leases', 't', 'lease.json')['sandbox_id'], lease_id)
            os.stat(d.lease('t'))
        d.ask('terminate', 't\n')
        fails_with(errno.ENOENT, os.stat, d.lease('t'))
        fails_with(errno.ENOENT, os.stat, d.lease('t', 'lease.json'))
        fails_with(errno.ENOENT, os.open, d.lease('t', 'run_command'), os.O_RDWR)
        fails_with(errno.ENOENT, os.listdir, d.lease('t'))
        fails_with(errno.ENOENT, os.rmdir, d.lease('t'))
        lease_id = d.ask('create', {'trajectory_id': 't', 'wait': 30})['sandbox_id']
        equal(d.json('leases', 't', 'lease.json')['sandbox_id'], lease_id)
        d.ask('terminate', 't\n')
        d.mkdir('t')
        check(d.json('leases', 't', 'lease.json')['sandbox_id'] != lease_id, 'it is the former one')
        d.rmdir('t')
        fails_with(errno.ENOENT, os.stat, d.lease('t'))
        d.wait_ready()


@case
def a_snapshot_file_has_its_exact_size_and_keeps_its_text_while_open(d):
    d.mkdir('t')
    for path in ('status', 'status.json', 'config', 'events', 'leases/t/lease.json', 'leases/t/state', 'slots/0000/state'):
        fd = os.open(d.path(path), os.O_RDONLY)
        text = read_all(fd)
        equal(os.fstat(fd).st_size, len(text), path)
        check(len(text) > 0, f'{path} is empty')
        equal(os.pread(fd, 1 << 20, 0), text, path)
        os.close(fd)
    fd = os.open(d.path('status.json'), os.O_RDONLY)
    size = os.fstat(fd).st_size
    first = os.read(fd, 10)
    d.mkdir('u')
    text = first + read_all(fd)
    equal(len(text), size)
    equal(json.loads(text)['total_leased'], 1)
    os.close(fd)
    equal(d.json('status.json')['total_leased'], 2)


@case
def stat_then_read_by_any_tool_gives_the_whole_text(d):
    d.mkdir('t')
    text = d.read('leases', 't', 'lease.json')
    path = d.lease('t', 'lease.json')
    for tool in (f'cat {path}', f'head -c 999999 {path}', f'dd if={path} bs=7 2>/dev/null', f'grep . {path}', f'tail -n 99 {path}',
                 f'busybox cat {path}', f'sed "" {path}', f'T=$(mktemp -d); cp {path} $T/x; cat $T/x; rm -r $T',
                 f'python3 -c "print(open(\'{path}\').read(), end=\'\')"'):
        done = sh(tool)
        equal(without_clock(done.stdout), without_clock(text), tool)


def without_clock(text):
    lease = json.loads(text)
    return {k: v for k, v in lease.items() if k != 'deadline'}


@case
def a_request_file_reports_its_last_replys_length(d):
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    reply = sh(f'echo "echo a" > {path}; cat {path}').stdout
    eventually(lambda: os.stat(path).st_size == len(reply), f'st_size {os.stat(path).st_size}, reply {len(reply)}')


@case
def df_i_shows_slots_and_df_answers(d):
    def inodes(path):
        st = os.statvfs(d.path(path))
        return st.f_files, st.f_ffree
    equal(inodes(''), (2, 2))
    d.mkdir('t')
    equal(inodes(''), (2, 1))
    equal(inodes('leases'), (2, 1))
    done = sh(f'df -i {d.mnt} | tail -n 1')
    equal(done.stdout.split()[1:4], ['2', '1', '1'])
    shown, own = os.statvfs(d.mnt), os.statvfs(d.state)
    equal(shown.f_blocks * shown.f_frsize, own.f_blocks * own.f_frsize, 'bytes of the state directory')
    st = os.statvfs(d.lease('t', 'fs', 'workspace'))
    check(st.f_files != 2 and st.f_blocks > 0, 'df in fs/ is not the slot\'s own storage')


@case
def lookups_and_status_answer_while_a_command_runs_and_a_create_waits(d):
    d.mkdir('t')
    d.mkdir('u')
    fd = d.begin('t', 'sleep 1000')
    reader = subprocess.Popen(['cat', d.lease('t', 'run_command')], stdout=subprocess.DEVNULL)
    waiter = subprocess.Popen(['bash', '-c', f'exec 3<>{d.path("create")}; echo v >&3; cat <&3'], stdout=subprocess.DEVNULL)
    eventually(lambda: d.json('status.json')['queue'], 'the create waits')
    before = time.monotonic()
    equal(sorted(os.listdir(d.path('leases'))), ['t', 'u'])
    fails_with(errno.EAGAIN, d.mkdir, 'w')
    equal(d.read('leases', 'u', 'state'), 'ACTIVE\n')
    contains(d.read('status'), 'u')
    check(time.monotonic() - before < 5, 'it took seconds')
    for process in (reader, waiter):
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    os.close(fd)


@case
def rmdir_does_not_wait_for_the_reset():
    with Scratch() as work:
        with open(work + '/bwrap', 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\nwhile [ -e {work}/hold ]; do sleep 0.01; done\nexec {need("bwrap")} "$@"\n')
        os.chmod(work + '/bwrap', 0o755)
        with Daemon(slots=1, options=[f'slot.bwrap={work}/bwrap']) as d:
            d.mkdir('t')
            with open(work + '/hold', 'w', encoding='utf-8'):
                pass
            d.rmdir('t')
            check('t' not in os.listdir(d.path('leases')), 'the directory is still there')
            check(d.read('slots', '0000', 'state') != 'READY\n', 'the slot is READY without its bwrap')
            os.unlink(work + '/hold')
            d.wait_ready()


@case
def a_reader_with_O_NONBLOCK_gets_EAGAIN_while_the_command_runs(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b'while [ ! -e go ]; do sleep 0.01; done; echo late')
    fails_with(errno.EAGAIN, os.read, fd, 4096)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    equal(poller.poll(0), [])
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLIN)])
    equal(json.loads(os.read(fd, 1 << 20))['stdout'], 'late\n')
    os.close(fd)


@case
def a_reader_with_O_NONBLOCK_who_wrote_nothing_gets_the_last_command_that_is_done(d):
    d.mkdir('t')
    d.run('t', 'echo a')
    path = d.lease('t', 'run_command')
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, b'while [ ! -e go ]; do sleep 0.01; done; echo b')
    os.fsync(fd)
    idle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    equal(json.loads(read_all(idle))['stdout'], 'a\n')
    late = os.open(path, os.O_RDONLY)
    os.set_blocking(late, False)
    fails_with(errno.EAGAIN, os.read, late, 4096)
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    os.set_blocking(late, True)
    equal(json.loads(read_all(late))['stdout'], 'b\n')
    for each in (fd, idle, late):
        os.close(each)


@case
def poll_finds_every_other_file_ready(d):
    d.mkdir('t')
    for path in ('status', 'events', 'leases/t/lease.json', 'create'):
        fd = os.open(d.path(path), os.O_RDONLY)
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLIN)], path)
        os.close(fd)


@case
def grep_r_find_tar_and_cp_r_end_by_themselves_over_all_but_what_waits(d):
    d.mkdir('t')
    d.run('t', 'echo needle > /workspace/hay')
    contains(sh(f'grep -rs needle {d.lease("t", "fs", "workspace")} {d.path("slots")}').stdout, 'hay')
    equal(sh(f'find {d.mnt} -path "*/fs/usr" -prune -o -path "*/fs/etc" -prune -o -print > /dev/null').returncode, 0)
    done = sh(f'grep -s ACTIVE {d.path("*[!w]")} {d.lease("t", "[!w]*")}')
    contains(done.stdout, 'ACTIVE')
    done = sh(f'grep -rs --exclude-dir=fs --exclude=wait --exclude=events.follow ACTIVE {d.mnt}')
    contains(done.stdout, 'leases/t/state:ACTIVE')
    contains(done.stdout, '/events:')
    with Scratch() as work:
        names = ['leases/t/lease.json', 'leases/t/state', 'config', 'slots/0000/state', 'slots/0001/generation']
        equal(sh(f'tar -C {d.mnt} --exclude=fs --exclude=wait --exclude=events.follow -cf {work}/all.tar . && tar -C {work} -xf {work}/all.tar').returncode, 0, 'tar')
        equal(sh(f'mkdir {work}/copy && cp -r {d.path("slots")} {d.path("config")} {work}/copy').returncode, 0, 'cp -r')
        equal(sorted(os.listdir(f'{work}/leases/t')), [name for name in LEASE_FILES if name not in ('fs', 'wait')])
        for name in names:
            equal(os.path.getsize(f'{work}/{name}'), os.path.getsize(d.path(name)), f'size of {name}')
        for name in names[2:]:
            equal(open(f'{work}/copy/{name}', encoding='utf-8').read(), d.read(name), name)
    equal(os.listdir(d.path('leases')), ['t'])


@case
def beside_a_running_command_grep_r_ends_and_cp_r_waits_until_Ctrl_C(d):
    d.mkdir('t')
    d.run('t', 'echo needle')
    fd = os.open(d.lease('t', 'run_command'), os.O_WRONLY)
    os.write(fd, b'sleep 1000')
    os.fsync(fd)
    # grep -r opens what it finds with O_NONBLOCK: the last command that is done
    contains(sh(f'grep -rs --exclude-dir=fs --exclude=wait needle {d.lease("t")}').stdout, '/run_command:')
    with Scratch() as work:
        copy = subprocess.Popen(['cp', '-r', d.lease('t', 'state'), d.lease('t', 'run_command'), work])
        eventually(lambda: sleeps_with(d.lease('t', 'run_command'), copy.pid), 'it waits')
        copy.send_signal(signal.SIGINT)
        equal(copy.wait(PATIENCE), -signal.SIGINT)
        equal(os.path.getsize(work + '/run_command'), 0)
    equal(d.read('leases', 't', 'state'), 'ACTIVE\n')
    os.close(fd)


@case
def proc_sys_and_dev_show_as_empty_directories_in_fs(d):
    d.mkdir('t')
    for name in ('proc', 'sys', 'dev'):
        equal(os.listdir(d.lease('t', 'fs', name)), [], name)


@case
def lease_json_has_the_lease_and_its_state(d):
    lease = d.ask('create', {'trajectory_id': 't', 'timeout_sec': 100})
    shown = d.json('leases', 't', 'lease.json')
    for key, value in lease.items():
        equal(shown[key], value, key)
    equal((shown['name'], shown['state'], shown['reason']), ('t', 'ACTIVE', None))
    check(abs(shown['deadline'] - time.time() - 100) < 30, f'deadline {shown["deadline"]}')
    contains(shown['sandbox_id'], 'lease-')


@case
def events_are_json_lines_that_end_at_now(d):
    d.mkdir('t')
    d.rmdir('t')
    d.wait_ready()
    lines = [json.loads(line) for line in d.read('events').splitlines()]
    for line in lines:
        for key in ('seq', 'ts', 'kind', 'id', 'from', 'to', 'reason', 'generation'):
            check(key in line, f'no {key} in {line}')
    moves = [(e['from'], e['to']) for e in lines if e['kind'] == 'slot' and e['id'] == '0000']
    contains(' '.join(f'{a}-{b}' for a, b in moves), 'STARTING-READY')


@case
def config_shows_settings_with_their_origin_and_no_secret():
    with Daemon(slots=1, env={'DRESSAGE_E2B_API_KEY': 'very-secret'}) as d:
        text = d.read('config')
        contains(' '.join(text.split()), 'slots = 1 ; -o')
        key = [line for line in text.splitlines() if 'api_key' in line]
        equal(len(key), 1, 'lines of the key')
        contains(key[0], 'DRESSAGE_E2B_API_KEY')
        check('very-secret' not in text, 'the key is shown')


@case
def truncate_by_path_does_nothing_and_O_TRUNC_drops_only_this_handles_input(d):
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    keep = os.open(path, os.O_RDWR)
    os.write(keep, b'echo kept')
    os.truncate(path, 0)
    os.close(os.open(path, os.O_RDWR | os.O_TRUNC))
    equal(json.loads(os.read(keep, 1 << 20))['stdout'], 'kept\n')
    os.close(keep)


@case
def last_error_is_a_sentence_beside_the_file_that_failed(d):
    d.mkdir('t')
    equal(sh(f'echo x > {d.lease("t", "ttl")}').returncode != 0, True)
    contains(d.read('leases', 't', 'last_error'), 'x')
    check(d.read('last_error').count('\n') <= 1, 'more than one line')
    sh(f'echo other-nonsense > {d.path("terminate")}')
    contains(d.read('last_error'), 'other-nonsense')
    check('other-nonsense' not in d.read('leases', 't', 'last_error'), 'the lease has the root\'s error')


@case
def a_failed_request_is_answered_with_errno_then_with_json(d):
    d.mkdir('a')
    d.mkdir('b')
    fd = os.open(d.path('create'), os.O_RDWR)
    os.write(fd, b'{"trajectory_id": "c", "wait": 0}')
    fails_with(errno.EAGAIN, os.read, fd, 4096)
    error = json.loads(os.read(fd, 4096))['error']
    equal((error['code'], error['reason']), ('EAGAIN', 'pool_exhausted'))
    contains(d.read('last_error'), error['message'])
    os.close(fd)


@case
def a_shell_sees_errno_of_one_line_verbs_from_echo(d):
    d.mkdir('t')
    done = sh(f'echo nonsense > {d.path("terminate")} || echo refused; echo -5 > {d.lease("t", "ttl")} || echo refused')
    equal(done.stdout, 'refused\nrefused\n')
    equal(run(['cp', '/dev/null', d.lease('t', 'ttl')], env=test_environment()).returncode, 0)


@case
def an_unwritten_request_is_committed_by_close_too(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_WRONLY)
    os.write(fd, b'touch committed-by-close')
    os.close(fd)
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'committed-by-close')), 'the command ran')


main(slots=2)
