# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real work: programs in four languages with plain file calls, two leases at a time, fifty rounds, our own source tree."""
import json
import os
import shutil
import signal
import subprocess

from harness import (DRESSAGEFS, HERE, IS_ROOT, PATIENCE, ROOT, SANITIZED, Daemon, Scratch, Skip, case, cgroups, check, contains, equal,
                     eventually, main, mounts, need, processes_of, run, sh, test_environment)

PYTHON = '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else 'python3'


def work_with(d, *words, **more):
    """The program takes the mount and a trajectory; it creates, writes, runs, reads, terminates, and prints `done`."""
    d.wait_ready()
    done = run([*words, d.mnt, 't'], **more)
    equal((done.returncode, done.stderr, done.stdout), (0, '', 'done\n'))
    check(not os.path.exists(d.lease('t')), 'the lease is still there')


@case
def a_python_program_does_real_work_with_plain_file_calls(d):
    work_with(d, PYTHON, os.path.join(HERE, 'work.py'))


@case
def a_node_program_does_real_work_with_plain_file_calls(d):
    work_with(d, need('node'), os.path.join(HERE, 'work.js'))


@case
def a_go_program_does_real_work_with_plain_file_calls(d):
    go = need('go')
    with Scratch() as build:
        env = {'GOCACHE': build + '/cache', 'GOPATH': build + '/path', 'GO111MODULE': 'off', 'HOME': build, 'GOTOOLCHAIN': 'local'}
        done = run([go, 'build', '-o', build + '/work', os.path.join(HERE, 'work.go')], env=env, timeout=4 * PATIENCE)
        equal(done.returncode, 0, done.stderr)
        work_with(d, build + '/work')


@case
def a_c_program_does_real_work_with_plain_file_calls(d):
    cc = need('cc')
    with Scratch() as build:
        done = run([cc, '-D_GNU_SOURCE', '-Wall', '-Werror', '-o', build + '/work', os.path.join(HERE, 'work.c')])
        equal(done.returncode, 0, done.stderr)
        work_with(d, build + '/work')


@case
def a_shell_script_does_real_work_with_plain_file_calls(d):
    for shell in ('bash', 'dash', 'busybox'):
        need(shell)
        work_with(d, *([shell, 'sh'] if shell == 'busybox' else [shell]), os.path.join(HERE, 'work.sh'))


@case
def two_leases_work_at_a_time(d):
    script = ('echo "touch up; while [ ! -e other ]; do sleep 0.01; done; cat other" > $L/run_command; '
              'while [ ! -e $L/fs/workspace/up ]; do sleep 0.01; done; echo from-$N > $O/fs/workspace/other; cat $L/run_command')
    d.mkdir('t')
    d.mkdir('u')
    both = [subprocess.Popen(['bash', '-c', script], stdout=subprocess.PIPE, text=True, env={
        **test_environment(), 'L': d.lease(mine), 'O': d.lease(other), 'N': mine}) for mine, other in (('t', 'u'), ('u', 't'))]
    out = [json.loads(p.communicate(timeout=PATIENCE)[0])['stdout'] for p in both]
    equal(out, ['from-u\n', 'from-t\n'])


@case
def many_commands_of_one_lease_run_side_by_side(d):
    d.mkdir('t')
    files = [os.open(d.lease('t', 'run_command'), os.O_RDWR) for _ in range(16)]
    for i, fd in enumerate(files):  # each ends only when all sixteen have begun
        os.write(fd, f'touch s{i}; while [ $(ls s* | wc -l) -lt 16 ]; do sleep 0.02; done; echo {i}'.encode())
        os.fsync(fd)
    for i, fd in enumerate(files):
        equal(json.loads(os.read(fd, 1 << 20))['stdout'], f'{i}\n')
        os.close(fd)


def kinds_of_descriptors(pid):
    """'/dev/fuse' and 'pipe' come and go with the workers, which libfuse starts as it needs them: one and at most two each."""
    kinds = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            kinds.append(os.readlink(f'/proc/{pid}/fd/{fd}').partition(':')[0])
        except FileNotFoundError:
            pass
    return kinds


