# SPDX-License-Identifier: LGPL-2.1-or-later
"""dressage exec: a command in a lease as if it ran here, with pipes and files, and at a terminal (-it)."""
import array
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from harness import (DRESSAGE, PATIENCE, SANITIZED, Daemon, case, check, contains, equal, eventually, main, sh, test_environment)


def dressage_exec(d, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE):
    return subprocess.Popen([DRESSAGE, '--mount', d.mnt, 'exec', *words], env=test_environment(), stdin=stdin,
                            stdout=stdout, stderr=subprocess.PIPE, start_new_session=True)


def ends(process, data=None):
    """(exit status, output, errors)"""
    out, err = process.communicate(data, timeout=PATIENCE)
    return process.returncode, out.decode(), err.decode()


def stop(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


def result_of(d, lease):
    """The CommandResult of the lease's latest command."""
    latest = max(int(name) for name in os.listdir(d.lease(lease, 'exec')) if name != 'new')
    return json.loads(d.read('leases', lease, 'exec', str(latest), 'wait'))


def file_of(d, lease, name):
    return d.lease(lease, 'fs', 'workspace', name)


def has_file(d, lease, name):
    eventually(lambda: os.path.exists(file_of(d, lease, name)), f'{name} in {lease}')


# --- pipes ---


@case
def dressage_exec_shows_output_as_it_comes_and_passes_input(d):
    d.mkdir('t')
    process = dressage_exec(d, 't', '--', 'sh', '-c',
                            'while read -r line; do echo "$line"; done; echo end >&2; exit 4')
    try:
        for line in (b'one\n', b'two\n'):
            process.stdin.write(line)
            process.stdin.flush()
            equal(process.stdout.readline(), line)
        data = b'0123456789abcdef\n' * 50000
        equal(process.communicate(data, timeout=PATIENCE), (data, b'end\n'))
        equal(process.returncode, 4)
    finally:
        stop(process)


@case
def dressage_exec_forwards_signals_to_the_command(d):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        d.mkdir('t')
        name = signal.Signals(number).name[3:]
        process = dressage_exec(d, '-n', 't', '--', 'sh', '-c', f'trap "echo got; exit 9" {name}; echo up; while :; do sleep 0.05; done')
        try:
            equal(process.stdout.readline(), b'up\n')
            process.send_signal(number)
            equal((process.communicate(timeout=PATIENCE)[0], process.returncode), (b'got\n', 9))
        finally:
            stop(process)
        d.rmdir('t')
        d.wait_ready()


@case
def dressage_exec_whose_reader_goes_ends_the_command(d):
    d.mkdir('t')
    done = sh('"$1" --mount "$2" exec -n t -- yes | head -n 2; echo "${PIPESTATUS[0]}"', words=[DRESSAGE, d.mnt])
    equal((done.stdout, done.stderr), ('y\ny\n141\n', ''))
    equal(result_of(d, 't')['returncode'], -signal.SIGPIPE)


@case
def the_exit_status_is_the_command_s_own_and_124_of_both_timeouts_and_128_plus_the_signal(d):
    d.mkdir('t')

    def status(*words):
        return ends(dressage_exec(d, '-n', 't', *words))[:2]
    equal(status('--', 'sh', '-c', 'echo x; exit 42'), (42, 'x\n'))
    equal(status('--timeout', '0.3', '--', 'sh', '-c', 'echo x; sleep 60'), (124, 'x\n'))
    equal(status('--idle-timeout', '0.3', '--', 'sh', '-c', 'echo x; sleep 60'), (124, 'x\n'))
    equal(status('--', 'sh', '-c', 'kill -KILL $$'), (137, ''))
    equal(status('--', 'no-such-program')[0], 127)


@case
def a_second_INT_kills_what_survives_the_first(d):
    d.mkdir('t')
    process = dressage_exec(d, '-n', 't', '--', 'sh', '-c', 'trap "echo INT" INT; echo up; while :; do sleep 0.05; done')
    try:
        equal(process.stdout.readline(), b'up\n')
        process.send_signal(signal.SIGINT)
        equal(process.stdout.readline(), b'INT\n')
        process.send_signal(signal.SIGINT)
        equal(ends(process)[0], 128 + signal.SIGKILL)
    finally:
        stop(process)


@case
def a_signal_that_it_was_started_to_ignore_is_not_passed_on(d):
    d.mkdir('t')
    process = subprocess.Popen(
        ['sh', '-c', 'trap "" HUP INT; exec "$@"', 'sh', DRESSAGE, '--mount', d.mnt, 'exec', 't', '--', 'sh', '-c', 'echo up; read line; echo end'],
        env=test_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        equal(process.stdout.readline(), b'up\n')
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGINT)
        equal(ends(process, b'\n'), (0, 'end\n', ''))
    finally:
        stop(process)


@case
def a_tool_that_fails_itself_leaves_no_command_running(d):
    d.mkdir('t')
    done = sh('ulimit -n 6; "$1" --mount "$2" exec -n t -- sleep 1000', words=[DRESSAGE, d.mnt])
    equal(done.returncode, 125)
    contains(done.stderr, 'Too many open files')
    equal(result_of(d, 't')['returncode'], -signal.SIGKILL)


@case
def output_beyond_max_spool_is_not_shown_and_that_is_said():
    with Daemon(slots=1, options=['exec.max_spool=64K']) as d:
        d.mkdir('t')
        code, out, err = ends(dressage_exec(d, '-n', 't', '--', 'sh', '-c', 'head -c 200000 /dev/zero; exit 3'))
        equal((code, len(out)), (3, 65536))
        contains(err, 'stdout was cut: 65536 of 200000 bytes')


@case
def output_that_nobody_takes_holds_up_neither_signals_nor_input(d):
    d.mkdir('t')
    script = 'trap "touch got; exit 9" TERM; head -c 300000 /dev/zero; cat > fed; touch done; while :; do sleep 0.05; done'
    process = dressage_exec(d, 't', '--', 'sh', '-c', script)
    try:
        process.stdin.write(b'through')
        process.stdin.close()
        process.stdin = None
        has_file(d, 't', 'done')
        with open(file_of(d, 't', 'fed'), 'rb') as f:
            equal(f.read(), b'through')
        process.send_signal(signal.SIGTERM)
        has_file(d, 't', 'got')
        code, out, _ = ends(process)
        equal((code, len(out)), (9, 300000))
    finally:
        stop(process)


@case
def told_to_end_it_does_not_wait_for_ever_for_somebody_who_takes_the_output(d):
    d.mkdir('t')
    for numbers, code in (([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 130)):
        process = dressage_exec(d, 't', '--', 'sh', '-c', 'head -c 300000 /dev/zero; touch done; exec sleep 1000')
        try:
            has_file(d, 't', 'done')
            for number in numbers:
                process.send_signal(number)
                result_of(d, 't')  # it has ended: a second one is not taken for the first
            contains(process.stderr.readline().decode(), 'nobody took the rest')
            equal(process.wait(timeout=PATIENCE), code)
            check(len(process.stdout.read()) < 300000, 'all of the output was taken')
        finally:
            stop(process)
        os.unlink(file_of(d, 't', 'done'))


@case
def a_command_that_closed_its_outputs_is_waited_for_and_signals_reach_it(d):
    d.mkdir('t')
    process = dressage_exec(d, '-n', 't', '--', 'sh', '-c', 'trap "exit 5" TERM; exec >&- 2>&-; touch up; while :; do sleep 0.05; done')
    try:
        has_file(d, 't', 'up')
        process.send_signal(signal.SIGTERM)
        equal(ends(process), (5, '', ''))
    finally:
        stop(process)


@case
def a_child_in_the_background_that_holds_the_output_does_not_hold_the_end(d):
    d.mkdir('t')
    equal(ends(dressage_exec(d, '-n', 't', '--', 'sh', '-c', 'sleep 1000 & echo x; exit 6')), (6, 'x\n', ''))


@case
def a_command_that_reads_no_more_ends_the_feeding_alone(d):
    d.mkdir('t')
    done = sh('yes | "$1" --mount "$2" exec t -- sh -c "head -n 1; exec <&-; sleep 0.2; echo end; exit 3"; echo "${PIPESTATUS[@]}"',
              words=[DRESSAGE, d.mnt])
    equal((done.stdout, done.stderr), ('y\nend\n141 3\n', ''))


@case
def a_command_that_ignores_PIPE_is_killed_when_nobody_takes_its_output(d):
    d.mkdir('t')
    done = sh('"$1" --mount "$2" exec -n t -- sh -c "trap \'\' PIPE; while :; do echo y; done" | head -n 1; echo "${PIPESTATUS[0]}"',
              words=[DRESSAGE, d.mnt])
    equal((done.stdout, done.stderr), ('y\n141\n', ''))
    equal(result_of(d, 't')['returncode'], -signal.SIGKILL)


@case
def descriptors_that_are_closed_are_no_input_and_a_failure_to_write(d):
    d.mkdir('t')
    tool = f'"{DRESSAGE}" --mount "{d.mnt}" exec t -- '
    done = sh(tool + 'sh -c "cat; echo end" <&-')
    equal((done.returncode, done.stdout, done.stderr), (0, 'end\n', ''))
    done = sh(tool + 'echo x >&- </dev/null')
    equal(done.returncode, 125)
    contains(done.stderr, 'cannot write')
    done = sh(tool + 'echo x > /dev/full </dev/null')
    equal(done.returncode, 125)
    contains(done.stderr, 'No space left')


@case
def files_and_dev_null_are_as_good_as_pipes(d):
    d.mkdir('t')
    done = sh(f'cd "{d.base}"; head -c 1000000 /dev/urandom > in; "{DRESSAGE}" --mount "{d.mnt}" exec t -- cat < in > out; echo $?; '
              f'cmp in out && "{DRESSAGE}" --mount "{d.mnt}" exec t -- cat < in >/dev/null; echo $?')
    equal((done.stdout, done.stderr), ('0\n0\n', ''))


@case
def a_silent_command_costs_nothing(d):
    d.mkdir('t')
    d.mkdir('other')
    process = dressage_exec(d, 't', '--', 'sh', '-c', 'echo up; read line; echo "$line"')

    def switches():
        with open(f'/proc/{process.pid}/status', encoding='ascii') as f:
            return sum(int(line.split()[1]) for line in f if 'ctxt_switches' in line)
    try:
        equal(process.stdout.readline(), b'up\n')
        before = switches()
        for _ in range(30):
            equal(d.run('other', 'true')['returncode'], 0)
        check(switches() - before < 20, f'it was woken {switches() - before} times')
        equal(ends(process, b'end\n')[:2], (0, 'end\n'))
    finally:
        stop(process)


@case
def a_lease_that_ends_meanwhile_is_said_and_exits_125(d):
    d.mkdir('t')
    process = dressage_exec(d, '-n', 't', '--', 'sh', '-c', 'echo up; sleep 1000')
    try:
        equal(process.stdout.readline(), b'up\n')
        d.rmdir('t')
        code, _, err = ends(process)
        equal(code, 125)
        contains(err, 'the sandbox failed, not the command')
    finally:
        stop(process)


@case
def a_daemon_that_dies_meanwhile_is_said_and_exits_125():
    with Daemon(slots=1) as d:
        d.mkdir('t')
        process = dressage_exec(d, 't', '--', 'sh', '-c', 'echo up; sleep 1000')
        try:
            equal(process.stdout.readline(), b'up\n')
            d.kill()
            process.wait(PATIENCE)
            equal(process.returncode, 125)
            contains(process.stderr.read().decode(), 'has gone')
        finally:
            stop(process)
        d.start()


@case
def t_without_a_terminal_is_refused_with_a_sentence(d):
    d.mkdir('t')
    code, out, err = ends(dressage_exec(d, '-it', 't', '--', 'true'))
    equal((code, out), (125, ''))
    contains(err, 'not a terminal')
    for words in (('-t', '-n'), ('-t', '--json')):
        equal(ends(dressage_exec(d, *words, 't', '--', 'true'))[0], 2)
    equal(os.listdir(d.lease('t', 'exec')), ['new'])


# --- a terminal ---

LFLAG = 3


class Terminal:
    """A terminal with a program at it; its modes are looked at from outside."""

    def __init__(self, *words, rows=30, columns=90):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.said = b''
        self.process = subprocess.Popen(words, env={**test_environment(), 'TERM': 'vt220'}, stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, array.array('H', [rows, columns, 0, 0]))

    def read_some(self, deadline):
        over = self.process.poll() is not None
        if not select.select([self.master], [], [], 0.1)[0]:
            check(not over and time.monotonic() < deadline, f'silent, exit status {self.process.poll()}; it said {self.said[-2000:]!r}')
            return
        self.said += os.read(self.master, 65536)

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, text):
        """Reads until it has said that; what it said up to there is gone then."""
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self.said:
            self.read_some(deadline)
        before, _, self.said = self.said.partition(text.encode())
        return before.decode()

    def ends(self):
        """The exit status. What is said meanwhile is read: nobody waits for us."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.02)[0]:
                self.read_some(deadline)
            check(time.monotonic() < deadline, f'it does not end; it said {self.said[-2000:]!r}')
        return self.process.returncode

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[LFLAG] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def is_as_before(self):
        return termios.tcgetattr(self.slave) == self.before

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def at_terminal(d, *words, **more):
    return Terminal(DRESSAGE, '--mount', d.mnt, 'exec', '-it', *words, **more)


@case
def a_command_at_a_terminal_has_one_of_its_own_and_the_exit_status_comes_back(d):
    d.mkdir('t')
    with at_terminal(d, 't', '--', 'sh', '-c', 'test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; echo "$TERM"; read line; echo "<$line>"; exit 7') as terminal:
        contains(terminal.expect('30 90\r\n'), 'tty\r\n')
        terminal.expect('vt220\r\n')
        check(terminal.is_raw(), 'the terminal is not raw')
        terminal.type('keys\r')
        terminal.expect('keys\r\n<keys>\r\n')  # its own terminal echoes, once
        equal(terminal.ends(), 7)
        check(terminal.is_as_before(), 'the terminal is not as it was')


@case
def without_a_command_it_is_a_shell_and_control_D_ends_it(d):
    d.mkdir('t')
    with at_terminal(d, 't') as terminal:
        terminal.type('echo $((6 * 7)); exec 3< /dev/tty && echo has_a_tty\r')
        terminal.expect('42\r\n')
        terminal.expect('has_a_tty\r\n')
        terminal.type("PS1='next''> '\r")
        terminal.expect('next> ')
        terminal.type('(exit 5)\r')
        terminal.expect('next> ')  # it has the terminal now as it wants it
        terminal.type('\x04')
        equal(terminal.ends(), 5)
        check(terminal.is_as_before(), 'the terminal is not as it was')


@case
def control_C_is_a_key_for_the_command_s_terminal(d):
    d.mkdir('t')
    with at_terminal(d, 't', '--', 'sh', '-c', 'trap "echo caught; exit 3" INT; echo up; while :; do sleep 0.05; done') as terminal:
        terminal.expect('up\r\n')
        terminal.type('\x03')
        terminal.expect('caught')
        equal(terminal.ends(), 3)


@case
def control_C_at_a_terminal_far_behind_skips_what_it_has_not_shown(d):
    for options in (['-it'], []):
        d.mkdir('t')
        script = 'head -c 8000000 /dev/zero | tr "\\0" x; touch done; exec sleep 1000'
        with Terminal(DRESSAGE, '--mount', d.mnt, 'exec', *options, 't', '--', 'sh', '-c', script) as terminal:
            has_file(d, 't', 'done')  # we have read nothing yet
            terminal.type('\x03')
            equal(terminal.ends(), 128 + signal.SIGINT)
            check(len(terminal.said) < 1 << 20, f'{len(terminal.said)} bytes were shown')
        d.rmdir('t')
        d.wait_ready()


@case
def a_terminal_that_changes_its_size_changes_the_command_s(d):
    d.mkdir('t')
    with at_terminal(d, 't', '--', 'sh', '-c', 'trap "stty size; exit 0" WINCH; echo up; while :; do sleep 0.05; done') as terminal:
        terminal.expect('up\r\n')
        terminal.resize(44, 133)
        terminal.expect('44 133')
        equal(terminal.ends(), 0)


@case
def the_terminal_is_as_it_was_after_TERM_and_HUP_and_the_shell_in_it_has_ended(d):
    d.mkdir('t')
    for number in (signal.SIGTERM, signal.SIGHUP):
        with at_terminal(d, 't') as terminal:
            terminal.type('echo $((40 + 2))\r')
            terminal.expect('42\r\n')
            terminal.process.send_signal(number)
            check(terminal.ends() > 128, 'no exit status of a signal')
            check(terminal.is_as_before(), 'the terminal is not as it was')
        check(result_of(d, 't')['returncode'] < 0, 'the shell did not end by a signal')


@case
def the_terminal_is_as_it_was_even_after_KILL_and_a_crash(d):
    d.mkdir('t')
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1):
        with at_terminal(d, 't', '--', 'sh', '-c', 'echo up; read line') as terminal:
            terminal.expect('up\r\n')
            check(terminal.is_raw(), 'the terminal is not raw')
            terminal.process.send_signal(number)
            code = terminal.ends()
            check(code == -number or (SANITIZED and code > 0), f'it ended with {code}')
            eventually(terminal.is_as_before, 'the terminal is as it was')


def is_stopped(parent):
    """Whether the child of that process is."""
    with open(f'/proc/{parent}/task/{parent}/children', encoding='ascii') as f:
        child = f.read().split()[0]
    with open(f'/proc/{child}/stat', encoding='ascii') as f:
        return f.read().rpartition(')')[2].split()[0] == 'T'


@case
def a_stop_gives_the_terminal_back_and_going_on_takes_it_again(d):
    d.mkdir('t')
    shell = 'set -m; "$@"; echo "stopped $?"; stty -a; stty -echo; bg >&2; echo "in the background"; read line; stty echo; fg >/dev/null; echo "ended $?"'
    tool = (DRESSAGE, '--mount', d.mnt, 'exec', '-it', 't', '--', 'sh', '-c', 'echo up; read line; echo "<$line>"; exit 4')
    with Terminal('bash', '-c', shell, 'bash', *tool) as terminal:
        terminal.expect('up\r\n')
        check(terminal.is_raw(), 'the terminal is not raw')
        os.killpg(os.tcgetpgrp(terminal.master), signal.SIGTSTP)
        terminal.expect('stopped 148\r\n')
        check(re.search(r' icanon .* echo ', terminal.expect('echoke'), re.S), 'a stopped one left the terminal raw')
        terminal.expect('in the background\r\n')
        eventually(lambda: is_stopped(terminal.process.pid), 'it is stopped in the background')
        terminal.type('\n')
        eventually(terminal.is_raw, 'the terminal is raw again')
        terminal.type('again\r')
        terminal.expect('<again>\r\n')
        terminal.expect('ended 4')
        equal(terminal.ends(), 0)
        check(terminal.is_as_before(), 'the terminal is not as it was')


@case
def what_is_refused_is_said_at_a_terminal_as_it_was(d):
    with at_terminal(d, 'nobody') as terminal:
        terminal.expect("no lease 'nobody'")
        equal(terminal.ends(), 125)
        check(terminal.is_as_before(), 'the terminal is not as it was')


@case
def a_terminal_is_given_back_when_the_daemon_dies():
    with Daemon(slots=1) as d:
        d.mkdir('t')
        with at_terminal(d, 't', '--', 'sh', '-c', 'echo up; read line') as terminal:
            terminal.expect('up\r\n')
            d.kill()
            terminal.expect('has gone')
            equal(terminal.ends(), 125)
            check(terminal.is_as_before(), 'the terminal is not as it was')
        d.start()


main(slots=3)
