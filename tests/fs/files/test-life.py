# SPDX-License-Identifier: LGPL-2.1-or-later
"""A lease's files begin and end with it; what the daemon keeps of them is bounded."""
import errno
import os
import subprocess
import threading
import time

from mount import PATIENCE, SANITIZED, Mount, case, check, equal, eventually, fails_with, main, read, sh, write

TREE = 600 if SANITIZED else 4000


@case
def after_the_end_everything_is_ESTALE_and_the_next_lease_is_another(m):
    write(m.at('f'), 'old')
    os.mkdir(m.at('d'))
    fd, dir_fd = os.open(m.at('f'), os.O_RDWR), os.open(m.at('d'), os.O_RDONLY)
    before = os.stat(m.at('f')).st_ino
    m.say('end')
    fails_with(errno.ENOENT, os.stat, m.fs)
    fails_with(errno.ESTALE, os.fstat, dir_fd)
    fails_with(errno.ESTALE, os.ftruncate, fd, 0)
    fails_with(errno.ESTALE, os.fchmod, fd, 0o600)
    fails_with(errno.ESTALE, lambda: os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))
    fails_with(errno.ESTALE, os.pread, fd, 1, 0)
    fails_with(errno.ESTALE, os.pwrite, fd, b'x', 0)
    m.say('again')
    equal(read(m.at('f')), b'old')
    equal(os.stat(m.at('f')).st_ino, before)
    fails_with(errno.ESTALE, os.fstat, dir_fd)
    os.close(fd)
    os.close(dir_fd)
    equal(os.listdir(m.back), os.listdir(m.fs))


@case
def when_pid_1_has_died_everything_is_ENOTCONN(m):
    write(m.at('f'), 'x')
    fd = os.open(m.at('f'), os.O_RDWR)
    m.say('kill')
    fails_with(errno.ENOTCONN, os.stat, m.fs)
    fails_with(errno.ENOTCONN, os.stat, m.at('f'))
    fails_with(errno.ENOTCONN, os.fchmod, fd, 0o600)
    fails_with(errno.ENOTCONN, os.listdir, m.fs)
    equal(sorted(os.listdir(m.other)), [])
    os.close(fd)


@case
def the_end_lets_go_of_what_clients_hold_open(m):
    write(m.at('f'), 'x')
    fd = os.open(m.at('f'), os.O_RDWR)

    def holds():
        found = []
        for number in os.listdir(f'/proc/{m.process.pid}/fd'):
            try:
                found.append(os.readlink(f'/proc/{m.process.pid}/fd/{number}'))
            except FileNotFoundError:  # closed meanwhile
                pass
        return [path for path in found if path == m.back or path.startswith(m.back + '/')]
    check(holds() != [], 'nothing was held')
    m.say('end')
    eventually(lambda: not holds(), 'let go of')
    os.close(fd)


@case
def a_lease_that_ends_under_load_does_no_harm(m):
    stop, wrong = threading.Event(), []

    def work(number):
        while not stop.is_set():
            try:
                path = m.at(f'd{number}')
                os.makedirs(path, exist_ok=True)
                write(f'{path}/f', 'x' * 1000)
                read(f'{path}/f')
                os.rename(f'{path}/f', f'{path}/g')
                os.listdir(path)
                os.unlink(f'{path}/g')
            except OSError as e:
                # EXDEV, EACCES: the mount's own root, where nothing can be made
                if e.errno not in (errno.ESTALE, errno.ENOENT, errno.EEXIST, errno.ENOTCONN, errno.EXDEV, errno.EACCES):
                    wrong.append(e)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        time.sleep(0.02)
        m.say('end')
        m.say('again')
    stop.set()
    for thread in threads:
        thread.join()
    equal(wrong, [])


def plant_tree(m, count):
    for i in range(count // 20):
        os.mkdir(m.behind(f'd{i}'))
        for j in range(19):
            write(m.behind(f'd{i}/f{j}'), '')
    sh(f'chown -R {m.uid}:{m.gid} {m.back}')


@case
def a_walk_needs_few_descriptors(m):
    plant_tree(m, TREE)
    done = sh(f'find {m.fs} -type f -size -1 | xargs cat | wc; find {m.fs} | wc -l')
    equal(done.stdout.split()[-1], str(TREE + 1))
    equal(done.stderr, '')


a_walk_needs_few_descriptors.options = {'nofile': 64 if not SANITIZED else 128}


@case
def the_kernel_is_asked_to_forget_before_there_are_too_many(m):
    plant_tree(m, TREE)
    equal(sh(f'find {m.fs} | xargs stat > /dev/null').returncode, 0)
    eventually(lambda: m.nodes() <= 500, f'few nodes ({m.nodes()})')
    equal(sh(f'find {m.fs} | wc -l').stdout.strip(), str(TREE + 1))


the_kernel_is_asked_to_forget_before_there_are_too_many.options = {'options': ['--nodes', '200']}


@case
def an_older_kernel_is_asked_in_its_own_way(m):
    plant_tree(m, TREE)
    equal(sh(f'find {m.fs} | xargs stat > /dev/null').returncode, 0)
    eventually(lambda: m.nodes() <= 500, f'few nodes ({m.nodes()})')
    equal(sh(f'find {m.fs} | wc -l').stdout.strip(), str(TREE + 1))


an_older_kernel_is_asked_in_its_own_way.options = {'options': ['--nodes', '200', '--no-prune']}


@case
def work_goes_on_while_the_kernel_forgets(m):
    script = '''
        set -e
        for i in 1 2 3; do
            mkdir t$i; cd t$i; for j in $(seq 60); do mkdir d$j; echo $j > d$j/f; done
            for j in $(seq 60); do test "$(cat d$j/f)" = $j; mv d$j e$j; done; cd ..
        done
        cp -a t1 t4; diff -r t1 t4; rm -r t1 t2 t3 t4
    '''
    done = subprocess.run(['bash', '-c', script], cwd=m.fs, capture_output=True, text=True, check=False)
    equal((done.returncode, done.stderr), (0, ''))
    equal(os.listdir(m.back), [])


work_goes_on_while_the_kernel_forgets.options = {'options': ['--nodes', '20']}


@case
def many_mounts_leave_nothing(m):
    for _ in range(5):
        with Mount(m.way) as inner:
            write(inner.at('f'), 'x')


@case
def what_is_open_when_the_daemon_ends_is_let_go_of(m):
    inner = Mount(m.way).start()
    try:
        fd = os.open(inner.at('f'), os.O_CREAT | os.O_RDWR)
        inner.process.stdin.close()
        status = inner.process.wait(PATIENCE)
        fails_with(errno.ENOTCONN, os.close, fd)
        equal(status, 0, 'exit status')  # a sanitizer tells of what it forgot
    finally:
        inner.destroy()


main()
