# SPDX-License-Identifier: LGPL-2.1-or-later
"""leases/T/exec/: commands as files: started, fed, read while they run, signalled, re-read."""
import errno
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import threading

from harness import (PATIENCE, SANITIZED, Daemon, Scratch, Skip, case, check, contains, equal, eventually, fails_with, main, need, read_all,
                     run, sh, sleeps_with, test_environment)

ECHO = 'while read -r line; do echo "$line"; done'  # says what it is told, a line at a time
SOME = (16 if SANITIZED else 64) << 20


class Command:
    """One command of a lease: its directory."""

    def __init__(self, d, lease, command, **more):
        request = command if isinstance(command, str) and not more else json.dumps({'command': command, **more})
        fd = os.open(d.lease(lease, 'exec', 'new'), os.O_RDWR)
        try:
            os.write(fd, request.encode())
            self.number = int(read_all(fd))
        finally:
            os.close(fd)
        self.top = d.lease(lease, 'exec', str(self.number))

    def path(self, name):
        return f'{self.top}/{name}'

    def bytes(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()

    def text(self, name):
        return self.bytes(name).decode()

    def status(self):
        return json.loads(self.text('status'))

    def wait(self):
        return json.loads(self.text('wait'))

    def open(self, name, flags=os.O_RDONLY):
        return os.open(self.path(name), flags)

    def kept(self):
        return os.stat(self.path('stdout')).st_size

    def signal(self, text):
        with open(self.path('signal'), 'w', encoding='utf-8') as f:
            f.write(text + '\n')


def echoing(d, lease):
    """A command that echoes, and the descriptor that feeds it."""
    command = Command(d, lease, ECHO, stdin_pipe=True)
    return command, command.open('stdin', os.O_WRONLY)


def read_exactly(fd, size):
    data = b''
    while len(data) < size:
        part = os.read(fd, size - len(data))
        check(part, f'the end after {data!r}')
        data += part
    return data


def digest_of(path, results, key):
    def read():
        digest = hashlib.sha256()
        with open(path, 'rb', buffering=0) as f:
            while part := f.read(1 << 20):
                digest.update(part)
        results[key] = digest.hexdigest()
    thread = threading.Thread(target=read)
    thread.start()
    return thread


def follower(*words):
    return subprocess.Popen(words, env=test_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def stop(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


def last_error(d, lease):
    return d.read('leases', lease, 'last_error')


# --- starting, and what came of it ---


@case
def a_request_written_to_new_starts_a_command_and_reads_back_its_number(d):
    d.mkdir('t')
    command = Command(d, 't', 'echo out; echo err >&2; exit 3')
    equal(sorted(os.listdir(command.top)), ['argv', 'signal', 'status', 'stderr', 'stdin', 'stdout', 'wait'])
    result = command.wait()
    equal((result['stdout'], result['stderr'], result['returncode']), ('out\n', 'err\n', 3))
    equal(result['metadata']['exec_id'], command.number)
    equal((command.text('stdout'), command.text('stderr')), ('out\n', 'err\n'))
    status = command.status()
    equal((status['state'], status['returncode'], status['signal'], status['timed_out']), ('exited', 3, None, False))
    for stream in ('stdout', 'stderr'):
        equal({key: status[stream][key] for key in ('bytes', 'kept', 'dropped', 'late_bytes')},
              {'bytes': 4, 'kept': 4, 'dropped': 0, 'late_bytes': 0})
    check(status['ended_at'] >= status['started_at'] > 1e9 and 'rusage' in status, 'times and rusage')


@case
def plain_shell_starts_reads_and_waits(d):
    d.mkdir('t')
    for shell in ('bash', 'dash', 'busybox'):
        done = sh('''exec 3<>exec/new; echo 'echo hi; echo "$0"; exit 5' >&3; read -r n <&3; exec 3>&-
                     cat exec/$n/stdout; cat exec/$n/wait; ls exec''', shell=shell, cwd=d.lease('t'))
        equal(done.stderr, '')
        lines = done.stdout.splitlines()
        equal(lines[0], 'hi')
        equal(json.loads(lines[2])['returncode'], 5)
        equal(lines[-1], 'new')


@case
def argv_is_what_is_run_as_a_JSON_array(d):
    d.mkdir('t')
    equal(json.loads(Command(d, 't', 'echo "a b"').text('argv')), ['/bin/sh', '-lc', 'echo "a b"'])
    words = ['printf', '%s\n', 'two words', '"', 'ü']
    equal(json.loads(Command(d, 't', words).text('argv')), words)


@case
def new_read_without_a_request_shows_how_to_use_it_and_then_the_latest_number(d):
    d.mkdir('t')
    contains(d.read('leases', 't', 'exec', 'new'), 'cat $n/stdout')
    command = Command(d, 't', 'true')
    equal(d.read('leases', 't', 'exec', 'new'), f'{command.number}\n')


@case
def what_new_refuses_has_errno_a_JSON_reply_and_a_sentence_and_starts_nothing(d):
    d.mkdir('t')
    for request, part in (({'command': 'true', 'comand': 1}, 'comand'), ({'command': 'true', 'tty': {'rows': 1}}, 'tty')):
        fd = os.open(d.lease('t', 'exec', 'new'), os.O_RDWR)
        os.write(fd, json.dumps(request).encode())
        fails_with(errno.EINVAL, os.read, fd, 1000)
        contains(json.loads(read_all(fd))['error']['message'], part)
        os.close(fd)
        contains(last_error(d, 't'), part)
    equal(os.listdir(d.lease('t', 'exec')), ['new'])


@case
def what_run_command_runs_is_there_too(d):
    d.mkdir('t')
    result = d.run('t', 'echo one; echo two >&2')
    top = d.lease('t', 'exec', str(result['metadata']['exec_id']))
    equal(sh('cat stdout stderr; cat wait', cwd=top).stdout.splitlines()[:2], ['one', 'two'])
    with open(f'{top}/wait', encoding='utf-8') as f:
        equal(json.loads(f.read()), result)


@case
def what_cannot_be_started_has_ended_with_a_sentence(d):
    d.mkdir('t')
    result = Command(d, 't', ['/no/such/program']).wait()
    equal(result['returncode'], 127)
    contains(result['metadata']['start_error'], '/no/such/program')


@case
def a_command_ended_by_a_signal_is_killed_and_status_names_it(d):
    d.mkdir('t')
    command = Command(d, 't', 'kill -SEGV $$')
    equal(command.wait()['returncode'], -signal.SIGSEGV)
    status = command.status()
    equal((status['state'], status['returncode']), ('killed', -signal.SIGSEGV))


# --- reading ---


@case
def a_reader_at_the_live_end_gets_each_line_as_it_comes_and_then_the_end(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    fd = command.open('stdout')
    for line in (b'one\n', b'two\n', b'three\n'):
        os.write(feed, line)
        equal(os.read(fd, 100), line)
    equal(command.status()['state'], 'running')
    equal(os.stat(fd).st_size, 14)
    os.close(feed)
    equal(os.read(fd, 100), b'')
    equal(os.pread(fd, 100, 4), b'two\nthree\n')
    os.close(fd)
    equal(command.status()['state'], 'exited')


@case
def readers_who_come_late_begin_at_byte_0_or_wherever_they_say(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'0123456789\n')
    first = command.open('stdout')
    equal(read_exactly(first, 11), b'0123456789\n')
    equal(os.pread(first, 3, 4), b'456')
    equal(sh('head -c 4 stdout; dd if=stdout bs=1 skip=5 count=2 status=none', cwd=command.top).stdout, '012356')
    os.close(feed)
    command.wait()
    equal(sh('cat stdout; tail -n 1 stdout; wc -c < stdout', cwd=command.top).stdout, '0123456789\n0123456789\n11\n')
    os.close(first)


@case
def one_who_does_not_wait_gets_EAGAIN_and_poll_select_and_epoll_tell(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    fd, edge = (command.open('stdout', os.O_RDONLY | os.O_NONBLOCK) for _ in range(2))
    poller, epoller = select.poll(), select.epoll()
    poller.register(fd, select.POLLIN)
    epoller.register(edge, select.EPOLLIN | select.EPOLLET)
    for line in (b'one\n', b'two\n'):
        fails_with(errno.EAGAIN, os.read, fd, 100)
        fails_with(errno.EAGAIN, os.read, edge, 100)
        equal((poller.poll(0), epoller.poll(0), select.select([fd], [], [], 0)[0]), ([], [], []))
        os.write(feed, line)
        equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLIN)])
        equal(select.select([fd], [], [], PATIENCE)[0], [fd])
        equal(epoller.poll(PATIENCE), [(edge, select.EPOLLIN)])
        equal((read_exactly(fd, 4), read_exactly(edge, 4)), (line, line))
    os.close(feed)
    equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLIN)])
    equal(epoller.poll(PATIENCE), [(edge, select.EPOLLIN)])
    equal((os.read(fd, 100), os.read(edge, 100)), (b'', b''))
    epoller.close()
    os.close(fd)
    os.close(edge)


