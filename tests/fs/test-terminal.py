# SPDX-License-Identifier: LGPL-2.1-or-later
"""A command's terminal: "tty" of exec/new, seen through files alone."""
import errno
import json
import os

from harness import case, check, contains, equal, eventually, fails_with, main, read_all


def start(d, lease, script, rows=24, cols=80, **more):
    """A command with a terminal: the directory of its files."""
    fd = os.open(d.lease(lease, 'exec', 'new'), os.O_RDWR)
    try:
        os.write(fd, json.dumps({'command': script, 'tty': {'rows': rows, 'cols': cols}, **more}).encode())
        return d.lease(lease, 'exec', str(int(read_all(fd))))
    finally:
        os.close(fd)


def text(path):
    with open(path, encoding='utf-8', newline='') as f:
        return f.read()


def write(path, what):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(what)


def shown(top, wanted):
    """Waits until the terminal shows it, without waiting at its end."""
    def shows():
        fd = os.open(f'{top}/stdout', os.O_RDONLY | os.O_NONBLOCK)
        try:
            return wanted in os.read(fd, 1 << 20)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
    eventually(shows, f'it shows {wanted!r}')


@case
def all_three_descriptors_are_a_terminal_of_the_size_asked_for_and_what_it_shows_is_stdout(d):
    d.mkdir('t')
    top = start(d, 't', 'stty size; test -t 0 && test -t 1 && test -t 2 && echo three; echo err >&2; echo mine > /dev/tty', 33, 101)
    equal(json.loads(text(f'{top}/wait'))['returncode'], 0)
    equal(text(f'{top}/stdout'), '33 101\r\nthree\r\nerr\r\nmine\r\n')
    equal(text(f'{top}/stderr'), '')


@case
def stdin_types_the_last_writer_s_close_is_control_D_and_a_large_output_is_whole(d):
    d.mkdir('t')
    top = start(d, 't', 'stty -echo; echo ready; cat; seq 50000')
    shown(top, b'ready')
    write(f'{top}/stdin', 'one\n')
    equal(json.loads(text(f'{top}/wait'))['returncode'], 0)
    equal(text(f'{top}/stdout'), 'ready\r\none\r\n' + ''.join(f'{n}\r\n' for n in range(1, 50001)))


@case
def control_C_reaches_the_foreground_and_winsize_resizes(d):
    d.mkdir('t')
    top = start(d, 't', "trap 'stty size' WINCH; trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done")
    shown(top, b'ready')
    write(f'{top}/signal', 'winsize 50 132\n')
    shown(top, b'50 132\r\n')
    stdin = os.open(f'{top}/stdin', os.O_WRONLY)
    os.write(stdin, b'\x03')
    shown(top, b'caught')
    equal(json.loads(text(f'{top}/wait'))['returncode'], 5)
    fails_with(errno.EPIPE, os.write, stdin, b'x')
    os.close(stdin)
    fails_with(errno.ESRCH, write, f'{top}/signal', 'winsize 1 1\n')


@case
def a_background_process_on_the_terminal_does_not_hold_the_end(d):
    d.mkdir('t')
    top = start(d, 't', "trap '' HUP; sleep 1000 & echo done")
    equal(json.loads(text(f'{top}/wait'))['stdout'], 'done\r\n')


@case
def what_is_no_size_is_refused_and_run_command_has_no_terminal(d):
    d.mkdir('t')
    for tty, part in (({'rows': 0, 'cols': 1}, 'rows'), ({'rows': 1}, 'cols'), ({'rows': 1, 'cols': 70000}, 'cols')):
        fails_with(errno.EINVAL, lambda tty=tty: start(d, 't', 'true', tty=tty))
        contains(text(d.lease('t', 'last_error')), part)
    equal(os.listdir(d.lease('t', 'exec')), ['new'])
    fd = os.open(d.lease('t', 'run_command'), os.O_RDWR)
    os.write(fd, b'{"command": "true", "tty": {"rows": 1, "cols": 1}}')
    fails_with(errno.EINVAL, os.read, fd, 100)
    os.close(fd)
    top = start(d, 't', 'sleep 1000')
    for words in ('winsize 0 1', 'winsize 1', 'winsize 1 2 3', 'winsize a b'):
        fails_with(errno.EINVAL, write, f'{top}/signal', words + '\n')
    write(f'{top}/signal', 'KILL\n')
    check('"signal":"SIGKILL"' in text(f'{top}/wait'), 'it was killed')


main()
