# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which signals of a waiting client end its command, and which do not; a writer that dies runs nothing."""
import json
import os
import pty
import signal
import subprocess
import threading

from harness import PATIENCE, Failed, case, check, contains, equal, eventually, main, need, sleeps_with, test_environment

PYTHON = '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else 'python3'

# Runs a command that ends when /workspace/go appears, and prints the reply; argv: run_command, setup code
CLIENT = '''
import os, signal, sys
exec(sys.argv[2])
fd = os.open(sys.argv[1], os.O_RDWR)
os.write(fd, b"touch started; while [ ! -e go ]; do sleep 0.01; done; echo survived")
print("writing", flush=True)
reply = b""
while True:
    part = os.read(fd, 1 << 20)
    if not part:
        break
    reply += part
signal.setitimer(signal.ITIMER_REAL, 0)
print(reply.decode(), flush=True)
'''


class Client:
    """A client that waits for its command."""

    def __init__(self, d, setup='', **more):
        d.mkdir('t')
        self.d = d
        self.workspace = d.lease('t', 'fs', 'workspace')
        self.process = subprocess.Popen([PYTHON, '-c', CLIENT, d.lease('t', 'run_command'), setup], env=test_environment(),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        equal(self.process.stdout.readline(), 'writing\n')
        eventually(lambda: os.path.exists(self.workspace + '/started'), 'the command runs')

    def let_go(self):
        with open(self.workspace + '/go', 'w', encoding='utf-8'):
            pass

    def expect_survival(self):
        self.let_go()
        out, err = self.process.communicate(timeout=PATIENCE)
        equal((self.process.returncode, err), (0, ''))
        result = json.loads(out)
        equal((result['stdout'], result['returncode']), ('survived\n', 0))

    def expect_death_of_the_command(self, returncode):
        self.process.communicate(timeout=PATIENCE)
        equal(self.process.returncode, returncode)
        eventually(lambda: command_count(self.d) == 0, 'the command is dead')
        equal(self.d.run('t', 'echo next')['stdout'], 'next\n')


def command_count(d):
    """Commands in the lease that wait for `go`, seen from inside."""
    out = d.run('t', 'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; echo; done | grep -c "[e]cho survived"')['stdout']
    return int(out)


def signalled(name, setup, *signals):
    def function(d):
        client = Client(d, setup)
        for number in signals:
            client.process.send_signal(number)
            # the kernel has told the daemon when another request of the lease is answered
            equal(d.read('leases', 't', 'state'), 'ACTIVE\n')
        client.expect_survival()
    function.__name__ = name
    case(function)


signalled('a_command_survives_SIGALRM_with_a_handler',
          'signal.signal(signal.SIGALRM, lambda *a: None)', signal.SIGALRM, signal.SIGALRM)
signalled('a_command_survives_SIGWINCH_with_and_without_a_handler', 'signal.signal(signal.SIGWINCH, lambda *a: None)',
          signal.SIGWINCH, signal.SIGWINCH)
signalled('a_command_survives_SIGWINCH_that_is_ignored_by_default', '', signal.SIGWINCH)
signalled('a_command_survives_SIGUSR1_and_SIGCHLD_with_handlers',
          'signal.signal(signal.SIGUSR1, lambda *a: None); signal.signal(signal.SIGCHLD, lambda *a: None)',
          signal.SIGUSR1, signal.SIGCHLD)
signalled('a_command_survives_an_interval_timer', 'signal.signal(signal.SIGALRM, lambda *a: None); '
          'signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)', signal.SIGALRM)


@case
def a_command_survives_stop_and_continue_of_its_client(d):
    client = Client(d)
    client.process.send_signal(signal.SIGSTOP)
    check(command_count(d) >= 1, 'the command is dead')
    client.let_go()  # the kernel stops a process that waits for a file system only when that has answered
    eventually(lambda: state_of(client.process.pid) == 'T', 'the client is stopped')
    client.process.send_signal(signal.SIGCONT)
    client.expect_survival()


def state_of(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
        return f.read().rpartition(')')[2].split()[0]


class Terminal:
    """An interactive bash on a pty, as a person has it."""

    def __init__(self, d):
        self.file = d.lease('t', 'run_command')
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe('bash', ['bash', '--norc', '--noprofile', '-i'],
                       {**test_environment(), 'F': self.file, 'W': d.lease('t', 'fs', 'workspace'),
                        'PS1': 'ready> ', 'TERM': 'dumb'})
        self.seen, self.after = '', 0  # the reader's; up to where we have looked
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait_for('ready> ')

    def read(self):
        while True:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                return
            if not data:
                return
            self.seen += data.decode(errors='replace')

    def wait_for(self, text):
        try:
            eventually(lambda: self.seen.find(text, self.after) >= 0, f'{text!r} on the terminal')
        except Failed as e:
            raise Failed(f'{e}: {self.seen[self.after:]!r}') from None
        self.after = self.seen.find(text, self.after) + len(text)

    def wait_for_reader(self):
        """Until a cat of this shell waits for the reply."""
        def waits():
            with open(f'/proc/{self.pid}/task/{self.pid}/children', encoding='ascii') as f:
                children = f.read().split()
            return any(os.path.exists(f'/proc/{child}/task') and sleeps_with(self.file, child) for child in children)
        eventually(waits, 'cat waits for the reply')

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def with_terminal(function):
    def inner(d):
        d.mkdir('t')
        terminal = Terminal(d)
        try:
            function(d, terminal)
        finally:
            terminal.close()
    inner.__name__ = function.__name__
    return case(inner)


WAIT_FOR_GO = 'echo "touch started; while [ ! -e go ]; do sleep 0.01; done; echo survived" > $F; cat $F\n'


@with_terminal
def a_command_survives_Ctrl_Z_and_fg_of_its_client(d, terminal):
    terminal.type(WAIT_FOR_GO)
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'started')), 'the command runs')
    terminal.wait_for_reader()
    terminal.type('\x1a')
    check(command_count(d) >= 1, 'the command is dead')
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    terminal.wait_for('Stopped')
    terminal.type('fg\n')
    terminal.wait_for('"stdout":"survived')