@case
def tail_f_shows_what_was_and_what_comes(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'a\nb\n')
    eventually(lambda: command.kept() == 4, 'the lines are there')
    process = follower('tail', '-n', '1', '-f', '-s', '0.02', command.path('stdout'))
    try:
        equal(process.stdout.readline(), b'b\n')
        for line in (b'c\n', b'd\n'):
            os.write(feed, line)
            equal(process.stdout.readline(), line)
    finally:
        stop(process)
    os.close(feed)


@case
def tail_f_of_a_command_that_has_said_nothing_yet_follows_it(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    process = follower('tail', '-f', '-s', '0.02', command.path('stdout'))
    try:
        eventually(lambda: sleeps_with(command.path('stdout'), process.pid), 'tail waits')
        for line in (b'first\n', b'second\n'):
            os.write(feed, line)
            equal(process.stdout.readline(), line)
    finally:
        stop(process)
    os.close(feed)


READERS = {
    'cat': ['cat'],
    'busybox cat': ['busybox', 'cat'],
    'dd': ['dd', 'bs=1M', 'status=none'],
    'grep': ['grep', '--line-buffered', ''],
    'Python': ['python3', '-c', 'import shutil, sys; shutil.copyfileobj(open(sys.argv[1], "rb"), sys.stdout.buffer)'],
    'Python copyfile': ['python3', '-c', 'import shutil, sys, tempfile as t; f = t.NamedTemporaryFile(); shutil.copyfile(sys.argv[1], f.name); '
                                          'sys.stdout.buffer.write(f.read())'],
    'Node': ['node', '-e', 'require("fs").createReadStream(process.argv[1]).pipe(process.stdout)'],
}


@case
def every_program_reads_a_live_command_to_its_end(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'early\n')
    eventually(lambda: command.kept() == 6, 'the line is there')
    readers = {}
    for name, words in READERS.items():
        if not shutil.which(words[0], path=test_environment()['PATH']):
            continue
        words = [*words, f'if={command.path("stdout")}' if name == 'dd' else command.path('stdout')]
        readers[name] = follower(*words)
    try:
        for name, process in readers.items():
            if name != 'Node':  # its threads read
                eventually(lambda process=process: sleeps_with(command.path('stdout'), process.pid) or process.poll() is not None,
                           f'{name} waits')
        os.write(feed, b'late\n' * 1000)
        os.close(feed)
        for name, process in readers.items():
            out, err = process.communicate(timeout=PATIENCE)
            equal((name, out, err), (name, b'early\n' + b'late\n' * 1000, b''))
    finally:
        for process in readers.values():
            stop(process)


@case
def less_shows_what_is_there_and_does_not_wait(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'early\n')
    eventually(lambda: command.kept() == 6, 'the line is there')
    equal(sh('less stdout', cwd=command.top).stdout, 'early\n')
    os.close(feed)


@case
def splice_of_a_live_output_is_EINVAL_and_works_with_O_DIRECT_or_when_it_has_long_ended(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    plain, direct = command.open('stdout'), command.open('stdout', os.O_RDONLY | os.O_DIRECT)
    reader, writer = os.pipe()
    os.write(feed, b'one\n')
    equal(os.splice(direct, writer, 100), 4)  # waits for it
    fails_with(errno.EINVAL, os.splice, plain, writer, 100)
    os.write(feed, b'two\n')
    equal(os.splice(direct, writer, 100), 4)
    os.close(feed)
    equal(os.splice(direct, writer, 100), 0)
    equal(os.read(reader, 100), b'one\ntwo\n')
    eventually(lambda: splices(command, writer), 'a file like any other')
    equal(os.read(reader, 100), b'one\ntwo\n')
    for fd in (plain, direct, reader, writer):
        os.close(fd)


def splices(command, writer):
    """Whether a program that asks for the size and splices so much can have it."""
    fd = command.open('stdout')
    try:
        return os.splice(fd, writer, os.fstat(fd).st_size) == 8
    except OSError as e:
        equal(e.errno, errno.EINVAL)
        return False
    finally:
        os.close(fd)


@case
def three_who_read_both_streams_while_they_are_written_get_every_byte(d):
    d.mkdir('t')
    command = Command(d, 't', f'yes abcdefghi | head -c {SOME} >&2 & yes 0123456789 | head -c {SOME}; wait')
    results = {}
    readers = [digest_of(command.path(name), results, (name, number)) for name in ('stdout', 'stderr') for number in range(3)]
    for reader in readers:
        reader.join()
    equal(command.wait()['returncode'], 0)
    status = command.status()
    equal((status['stdout']['kept'], status['stderr']['kept']), (SOME, SOME))
    for name, line in (('stdout', b'0123456789\n'), ('stderr', b'abcdefghi\n')):
        wanted = hashlib.sha256((line * (SOME // len(line) + 1))[:SOME]).hexdigest()
        equal((name, {results[name, number] for number in range(3)}), (name, {wanted}))


@case
def one_epoll_loop_reads_a_hundred_commands_and_every_line_is_whole_and_in_order(d):
    wanted = b''.join(b'line %d\n' % n for n in range(200))
    for lease in ('a', 'b'):
        d.mkdir(lease)
    script = 'n=0; while [ $n -lt 200 ]; do echo "line $n"; n=$((n + 1)); done'
    fds = {}
    for number in range(100):
        fd = Command(d, 'ab'[number % 2], script).open('stdout', os.O_RDONLY | os.O_NONBLOCK)
        fds[fd] = b''
    left = set(fds)
    with select.epoll() as epoll:
        for fd in fds:
            epoll.register(fd, select.EPOLLIN)
        while left:
            ready = epoll.poll(PATIENCE)
            check(ready, f'{len(left)} are silent')
            for fd, _ in ready:
                part = os.read(fd, 65536)
                fds[fd] += part
                if not part:
                    epoll.unregister(fd)
                    left.remove(fd)
    equal({text == wanted for text in fds.values()}, {True})
    for fd in fds:
        os.close(fd)


@case
def a_killed_reader_and_one_who_never_reads_hold_up_nobody(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    lazy = command.open('stdout')
    readers = [follower('cat', command.path('stdout')) for _ in range(3)]
    for process in readers:
        eventually(lambda process=process: sleeps_with(command.path('stdout'), process.pid), 'cat waits')
    for process, number in zip(readers, (signal.SIGKILL, signal.SIGINT)):
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
        equal(process.returncode, -number)
    os.write(feed, b'x\n' * 5000)
    os.close(feed)
    equal(readers[2].communicate(timeout=PATIENCE), (b'x\n' * 5000, b''))
    equal(command.wait()['returncode'], 0)
    equal(len(read_all(lazy)), 10000)
    os.close(lazy)


@case
def a_reader_survives_a_signal_that_means_no_end(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    process = follower('cat', command.path('stdout'))
    eventually(lambda: sleeps_with(command.path('stdout'), process.pid), 'cat waits')
    for number in (signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT):
        process.send_signal(number)
    os.write(feed, b'still\n')
    equal(process.stdout.readline(), b'still\n')
    os.close(feed)
    equal(process.communicate(timeout=PATIENCE), (b'', b''))


@case
def raw_bytes_come_as_they_are(d):
    d.mkdir('t')
    command = Command(d, 't', r"printf '\000\377\303\050\n\033[31m'")
    command.wait()
    equal(command.bytes('stdout'), b'\0\xff\xc3(\n\x1b[31m')


@case
def output_read_before_during_and_after_its_reader_went_away_is_one_stream(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'before\n')
    first = command.open('stdout')
    equal(os.read(first, 100), b'before\n')
    os.close(first)
    os.write(feed, b'while nobody reads\n')
    eventually(lambda: command.kept() == 26, 'the line is there')
    second = command.open('stdout')
    equal(read_exactly(second, 26), b'before\nwhile nobody reads\n')
    os.write(feed, b'after\n')
    equal(os.read(second, 100), b'after\n')
    os.close(second)
    os.close(feed)
    equal(command.wait()['stdout'], 'before\nwhile nobody reads\nafter\n')


CALLS = 'trace=writev,write,pread64,splice,sendmsg,recvmsg'  # and not those of a machine whose mounts change


@case
def a_silent_live_command_costs_its_readers_and_the_daemon_nothing():
    strace = need('strace')
    with Daemon(slots=1) as d:
        d.mkdir('t')
        command, feed = echoing(d, 't')
        reader = follower('cat', command.path('stdout'))
        try:
            eventually(lambda: sleeps_with(command.path('stdout'), reader.pid), 'cat waits')
            for pid in (d.pid, reader.pid):
                done = run(['timeout', '2', strace, '-I1', '-f', '-qq', '-e', CALLS, '-o', f'{d.base}/calls', '-p', str(pid)])
                with open(f'{d.base}/calls', encoding='utf-8', errors='replace') as f:
                    calls = f.read().splitlines()
                if not calls and 'ptrace' in done.stderr:
                    raise Skip('strace is not allowed here')
                check(len(calls) < 50, f'{len(calls)} calls: {calls[:60]}')
            os.write(feed, b'x\n')
            equal(reader.stdout.readline(), b'x\n')
        finally:
            stop(reader)
        os.close(feed)


@case
def a_reader_at_the_live_end_of_a_file_has_it_opened_once():
    strace = need('strace')
    with Daemon(slots=1) as d:
        d.mkdir('t')
        command, feed = echoing(d, 't')
        os.write(feed, b'x' * 8000 + b'\n')
        eventually(lambda: command.kept() == 8001, 'all of it is kept')
        fd = command.open('stdout')
        os.lseek(fd, 8001, os.SEEK_SET)
        log = f'{d.base}/calls'
        tracer = subprocess.Popen([strace, '-I1', '-f', '-e', 'openat', '-o', log, '-p', str(d.pid)], stderr=subprocess.PIPE)
        try:
            if b'attached' not in tracer.stderr.readline():
                raise Skip('strace is not allowed here')
            for n in range(20):
                got = []
                reader = threading.Thread(target=lambda: got.append(os.read(fd, 100)))
                reader.start()
                eventually(lambda: sleeps_with(command.path('stdout'), os.getpid()), 'it waits')
                os.write(feed, b'%d\n' % n)
                reader.join()
                equal(got, [b'%d\n' % n])
        finally:
            tracer.terminate()
            tracer.communicate()
        with open(log, encoding='utf-8', errors='replace') as f:
            opened = [call for call in f if 'O_RDONLY|O_NOFOLLOW|O_CLOEXEC' in call]
        check(len(opened) < 3, f'{len(opened)} opened: {opened[:5]}')
        os.close(fd)
        os.close(feed)


# --- time ---


@case
def what_was_printed_before_a_timeout_stays(d):
    d.mkdir('t')
    command = Command(d, 't', 'echo hi; exec sleep 99', timeout=0.3)
    result = command.wait()
    equal((result['timed_out'], result['returncode'], result['stdout']), (True, -9, 'hi\n'))
    equal(command.text('stdout'), 'hi\n')
    equal((command.status()['state'], command.status()['timed_out']), ('killed', True))


@case
def a_background_child_does_not_hold_the_end_and_what_it_writes_later_is_appended_and_counted(d):
    d.mkdir('t')
    command = Command(d, 't', '(while [ ! -e go ]; do sleep 0.05; done; echo late; touch said) & echo now')
    reader = command.open('stdout')
    equal(read_all(reader), b'now\n')
    equal(command.wait()['stdout'], 'now\n')
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    eventually(lambda: command.status()['stdout']['late_bytes'] == 5, 'late bytes are counted')
    equal(command.text('stdout'), 'now\nlate\n')
    equal(read_all(reader), b'late\n')  # and the end, not a wait
    os.close(reader)
    equal(command.wait()['stdout'], 'now\n')  # as it was at the end


# --- stdin ---


@case
def no_input_asked_for_is_an_empty_one_and_writing_to_it_is_EPIPE(d):
    d.mkdir('t')
    command = Command(d, 't', 'cat; echo end')
    equal(command.wait()['stdout'], 'end\n')
    fd = command.open('stdin', os.O_WRONLY)
    fails_with(errno.EPIPE, os.write, fd, b'x')
    os.close(fd)
    contains(sh('echo x > stdin', cwd=command.top).stderr, 'Broken pipe')


@case
def what_is_written_to_stdin_is_read_and_the_last_writer_s_close_is_its_end(d):
    d.mkdir('t')
    command = Command(d, 't', 'wc -c', stdin_pipe=True)
    first, second = (command.open('stdin', os.O_WRONLY) for _ in range(2))
    os.write(first, b'x' * 1000)
    os.close(first)
    os.write(second, b'y' * 500000)
    equal(command.status()['state'], 'running')
    os.close(second)
    equal(command.wait()['stdout'].strip(), '501000')


@case
def a_writer_waits_while_the_command_does_not_read_and_goes_on_when_it_does(d):
    d.mkdir('t')
    command = Command(d, 't', 'while [ ! -e go ]; do sleep 0.05; done; sha256sum', stdin_pipe=True)
    data = os.urandom(3 << 20)
    with Scratch() as top:
        with open(f'{top}/big', 'wb') as f:
            f.write(data)
        process = follower('sh', '-c', f'cat {top}/big | tee {command.path("stdin")}')
        drain = threading.Thread(target=process.communicate)
        drain.start()
        fd = command.open('stdin', os.O_WRONLY | os.O_NONBLOCK)
        eventually(lambda: full(fd), 'the pipe is full')
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
            pass
        drain.join()
        os.close(fd)
    equal(process.returncode, 0)
    contains(command.wait()['stdout'], hashlib.sha256(data).hexdigest())


def full(fd):
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return True if not poller.poll(0) else fd >= 0


@case
def O_NONBLOCK_takes_what_fits_then_EAGAIN_and_poll_tells_when_it_may_go_on(d):
    d.mkdir('t')
    command = Command(d, 't', 'while [ ! -e go ]; do sleep 0.05; done; wc -c', stdin_pipe=True)
    fd = command.open('stdin', os.O_WRONLY | os.O_NONBLOCK)
    written = 0
    try:
        while written < 64 << 20:
            written += os.write(fd, b'x' * 100000)
        raise AssertionError('it takes everything')
    except BlockingIOError:
        pass
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    equal(poller.poll(0), [])
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLOUT)])
    os.set_blocking(fd, True)
    written += os.write(fd, b'y' * 300000)
    os.close(fd)
    equal(int(command.wait()['stdout']), written)


@case
def a_command_that_stops_reading_gives_its_writer_EPIPE(d):
    d.mkdir('t')
    command = Command(d, 't', 'head -c 3', stdin_pipe=True)
    fd = command.open('stdin', os.O_WRONLY)

    def write_on():
        while True:
            os.write(fd, b'x' * 65536)

    fails_with(errno.EPIPE, write_on)
    os.close(fd)
    equal(command.wait()['stdout'], 'xxx')


@case
def a_writer_killed_in_mid_write_leaves_the_command_its_input_and_the_next_writer(d):
    d.mkdir('t')
    command = Command(d, 't', 'while [ ! -e go ]; do sleep 0.05; done; wc -c', stdin_pipe=True)
    keeper = command.open('stdin', os.O_WRONLY)
    writer = subprocess.Popen(['sh', '-c', f'exec head -c 10000000 /dev/zero > {command.path("stdin")}'], env=test_environment())
    eventually(lambda: sleeps_with(command.path('stdin'), writer.pid), 'it waits')
    writer.kill()
    writer.wait(PATIENCE)
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    os.write(keeper, b'x' * 1000)
    os.close(keeper)
    check(1000 <= int(command.wait()['stdout']) < 10000000, 'what was written')


@case
def random_bytes_go_in_by_stdin_and_come_out_by_stdout_as_they_were_and_the_daemon_stays_small(d):
    d.mkdir('t')
    command = Command(d, 't', 'cat', stdin_pipe=True)
    with Scratch() as top:
        with open(f'{top}/in', 'wb') as f:
            f.write(os.urandom(SOME))
        done = sh('cat "$1/in" > stdin & cat stdout > "$1/out"; wait; cmp "$1/in" "$1/out"', words=[top], cwd=command.top, timeout=2 * PATIENCE)
        equal((done.returncode, done.stdout, done.stderr), (0, '', ''))
    with open(f'/proc/{d.pid}/status', encoding='utf-8') as f:
        peak = int(next(line for line in f if line.startswith('VmHWM')).split()[1])
    check(SANITIZED or peak < 100 * 1024, f'the daemon has had {peak} KiB')


@case
def a_copy_that_begins_as_the_command_ends_is_whole(d):
    d.mkdir('t')
    wanted = hashlib.sha256((b'0123456789\n' * 30000)[:300000]).hexdigest()
    for words in (['busybox', 'cat'], ['cat']):
        for _ in range(15):
            command = Command(d, 't', 'yes 0123456789 | head -c 300000')
            sink = Command(d, 't', 'sha256sum', stdin_pipe=True)
            equal(sh('stat -c %s "$1" > /dev/null; "${@:3}" "$1" > "$2"', words=[command.path('stdout'), sink.path('stdin'), *words]).stderr, '')
            contains(sink.wait()['stdout'], wanted)


@case
def two_leases_are_a_pipeline_in_plain_shell(d):
    d.mkdir('a')
    d.mkdir('b')
    source = Command(d, 'a', f'yes 0123456789 | head -c {SOME // 4}')
    sink = Command(d, 'b', 'sha256sum', stdin_pipe=True)
    equal(sh('cat "$1" > "$2"', words=[source.path('stdout'), sink.path('stdin')]).stderr, '')
    contains(sink.wait()['stdout'], hashlib.sha256((b'0123456789\n' * (SOME // 44 + 1))[:SOME // 4]).hexdigest())


@case
def stdin_reads_as_nothing_and_who_only_reads_it_is_no_writer_and_the_others_are_only_read(d):
    d.mkdir('t')
    command = Command(d, 't', 'cat', stdin_pipe=True)
    equal(command.bytes('stdin'), b'')
    for name in ('stdout', 'stderr', 'status', 'wait', 'argv'):
        fails_with(errno.EACCES, command.open, name, os.O_WRONLY)
    equal(sh('echo hi > stdin; cat stdout', cwd=command.top).stdout, 'hi\n')
    equal(command.wait()['returncode'], 0)


# --- signals ---


@case
def signal_reaches_the_whole_tree_or_the_leader_alone(d):
    d.mkdir('t')
    script = '''trap 'echo leader; exit 7' TERM
                sh -c 'trap "echo child; exit" TERM; echo ready; while :; do sleep 0.05; done' &
                while :; do sleep 0.05; done'''
    for word, wanted in (('leader:TERM', {'leader'}), ('TERM', {'leader', 'child'}), ('SIGTERM', {'leader', 'child'}), ('15', {'leader', 'child'})):
        command = Command(d, 't', script)
        fd = command.open('stdout')
        equal(read_exactly(fd, 6), b'ready\n')
        command.signal(word)
        equal((word, command.wait()['returncode']), (word, 7))
        equal((word, set(read_all(fd).decode().split())), (word, wanted))
        os.close(fd)


@case
def a_signal_right_after_the_start_is_not_lost(d):
    d.mkdir('t')
    for _ in range(30):
        command = Command(d, 't', 'exec sleep 60')
        command.signal('TERM')
        equal(command.wait()['returncode'], -15)


@case
def KILL_ends_it_at_once_and_afterwards_there_is_nobody_to_signal(d):
    d.mkdir('t')
    command = Command(d, 't', 'trap "" TERM; echo up; while :; do sleep 0.05; done')
    equal(os.read(command.open('stdout'), 10), b'up\n')
    equal(sh('exec 3<>signal; echo \'{"signal": "KILL"}\' >&3; cat <&3', cwd=command.top).stdout, '{"signal":"KILL","leader":false}\n')
    equal(command.wait()['returncode'], -9)
    equal(command.status()['state'], 'killed')
    contains(sh('echo TERM > signal', cwd=command.top).stderr, os.strerror(errno.ESRCH))


@case
def what_is_no_signal_is_refused_to_the_shell_that_writes_it(d):
    d.mkdir('t')
    command = Command(d, 't', 'cat', stdin_pipe=True)
    for word in ('NONSENSE', '0', '-9', '999', '', 'leader:', 'TERM now'):
        contains(sh('echo "$1" > signal', words=[word], cwd=command.top).stderr, os.strerror(errno.EINVAL), word)
    contains(last_error(d, 't'), 'TERM now')
    contains(sh('echo winsize 24 80 > signal', cwd=command.top).stderr, os.strerror(errno.ENOTTY))
    equal(command.status()['state'], 'running')
    sh(': > stdin', cwd=command.top)
    equal(command.wait()['returncode'], 0)


# --- waiting ---


@case
def wait_is_held_until_the_result_is_there_for_everybody(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    path = command.path('wait')
    readers = [follower('cat', path) for _ in range(5)]
    for process in readers:
        eventually(lambda process=process: sleeps_with(path, process.pid), 'cat waits')
    fd = command.open('wait', os.O_RDONLY | os.O_NONBLOCK)
    fails_with(errno.EAGAIN, os.read, fd, 100)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    equal(poller.poll(0), [])
    readers.pop().kill()
    os.write(feed, b'x' * 99999 + b'\n')
    os.close(feed)
    equal(poller.poll(PATIENCE * 1000), [(fd, select.POLLIN)])
    for text in [read_all(fd), *(process.communicate(timeout=PATIENCE)[0] for process in readers)]:
        equal(len(json.loads(text)['stdout']), 100000)
    os.close(fd)
    equal(sh('busybox cat wait | wc -l; cp wait "$1"; wc -l < "$1"', words=[f'{d.base}/copied'], cwd=command.top).stdout.split(), ['1', '1'])


@case
def opening_wait_of_a_live_command_many_times_leaves_nothing_behind(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    for _ in range(200):
        os.close(command.open('wait'))
    os.close(feed)
    equal(command.wait()['returncode'], 0)
    equal(command.wait()['returncode'], 0)


# --- going ---


@case
def rmdir_removes_a_command_that_has_ended_and_who_reads_it_reads_on(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    equal(fails_with(errno.EBUSY, os.rmdir, command.top).errno, errno.EBUSY)
    contains(last_error(d, 't'), f'exec/{command.number}')
    os.write(feed, b'x' * 20000 + b'\n')
    os.close(feed)
    command.wait()
    fd = command.open('stdout')
    os.rmdir(command.top)
    equal(os.listdir(d.lease('t', 'exec')), ['new'])
    fails_with(errno.ENOENT, os.stat, command.path('status'))
    equal(len(read_all(fd)), 20001)
    os.close(fd)
    fails_with(errno.EPERM, os.rmdir, d.lease('t', 'exec'))
    equal(Command(d, 't', 'true').number, command.number + 1)  # a number is never used again


@case
def numbers_that_are_none_are_not_found(d):
    d.mkdir('t')
    number = Command(d, 't', 'true').number
    for name in (f'0{number}', f'+{number}', f'{number} ', '999', 'x', '0', '-1', '4294967297'):
        fails_with(errno.ENOENT, os.stat, d.lease('t', 'exec', name))


@case
def the_end_of_the_lease_is_the_end_of_what_its_commands_write(d):
    d.mkdir('t')
    command, feed = echoing(d, 't')
    os.write(feed, b'said\n')
    fd = command.open('stdout')
    equal(os.read(fd, 100), b'said\n')
    reader = follower('cat', command.path('stdout'))
    eventually(lambda: sleeps_with(command.path('stdout'), reader.pid), 'cat waits')
    waiter = follower('cat', command.path('wait'))
    eventually(lambda: sleeps_with(command.path('wait'), waiter.pid), 'cat waits')
    d.rmdir('t')
    equal(reader.communicate(timeout=PATIENCE), (b'said\n', b''))
    result = json.loads(waiter.communicate(timeout=PATIENCE)[0])
    equal((result['returncode'], result['metadata']['infra_failure']), (None, True))
    equal(os.read(fd, 100), b'')
    fails_with(errno.EPIPE, os.write, feed, b'x')
    os.close(fd)
    os.close(feed)


@case
def a_stop_of_the_daemon_ends_readers_and_writers():
    with Daemon(slots=1) as d:
        d.mkdir('t')
        command, feed = echoing(d, 't')
        os.write(feed, b'x\n')
        reader = follower('cat', command.path('stdout'))
        equal(reader.stdout.readline(), b'x\n')
        os.close(feed)
        command, feed = echoing(d, 't')
        other = follower('cat', command.path('stdout'))
        eventually(lambda: sleeps_with(command.path('stdout'), other.pid), 'cat waits')
        os.close(feed)
        reader.communicate(timeout=PATIENCE)
        d.stop()
        other.communicate(timeout=PATIENCE)


def has_ended(command):
    """It may be removed meanwhile, for others that have ended after it."""
    try:
        return command.status()['state'] == 'exited'
    except FileNotFoundError:
        return True


@case
def the_last_keep_finished_ones_stay_and_running_ones_do():
    with Daemon(slots=1, options=['exec.keep=3']) as d:
        d.mkdir('t')
        running, feed = echoing(d, 't')
        commands = [Command(d, 't', f'echo {n}') for n in range(5)]
        for command in commands:
            eventually(lambda command=command: has_ended(command), 'it has ended')
        shown = {int(name) for name in os.listdir(d.lease('t', 'exec')) if name != 'new'}
        equal(len(shown), 4)
        check(running.number in shown, 'the running one')
        os.close(feed)


# --- much output ---


@case
def beyond_max_spool_the_head_is_kept_the_rest_counted_and_the_command_is_not_stalled():
    with Daemon(slots=1, options=['exec.max_spool=1M']) as d:
        d.mkdir('t')
        command = Command(d, 't', f'yes 0123456789 | head -c {SOME}')
        equal(command.wait()['returncode'], 0)
        stdout = command.status()['stdout']
        equal((stdout['bytes'], stdout['kept'], stdout['dropped']), (SOME, 1 << 20, SOME - (1 << 20)))
        equal(command.bytes('stdout'), (b'0123456789\n' * 100000)[:1 << 20])


def kept_by(command):
    """None: it was removed to make room."""
    try:
        status = command.status()
    except FileNotFoundError:
        return None
    return status['stdout']['kept'] if status['state'] == 'exited' else -1


@case
def the_budget_of_a_lease_holds_and_the_oldest_finished_go_first():
    with Daemon(slots=1, options=['exec.spool_budget=4M', 'exec.max_spool=1M']) as d:
        d.mkdir('t')
        at_once = [Command(d, 't', 'head -c 900000 /dev/zero') for _ in range(20)]
        for command in at_once:
            eventually(lambda command=command: kept_by(command) != -1, 'it has ended')
        kept = sum(kept_by(command) or 0 for command in at_once)
        check(kept <= 4 << 20, f'{kept} bytes are kept')
        in_turn = []
        for _ in range(5):
            in_turn.append(Command(d, 't', 'head -c 900000 /dev/zero'))
            equal(in_turn[-1].wait()['returncode'], 0)
        equal([kept_by(command) for command in in_turn[1:]], [900000] * 4)
        kept = sum(kept_by(command) or 0 for command in at_once + in_turn)
        check(kept <= 4 << 20, f'{kept} bytes are kept')


main(slots=3)
