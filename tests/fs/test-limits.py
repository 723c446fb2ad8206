# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a slot may use at most: bombs of memory, processes, files and time are contained, named, and nobody else's business."""
import contextlib
import ctypes
import json
import os
import signal
import threading

from harness import IS_ROOT, Daemon, Skip, case, cgroup_names_of, cgroups, check, contains, equal, eventually, main

OPTIONS = ('slot.memory_max=48M', 'slot.memory_high=40M', 'slot.pids_max=60', 'slot.file_size=1M')
ISOLATION = ('host_uid', 'host_groups', 'network_namespace', 'landlock')
# 100 MiB in one process, and an end by itself should nobody end it
MEMORY_BOMB = 'head -c 120000000 /dev/zero | tail -c 100000000 | wc -c'
LEADER_BOMB = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=100M', 'count=1']
MANY = 'i=0; while [ $i -lt 200 ]; do sleep 50 >/dev/null 2>&1 & i=$((i + 1)); done'


def limits(d, slot=0):
    """name -> (value, mechanism or why)"""
    lines = d.read('slots', f'{slot:04d}', 'limits').splitlines()
    return {name: (value.rstrip(':'), rest) for name, value, rest in (line.split(' ', 2) for line in lines)}


def need(d, name, *mechanisms):
    value, rest = limits(d)[name]
    if value == 'unlimited' or (mechanisms and rest not in mechanisms):
        raise Skip(f'{name}: {value} {rest}')


def end(result):
    return result['returncode'], result['metadata']['reason']


def memory_cgroup(d, name):
    """The directory that has the memory limit of a slot's commands."""
    mine = d.cgroup()
    for path in cgroups(mine):
        if path.endswith(f'/{mine}/{name}'):
            for part in (path + '/work', path):
                if any(os.path.exists(f'{part}/{file}') for file in ('memory.limit_in_bytes', 'memory.max')):
                    return part
    raise Skip('the limit on memory is nowhere to be seen')


def leave_memory(cgroup, size):
    """Lowers the limit to what is in use and a little more."""
    v1 = os.path.exists(cgroup + '/memory.limit_in_bytes')
    with open(cgroup + ('/memory.usage_in_bytes' if v1 else '/memory.current'), encoding='utf-8') as f:
        usage = int(f.read())
    with open(cgroup + ('/memory.limit_in_bytes' if v1 else '/memory.max'), 'w', encoding='utf-8') as f:
        f.write(str(usage + size))


@contextlib.contextmanager
def asking(d, lease, command):
    """A command that is on its way; gives a function that waits for its result."""
    fd = os.open(d.lease(lease, 'run_command'), os.O_RDWR)
    try:
        os.write(fd, json.dumps({'command': command}).encode())
        os.fsync(fd)
        yield lambda: json.loads(os.read(fd, 1 << 20))
    finally:
        os.close(fd)


@contextlib.contextmanager
def a_neighbour_at_work(d, name='neighbour'):
    """A command in another slot that runs meanwhile, must notice nothing, and succeeds."""
    d.mkdir(name)
    work = d.lease(name, 'fs', 'workspace')

    def count():
        with contextlib.suppress(FileNotFoundError), open(work + '/now', encoding='utf-8') as f:
            return int(f.read().strip() or 0)
        return 0
    with asking(d, name, 'n=0; while [ ! -e stop ]; do n=$((n + 1)); echo $n | cat > now || exit 9; sleep 0.01; done') as result:
        eventually(lambda: count() > 0, 'the neighbour runs')
        yield
        before = count()
        eventually(lambda: count() > before, 'the neighbour still runs')
        with open(work + '/stop', 'w', encoding='utf-8'):
            pass
        result = result()
        equal((end(result), result['stderr']), ((0, None), ''), 'the neighbour')


@case
def limits_has_each_limit_with_what_enforces_it_or_why_there_is_none(d):
    shown = limits(d)
    equal(list(shown), ['memory_max', 'memory_high', 'pids_max', 'cpu_weight', 'nofile', 'file_size', 'timeout_max', 'size', 'inodes', 'connections', *ISOLATION])
    for name, (value, rest) in shown.items():
        check(rest.strip(), f'{name} {value}: neither a mechanism nor a reason')
        if value != 'unlimited' and name not in ISOLATION:
            check(rest in ('cgroup1', 'cgroup2', 'rlimit', 'tmpfs', 'kill', 'namespace', 'daemon'), f'{name} {value} {rest}')
    equal(shown['file_size'], ('1M', 'rlimit'))
    equal(shown['pids_max'][0], '60')
    equal(shown['timeout_max'], ('unlimited', 'exec.timeout_max is 0'))
    if shown['memory_max'][0] != 'unlimited':
        equal(shown['memory_max'][0], '48M')
    if shown['memory_max'][1] == 'cgroup1':
        contains(shown['memory_high'][1], 'v1')


