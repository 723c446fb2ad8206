# SPDX-License-Identifier: LGPL-2.1-or-later
"""leases/T/wait: a reader waits for the end of a lease; signals, O_NONBLOCK and poll while it waits."""
import errno
import os
import select
import signal
import subprocess
import threading

from harness import PATIENCE, Daemon, case, close_late, equal, eventually, fails_with, main, need, sh, sleeps_with, test_environment


def start_reader(d, name, words=('cat',)):
    """cat of the lease's wait in a process of its own, once it waits."""
    path = d.lease(name, 'wait')
    process = subprocess.Popen([*words, path], env=test_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    eventually(lambda: sleeps_with(path, process.pid), f'{words[0]} waits')
    return process


def said(process):
    out, err = process.communicate(timeout=PATIENCE)
    equal((process.returncode, err), (0, ''))
    return out


@case
def wait_gives_state_and_reason_when_the_lease_is_terminated(d):
    d.mkdir('t1')
    reader = start_reader(d, 't1')
    equal(reader.poll(), None)
    d.rmdir('t1')
    equal(said(reader), 'RELEASING terminated\n')


@case
def wait_gives_the_expiry_and_the_loss_of_a_lease_too(d):
    d.mkdir('t1')
    d.mkdir('t2')
    expires, lost = start_reader(d, 't1'), start_reader(d, 't2')
    sh(f'echo 0.1 > {d.lease("t1", "ttl")}')
    equal(said(expires), 'EXPIRED lease_ttl_expired\n')
    equal(lost.poll(), None)
    os.kill(int(d.read('slots', f'{d.slot_of("t2"):04d}', 'pid')), signal.SIGKILL)
    equal(said(lost), 'LOST slot_lost\n')


@case
def of_a_lease_that_is_over_wait_is_a_file_like_any_other(d):
    d.mkdir('t1')
    sh(f'echo 0.1 > {d.lease("t1", "ttl")}; cat {d.lease("t1", "wait")}')
    text = 'EXPIRED lease_ttl_expired\n'
    equal(os.stat(d.lease('t1', 'wait')).st_size, len(text))
    equal(d.read('leases', 't1', 'wait'), text)
    fd = os.open(d.lease('t1', 'wait'), os.O_RDONLY | os.O_NONBLOCK)
    equal(os.pread(fd, 100, 8), text[8:].encode())
    equal(os.read(fd, 7), b'EXPIRED')
    equal(os.read(fd, 100), text[7:].encode())
    equal(os.read(fd, 100), b'')
    os.close(fd)
    equal(sh(f'cd {d.lease("t1")}; head -c 7 wait; busybox cat wait; cp wait {d.base}/copy; cat {d.base}/copy').stdout,
          'EXPIRED' + text + text)


@case
def many_readers_wait_for_one_lease_and_all_are_told(d):
    d.mkdir('t1')
    readers = [start_reader(d, 't1') for _ in range(20)]
    equal(d.read('leases', 't1', 'state'), 'ACTIVE\n')  # others are not held up
    d.rmdir('t1')
    equal({said(reader) for reader in readers}, {'RELEASING terminated\n'})


@case
def a_stop_of_the_daemon_tells_those_who_wait_and_lets_holders_go():
    with Daemon(slots=1) as d:
        d.mkdir('t1')
        holder = os.open(d.lease('t1', 'hold'), os.O_WRONLY)
        reader = start_reader(d, 't1')
        d.process.send_signal(signal.SIGTERM)
        equal(said(reader), 'RELEASING stopping\n')
        d.wait_end()
        close_late(holder)


@case
def Ctrl_C_ends_a_wait_and_leaves_the_lease_alone(d):
    d.mkdir('t1')
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        reader = start_reader(d, 't1')
        reader.send_signal(number)
        reader.communicate(timeout=PATIENCE)
        equal(reader.returncode, -number)
    equal(d.read('leases', 't1', 'state'), 'ACTIVE\n')
    equal(d.run('t1', 'echo hi')['stdout'], 'hi\n')


@case
def a_wait_survives_a_signal_that_means_no_end(d):
    d.mkdir('t1')
    reader = start_reader(d, 't1')
    for number in (signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT):
        reader.send_signal(number)
    equal(reader.poll(), None)
    d.rmdir('t1')
    equal(said(reader), 'RELEASING terminated\n')


@case
def a_reader_with_O_NONBLOCK_gets_EAGAIN_while_the_lease_lives(d):
    d.mkdir('t1')
    fd = os.open(d.lease('t1', 'wait'), os.O_RDONLY | os.O_NONBLOCK)
    fails_with(errno.EAGAIN, os.read, fd, 100)
    d.rmdir('t1')
    equal(os.read(fd, 100), b'RELEASING terminated\n')
    os.close(fd)


@case
def poll_and_edge_triggered_epoll_are_woken_when_the_lease_is_over(d):
    d.mkdir('t1')
    polled, edge = (os.open(d.lease('t1', 'wait'), os.O_RDONLY | os.O_NONBLOCK) for _ in range(2))
    poller, epoller = select.poll(), select.epoll()
    poller.register(polled, select.POLLIN)
    epoller.register(edge, select.EPOLLIN | select.EPOLLET)
    equal((poller.poll(0), epoller.poll(0)), ([], []))
    ender = threading.Thread(target=d.rmdir, args=['t1'])
    ender.start()
    equal(poller.poll(PATIENCE * 1000), [(polled, select.POLLIN)])
    equal(epoller.poll(PATIENCE), [(edge, select.EPOLLIN)])
    ender.join()
    epoller.close()
    for fd in (polled, edge):
        equal(os.read(fd, 100), b'RELEASING terminated\n')
        os.close(fd)


@case
def who_copies_with_sendfile_waits_too(d):
    d.mkdir('t1')
    copier = f'import shutil, sys; shutil.copyfile(sys.argv[1], "{d.base}/copied")'
    readers = [start_reader(d, 't1', words) for words in ([need('busybox'), 'cat'], ['python3', '-c', copier])]
    d.rmdir('t1')
    equal([said(reader) for reader in readers], ['RELEASING terminated\n', ''])
    with open(f'{d.base}/copied', encoding='utf-8') as f:
        equal(f.read(), 'RELEASING terminated\n')


@case
def wait_cannot_be_written(d):
    d.mkdir('t1')
    fails_with(errno.EACCES, os.open, d.lease('t1', 'wait'), os.O_WRONLY)
    equal(oct(os.stat(d.lease('t1', 'wait')).st_mode & 0o222), oct(0))


main(slots=2)