def footprint(d, cgroup):
    """What there is of the daemon: processes, descriptors, threads, mounts, cgroups, temporary files."""
    files = sum(len(names) + len(dirs) for top, dirs, names in os.walk(d.state) if '/log' not in top)
    kinds = kinds_of_descriptors(d.pid)
    return {
        'processes': len(processes_of(d.state)),
        'descriptors': len([kind for kind in kinds if kind not in ('/dev/fuse', 'pipe')]),
        'pipes': max(0, kinds.count('pipe') - 2 * len(os.listdir(f'/proc/{d.pid}/task'))),
        'mounts': len([m for m in mounts() if m.startswith(d.base)]),
        'cgroups': len(cgroups(cgroup)),
        'files': files if IS_ROOT or d.user is None else 0,
        'zombies': len([p for p in os.listdir('/proc') if p.isdigit() and is_zombie_child(p, d.pid)]),
    }


def is_zombie_child(pid, parent):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
            words = f.read().rpartition(')')[2].split()
    except OSError:
        return False
    return words[0] == 'Z' and int(words[1]) == parent


def one_round(d, i):
    name = f'round-{i}'
    d.ask('create', name) if i % 2 else d.mkdir(name)
    equal(d.run(name, 'mkdir -p a/b; echo x > a/b/c; (sleep 1000 &); echo done')['stdout'], 'done\n')
    with open(d.lease(name, 'fs', 'workspace', 'a', 'b', 'c'), encoding='utf-8') as f:
        equal(f.read(), 'x\n')
    if i % 3:
        d.rmdir(name)
    else:
        d.ask('terminate', name)
    eventually(lambda: d.json('status.json')['total_ready'] >= 1, 'a slot is READY')


@case
def after_50_create_run_terminate_rounds_everything_is_as_before():
    with Daemon(slots=2) as d:
        for i in range(4):  # threads and descriptors that come with first use
            one_round(d, i)
        d.wait_ready()
        cgroup = d.cgroup()
        before = footprint(d, cgroup)
        for i in range(50):
            one_round(d, i)
        d.wait_ready()
        try:
            eventually(lambda: footprint(d, cgroup) == before, 'everything is as before')
        except AssertionError:
            equal(footprint(d, cgroup), before)
        check(len(os.listdir(f'/proc/{d.pid}/task')) < 40, 'many threads')


@case
def an_evening_of_abandoned_clients_leaves_slots_free():
    with Daemon(slots=2) as d:
        for i in range(10):
            client = subprocess.Popen(['bash', '-c', 'mkdir $L; echo "touch up; sleep 1000" > $L/run_command; cat $L/run_command'],
                                      env={**test_environment(), 'L': d.lease(f't{i}')}, stdout=subprocess.DEVNULL)
            eventually(lambda i=i: os.path.exists(d.lease(f't{i}', 'fs', 'workspace', 'up')), 'the command runs')
            client.send_signal(signal.SIGKILL)
            client.wait(PATIENCE)
            d.rmdir(f't{i}')
            d.wait_ready()


def our_own_source_tree():
    """Copied in by cp -a, configured, built and unit-tested by commands, the binary copied out and run."""
    if SANITIZED:
        raise Skip('built once without sanitizers is enough')
    if not os.path.isdir(os.path.join(ROOT, 'subprojects')):
        raise Skip('the source tree is not beside the tests')
    with Daemon(slots=1, options=['slot.memory_max=4G', 'slot.memory_high=4G']) as d, Scratch() as work:
        d.mkdir('t')
        workspace = d.lease('t', 'fs', 'workspace')
        done = sh(f'mkdir {work}/tree && cd {ROOT} && ls -A | grep -v "^build\\|^\\.git$" | xargs cp -a --no-preserve=ownership -t {work}/tree && '
                  f'cp -a {work}/tree {workspace}/dressagefs && diff -r {work}/tree {workspace}/dressagefs',
                  timeout=4 * PATIENCE)
        equal((done.returncode, done.stdout, done.stderr), (0, '', ''))
        for command in ('meson setup build --buildtype=plain', 'ninja -C build', 'meson test -C build --suite unit --no-rebuild'):
            result = d.run('t', command, cwd='dressagefs', timeout=480)
            equal(result['returncode'], 0, result['stdout'][-3000:] + result['stderr'][-3000:])
        contains(result['stdout'], 'Fail:               0')
        shutil.copy(f'{workspace}/dressagefs/build/tools/dressagefs', work)
        done = run([work + '/dressagefs', '--version'])
        equal((done.returncode, done.stderr), (0, ''))
        equal(done.stdout, run([DRESSAGEFS, '--version']).stdout)


our_own_source_tree.__name__ = 'our_own_source_tree_is_copied_in_built_tested_and_the_binary_copied_out_runs'
our_own_source_tree.patience = 900
case(our_own_source_tree)

main(slots=2)
