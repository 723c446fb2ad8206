# SPDX-License-Identifier: LGPL-2.1-or-later
"""Conversations that no idiom shows: who waits, who must not, and what the page cache would spoil."""
import errno
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import threading

from harness import PATIENCE, Scratch, case, check, contains, equal, eventually, fails_with, main, need, read_all, sh, sleeps_with

PYTHON = sys.executable


def result(text):
    return json.loads(text)['stdout']


def program(code, *arguments):
    return subprocess.Popen([PYTHON, '-c', code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@case
def busybox_cat_reads_one_reply_after_another_on_one_descriptor(d):
    busybox = need('busybox')
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    long = ': ' + 'x' * 1000
    done = sh(f'exec 3<>{path}; for n in 1 2 3; do echo "echo $n; {long}" >&3; {busybox} cat <&3; done')
    equal([result(line) for line in done.stdout.splitlines()], ['1\n', '2\n', '3\n'])


@case
def sendfile_of_a_conversation_is_EINVAL_and_never_an_old_reply(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR)
    with Scratch() as scratch, open(f'{scratch}/copy', 'wb') as copy:
        for word in ('one', 'two'):
            os.write(fd, f'echo {word}\n'.encode())
            fails_with(errno.EINVAL, os.sendfile, copy.fileno(), fd, None, 1 << 20)
            equal(result(read_all(fd)), word + '\n')
    os.close(fd)


@case
def sendfile_and_a_private_map_of_a_snapshot_give_its_text(d):
    d.mkdir('t')
    with Scratch() as scratch:
        for path in ('config', 'leases/t/lease.json', 'leases/t/state'):
            fd = os.open(d.path(path), os.O_RDONLY)
            with open(f'{scratch}/copy', 'wb') as copy:
                while os.sendfile(copy.fileno(), fd, None, 1 << 20):
                    pass
            with open(f'{scratch}/copy', 'rb') as copy:
                equal(copy.read(), os.pread(fd, 1 << 20, 0), path)
            with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as view:
                equal(view[:], os.pread(fd, 1 << 20, 0), path)
            os.close(fd)


@case
def a_process_that_exits_with_a_create_pending_is_not_held(d):
    d.mkdir('a')
    d.mkdir('b')
    client = program('import os, sys; fd = os.open(sys.argv[1], os.O_WRONLY); os.write(fd, b"c\\n"); os._exit(0)', d.path('create'))
    equal(client.wait(PATIENCE), 0)
    eventually(lambda: d.json('status.json')['queue'] == 1, 'the create waits in line all the same')
    d.rmdir('a')
    eventually(lambda: 'c' in os.listdir(d.path('leases')), 'the lease came')


@case
def a_close_of_create_returns_when_the_lease_is_there(d):
    d.mkdir('a')
    d.mkdir('b')
    fd = os.open(d.path('create'), os.O_WRONLY)
    os.write(fd, b't\n')
    closer = threading.Thread(target=os.close, args=(fd,))
    closer.start()
    eventually(lambda: d.json('status.json')['queue'] == 1, 'the create waits in line')
    check(closer.is_alive(), 'close returned before there was a lease')
    d.rmdir('a')
    closer.join(PATIENCE)
    equal(sorted(os.listdir(d.path('leases'))), ['b', 't'])


@case
def a_close_of_run_command_hands_it_on_before_what_comes_after(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_WRONLY)
    os.write(fd, b'while [ ! -e go ]; do sleep 0.01; done; echo first')
    os.close(fd)
    equal(d.run('t', 'touch go')['metadata']['exec_id'], 2)


@case
def a_close_of_create_that_fails_says_so(d):
    d.mkdir('a')
    d.mkdir('b')
    fd = os.open(d.path('create'), os.O_WRONLY)
    os.write(fd, b'{"trajectory_id":"c","wait":0}')
    fails_with(errno.EAGAIN, os.close, fd)
    contains(d.read('last_error'), 'create')


@case
def fsync_carries_out_and_the_reply_is_read_afterwards(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR)
    os.write(fd, b'echo synced')
    os.fsync(fd)
    equal(result(read_all(fd)), 'synced\n')
    os.write(fd, b'{"command": 5}')
    fails_with(errno.EINVAL, os.fsync, fd)
    equal(json.loads(read_all(fd))['error']['code'], 'EINVAL')
    os.close(fd)


@case
def a_forked_childs_close_does_not_carry_out_half_a_request(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR)
    os.write(fd, b'echo a\n')
    pid = os.fork()
    if pid == 0:
        os.close(fd)
        os._exit(0)
    equal(os.waitpid(pid, 0)[1], 0)
    os.write(fd, b'echo b\n')
    equal(result(read_all(fd)), 'a\nb\n')
    os.close(fd)


@case
def a_close_by_another_thread_of_the_opener_carries_it_out(d):
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    fd = os.open(path, os.O_WRONLY)
    for step in (lambda: os.write(fd, b'echo threads'), lambda: os.close(fd)):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    with open(path, encoding='utf-8') as f:
        equal(result(f.read()), 'threads\n')


@case
def a_write_while_a_read_waits_is_EBUSY_and_spoils_nothing(d):
    d.mkdir('t')
    go = d.lease('t', 'fs', 'workspace', 'go')
    busy = False
    while not busy:  # two workers of the daemon may take them in the other order: then the write was a new request
        fd = d.begin('t', 'while [ ! -e go ]; do sleep 0.01; done; echo first')
        replies = []
        reader = threading.Thread(target=lambda fd=fd, replies=replies: replies.append(os.pread(fd, 1 << 20, 0)))
        reader.start()
        eventually(lambda: sleeps_with(d.lease('t', 'run_command'), os.getpid()), 'the reader waits')
        busy = is_busy(fd)
        with open(go, 'w', encoding='utf-8'):
            pass
        reader.join(PATIENCE)
        os.close(fd)
        os.unlink(go)
    equal(result(replies[0]), 'first\n')


def is_busy(fd):
    try:
        os.pwrite(fd, b' ', 0)
    except OSError as e:
        return e.errno == errno.EBUSY
    return False


@case
def edge_triggered_epoll_is_woken_once_the_reply_is_there(d):
    d.mkdir('t')
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR | os.O_NONBLOCK)
    poller = select.epoll()
    poller.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    equal(poller.poll(PATIENCE), [(fd, select.EPOLLIN | select.EPOLLOUT)])
    os.write(fd, b'while [ ! -e go ]; do sleep 0.01; done; echo edge')
    fails_with(errno.EAGAIN, os.read, fd, 4096)
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    equal(poller.poll(PATIENCE), [(fd, select.EPOLLIN | select.EPOLLOUT)])
    equal(result(os.read(fd, 1 << 20)), 'edge\n')
    poller.close()
    os.close(fd)


@case
def a_reader_that_was_interrupted_gets_its_own_command_and_no_other(d):
    d.mkdir('t')
    client = program('''
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.write(fd, b"touch started; sleep 1000")
os.fsync(fd)
print("asked", flush=True)
try:
    os.read(fd, 1 << 20)
except KeyboardInterrupt:
    pass
sys.stdin.readline()
print(os.read(fd, 1 << 20).decode())
''', d.lease('t', 'run_command'))
    equal(client.stdout.readline(), 'asked\n')
    eventually(lambda: sleeps_with(d.lease('t', 'run_command'), client.pid), 'the client waits')
    client.send_signal(signal.SIGINT)
    eventually(lambda: json.loads(d.read('leases', 't', 'run_command'))['metadata']['reason'] == 'cancelled', 'it was cancelled')
    equal(d.run('t', 'echo another')['stdout'], 'another\n')
    out = client.communicate('\n', timeout=PATIENCE)[0]
    equal(json.loads(out)['metadata']['reason'], 'cancelled')


@case
def many_readers_wait_for_one_command_and_all_get_it(d):
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    sh(f'echo "while [ ! -e go ]; do sleep 0.01; done; echo shared" > {path}')
    readers = [subprocess.Popen(['cat', path], stdout=subprocess.PIPE, text=True) for _ in range(40)]
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    for reader in readers:
        equal(result(reader.communicate(timeout=PATIENCE)[0]), 'shared\n')


@case
def st_size_is_large_only_while_a_reply_is_awaited_or_unread(d):
    d.mkdir('t')
    path = d.lease('t', 'run_command')
    large = 256 << 20
    fd = os.open(path, os.O_RDWR)
    check(os.fstat(fd).st_size < large, 'nothing was asked yet')
    os.write(fd, b'echo sized')
    equal(os.fstat(fd).st_size, large)
    first = os.read(fd, 1)
    equal(os.fstat(fd).st_size, large)
    rest = read_all(fd)
    equal(os.fstat(fd).st_size, len(first + rest))
    os.close(fd)


@case
def a_whole_lease_json_written_to_terminate_ends_that_lease(d):
    d.mkdir('t')
    reply = d.ask('terminate', d.read('leases', 't', 'lease.json'))
    equal((reply['released'], reply['trajectory_id']), (True, 't'))
    equal(os.listdir(d.path('leases')), [])


main(slots=2)