@case
def a_memory_bomb_is_ended_and_named_and_its_slot_goes_on(d):
    need(d, 'memory_max')
    with a_neighbour_at_work(d):
        d.mkdir('t')
        slot = f'{d.slot_of("t"):04d}'
        pid = d.read('slots', slot, 'pid')
        equal(d.run('t', MEMORY_BOMB, timeout=20)['metadata']['reason'], 'oom')
        equal(end(d.run('t', LEADER_BOMB, timeout=20)), (-9, 'oom'))
        equal(end(d.run('t', 'true')), (0, None))
        equal(d.read('slots', slot, 'pid'), pid)
    events = [json.loads(line) for line in d.read('events').splitlines()]
    equal([e['to'] for e in events if e['kind'] == 'exec' and e['reason'] == 'oom'][-2:], ['KILLED', 'KILLED'])


@case
def many_small_processes_that_fill_the_memory_leave_init_alone(d):
    need(d, 'memory_max')
    need(d, 'pids_max')
    d.mkdir('t')
    slot = f'{d.slot_of("t"):04d}'
    pid = d.read('slots', slot, 'pid')
    # each holds 8 MB until one of them was ended
    one = '{ dd if=/dev/zero bs=8M count=1 2>/dev/null; echo $? >> ends; } | { until grep -q 137 ends; do sleep 0.2; done; wc -c; }'
    result = d.run('t', f'touch ends; for i in 1 2 3 4 5 6 7 8; do {one} & done; wait', timeout=30)
    equal(result['metadata']['reason'], 'oom')
    equal((d.read('slots', slot, 'pid'), d.read('slots', slot, 'state')), (pid, 'LEASED\n'))
    equal(end(d.run('t', 'true')), (0, None))


@case
def a_command_for_which_no_memory_is_left_dies_alone():
    with Daemon(slots=1, options=('slot.memory_max=48M', 'slot.memory_high=0')) as d:
        need(d, 'memory_max')
        d.mkdir('t')
        pid = d.read('slots', '0000', 'pid')
        # what no process has, so that whoever comes next is the only one to be chosen
        equal(d.run('t', 'head -c 48500000 /dev/zero > /dev/shm/f')['returncode'], 0)
        cgroup = memory_cgroup(d, 'slot-0000-g1')
        ends = set()
        for spare in range(64, -4, -4):
            leave_memory(cgroup, spare * 1024)
            ends.add(end(d.run('t', ['true'])))
        check((-9, 'oom') in ends and ends <= {(0, None), (-9, 'oom')}, ends)
        equal((d.read('slots', '0000', 'pid'), d.read('slots', '0000', 'state')), (pid, 'LEASED\n'))


@case
def a_limit_that_no_command_can_keep_costs_commands_and_not_their_slot():
    with Daemon(slots=1, options=('slot.memory_max=1K', 'slot.memory_high=0')) as d:
        need(d, 'memory_max')
        d.mkdir('t')
        pid = d.read('slots', '0000', 'pid')
        for _ in range(5):
            equal(end(d.run('t', ['true'])), (-9, 'oom'))
        equal((d.read('slots', '0000', 'pid'), d.read('slots', '0000', 'state')), (pid, 'LEASED\n'))


@case
def of_two_commands_at_once_only_the_one_that_failed_is_named(d):
    need(d, 'memory_max')
    d.mkdir('t')
    work = d.lease('t', 'fs', 'workspace')
    with asking(d, 't', 'touch started; while [ ! -e stop ]; do sleep 0.01; done') as result:
        eventually(lambda: os.path.exists(work + '/started'), 'the first command runs')
        equal(end(d.run('t', LEADER_BOMB, timeout=20)), (-9, 'oom'))
        with open(work + '/stop', 'w', encoding='utf-8'):
            pass
        equal(end(result()), (0, None))


@case
def a_fork_bomb_meets_its_limit_and_the_neighbour_does_not(d):
    need(d, 'pids_max')
    with a_neighbour_at_work(d):
        d.mkdir('t')
        result = d.run('t', MANY, timeout=20)
        check(result['returncode'] != 0, f'200 processes: {result}')
        if limits(d)['pids_max'][1] != 'rlimit':  # which counts nothing
            equal(result['metadata']['reason'], 'pids')
        d.rmdir('t')
        d.wait_ready(1)
        d.mkdir('t')
        d.run('t', 'f() { f | f & }; f', timeout=20)
        d.rmdir('t')
        d.wait_ready(1)
        d.mkdir('t')
        equal(end(d.run('t', 'true')), (0, None))