@with_terminal
def Ctrl_C_of_the_client_that_asked_ends_the_command(d, terminal):
    terminal.type('exec 3<>$F; echo "touch started; while [ ! -e go ]; do sleep 0.01; done; echo survived" >&3; cat <&3\n')
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'started')), 'the command runs')
    terminal.wait_for_reader()
    terminal.type('\x03')
    terminal.wait_for('ready> ')
    eventually(lambda: command_count(d) == 0, 'the command is dead')
    equal(d.run('t', 'echo next')['stdout'], 'next\n')


@with_terminal
def Ctrl_C_of_somebody_who_only_looked_on_leaves_the_command_alone(d, terminal):
    terminal.type(WAIT_FOR_GO)
    eventually(lambda: os.path.exists(d.lease('t', 'fs', 'workspace', 'started')), 'the command runs')
    terminal.wait_for_reader()
    terminal.type('\x03')
    terminal.wait_for('ready> ')
    check(command_count(d) >= 1, 'the command is dead')
    with open(d.lease('t', 'fs', 'workspace', 'go'), 'w', encoding='utf-8'):
        pass
    eventually(lambda: command_count(d) == 0, 'the command has ended')


@case
def a_command_survives_strace_of_its_client(d):
    strace = need('strace')
    client = Client(d)
    tracer = subprocess.Popen([strace, '-qq', '-o', '/dev/null', '-p', str(client.process.pid)], env=test_environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: tracer_of(client.process.pid) or tracer.poll() is not None, 'strace is attached')
        check(tracer.poll() is None, 'strace did not attach')
        check(command_count(d) >= 1, 'the command is dead')
        client.expect_survival()
        tracer.communicate(timeout=PATIENCE)
    finally:
        if tracer.poll() is None:
            tracer.kill()
            tracer.communicate()


def tracer_of(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        return int(next(line.split()[1] for line in f if line.startswith('TracerPid:')))


def deadly(name, number):
    def function(d):
        client = Client(d, 'signal.signal(signal.SIGINT, signal.SIG_DFL); '
                        'import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))')
        client.process.send_signal(number)
        client.expect_death_of_the_command(-number)
    function.__name__ = name
    case(function)


deadly('a_command_dies_with_its_client_of_SIGINT', signal.SIGINT)
deadly('a_command_dies_with_its_client_of_SIGTERM', signal.SIGTERM)
deadly('a_command_dies_with_its_client_of_SIGKILL', signal.SIGKILL)
deadly('a_command_dies_with_its_client_of_SIGHUP', signal.SIGHUP)
deadly('a_command_dies_with_its_client_of_SIGQUIT', signal.SIGQUIT)
deadly('a_command_dies_with_its_client_of_SIGABRT', signal.SIGABRT)


@case
def a_command_dies_with_Ctrl_C_in_a_python_client_with_its_default_handler(d):
    client = Client(d)
    client.process.send_signal(signal.SIGINT)
    client.process.communicate(timeout=PATIENCE)
    eventually(lambda: command_count(d) == 0, 'the command is dead')


@case
def a_background_child_dies_with_its_cancelled_command(d):
    d.mkdir('t')
    workspace = d.lease('t', 'fs', 'workspace')
    process = subprocess.Popen([PYTHON, '-c', CLIENT.replace('touch started', '(sleep 1000 & touch started); wait'),
                                d.lease('t', 'run_command'), ''], env=test_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: os.path.exists(workspace + '/started'), 'the command runs')
    process.kill()
    process.communicate(timeout=PATIENCE)

    def sleepers():
        out = d.run('t', 'cat /proc/[0-9]*/comm | grep -c "^slee[p]$"')['stdout']
        return int(out)
    eventually(lambda: sleepers() == 0, 'the child is dead')


@case
def a_writer_killed_in_mid_script_runs_nothing(d):
    d.mkdir('t')
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            ['bash', '-c', '{ echo "touch ran"; echo; kill -STOP $BASHPID; echo "echo the rest"; } > $F'],
            env={**test_environment(), 'F': d.lease('t', 'run_command')}, stderr=subprocess.PIPE)
        eventually(lambda p=process: state_of(p.pid) == 'T', 'half the script is written')
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=PATIENCE)
        equal(process.returncode, -number)
        contains(eventually(lambda: d.read('leases', 't', 'last_error'), 'last_error says so'), 'killed')
        equal(d.run('t', 'ls')['stdout'], '')


main(slots=2)