@case
def whoever_has_no_process_left_among_many_says_pids(d):
    need(d, 'pids_max')
    if limits(d)['pids_max'][1] == 'rlimit':
        raise Skip('an rlimit counts nothing')
    d.mkdir('t')
    most = int(limits(d)['pids_max'][0])
    check(int(d.run('t', 'grep processes /proc/self/limits')['stdout'].split()[2]) > most, 'the limit that counts nothing is met after the one that does')
    ends = []

    def ask():
        for _ in range(4):
            ends.append(end(d.run('t', 'head -c 20000 /dev/zero | tr "\\0" x; echo done', timeout=20)))
    threads = [threading.Thread(target=ask) for _ in range(2 * most)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(len(ends), 8 * most)
    unnamed = {e for e in ends if e[0] != 0 and e[1] != 'pids'}
    equal(unnamed, set())


@case
def a_command_that_cannot_begin_for_want_of_processes_says_pids(d):
    need(d, 'pids_max')
    d.mkdir('t')
    d.run('t', MANY, timeout=20)
    with asking(d, 't', ['sleep', '50']):  # has the place of the shell that gave up
        result = eventually(lambda: (r := d.run('t', ['true']))['returncode'] and r, 'there is no place left')
        equal(end(result), (126, 'pids'))
        contains(result['metadata']['start_error'], 'too many processes')


@case
def a_file_beyond_its_size_ends_with_SIGXFSZ(d):
    with a_neighbour_at_work(d):
        d.mkdir('t')
        result = d.run('t', ['dd', 'if=/dev/zero', 'of=big', 'bs=64k', 'count=32'])
        equal((result['returncode'], result['metadata']['signal']), (-signal.SIGXFSZ, 'SIGXFSZ'))
        equal(os.stat(d.lease('t', 'fs', 'workspace', 'big')).st_size, 1 << 20)
        equal(end(d.run('t', 'true')), (0, None))


@case
def a_command_without_a_timeout_ends_at_timeout_max_and_says_so():
    with Daemon(slots=1, options=('exec.timeout_max=2s',)) as d:
        equal(limits(d)['timeout_max'], ('2s', 'kill'))
        d.mkdir('t')
        result = d.run('t', 'echo before; while :; do :; done')
        equal((end(result), result['timed_out'], result['stdout']), ((-9, 'timeout'), True, 'before\n'))
        equal(end(d.run('t', 'true')), (0, None))


@case
def a_limit_of_0_is_none():
    with Daemon(slots=1, options=('slot.memory_max=0', 'slot.memory_high=0', 'slot.pids_max=0', 'slot.file_size=0')) as d:
        shown = limits(d)
        for name in ('memory_max', 'memory_high', 'pids_max', 'file_size'):
            equal(shown[name][0], 'unlimited', name)
        d.mkdir('t')
        equal(d.run('t', '(echo forked) & wait; head -c 2000000 /dev/zero > f')['stdout'], 'forked\n')


@case
def the_next_start_removes_the_limits_of_a_killed_daemon():
    with Daemon(slots=2, options=OPTIONS) as d:
        if not {'cgroup1', 'cgroup2'} & {rest for _, rest in limits(d).values()}:
            raise Skip('no limit here is a cgroup')
        d.mkdir('t')
        name = d.cgroup() or cgroup_names_of([int(d.read('slots', '0000', 'pid'))]).pop()
        d.run('t', '(setsid sleep 1000 >/dev/null 2>&1 &)')
        left = {path for path in cgroups(name) if 'slot-' in path}
        d.kill()
        os.system(f'fusermount3 -uz {d.mnt}')
        d.start()
        check(left, 'no cgroups were there')
        equal({path for path in left if os.path.exists(path) and path.rsplit('-g', 1)[-1] == '1'}, set())
        d.stop()
        equal(cgroups(name), set())


@case
def a_plain_users_daemon_says_what_it_cannot_limit(d):
    if IS_ROOT:
        raise Skip('root can')
    shown = limits(d)
    if shown['memory_max'][0] != 'unlimited':
        raise Skip('memory is delegated to this user')
    contains(shown['memory_max'][1], 'cgroup')
    contains(d.whole_log(), 'memory of slots is not')
    equal((shown['pids_max'], shown['file_size']), (('60', 'rlimit'), ('1M', 'rlimit')))


@case
def limits_says_what_of_the_isolation_depends_on_daemon_and_kernel(d):
    shown = limits(d)
    pid = int(d.read('slots', '0000', 'pid'))
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        status = dict(line.split(':\t', 1) for line in f.read().splitlines() if ':\t' in line)
    if IS_ROOT:
        equal(shown['host_uid'], (status['Uid'].split()[0], 'setresuid'))
        equal(shown['host_groups'], ('none', 'setgroups'))
        equal(status['Groups'].strip(), '')
    else:
        equal(shown['host_uid'][0], 'absent')
        contains(shown['host_uid'][1], str(os.geteuid()))
    equal(shown['network_namespace'], ('own', 'namespace'))
    abi = ctypes.CDLL(None).syscall(444, None, 0, 1)  # landlock_create_ruleset
    if abi >= 6:
        equal(shown['landlock'], (str(abi), 'signals and abstract sockets'))
    else:
        equal(shown['landlock'][0], 'absent')


@case
def limits_says_that_a_slot_on_the_hosts_network_has_none_of_its_own(_):
    with Daemon(slots=1, options=('slot.network=host',)) as d:
        equal(limits(d)['network_namespace'], ('absent', 'slot.network is host'))


main(slots=2, options=OPTIONS)
