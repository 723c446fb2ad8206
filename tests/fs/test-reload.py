# SPDX-License-Identifier: LGPL-2.1-or-later
"""SIGHUP: what may change while a daemon runs changes, the rest is named, a broken file changes nothing."""
import errno
import fcntl
import os
import pty
import signal
import subprocess
import termios

from harness import PATIENCE, Daemon, Scratch, case, check, contains, equal, eventually, main

BEFORE = '[pool]\nlease_ttl = 10m\n[exec]\nshell = /bin/sh -c\n'


def configure(d, text):
    with open(os.path.join(d.base, 'dressage.ini'), 'w', encoding='utf-8') as f:
        f.write(text)


def contents(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def hang_up(d, text, sign):
    """Writes the file, sends SIGHUP and waits until the log says that; gives what it said since."""
    before = len(d.whole_log())
    configure(d, text)
    os.kill(d.pid, signal.SIGHUP)
    eventually(lambda: sign in d.whole_log()[before:], f'the log says {sign!r}')
    return d.whole_log()[before:]


@case
def what_is_live_changes_with_SIGHUP_for_what_comes_next():
    with Daemon(slots=2, config=BEFORE) as d:
        d.mkdir('old')
        check(590 <= int(d.read('leases', 'old', 'ttl')) <= 600, 'the ttl of before')
        said = hang_up(d, '[pool]\nlease_ttl = 20m\n[exec]\nshell = /bin/sh -c\ntimeout = 0.2\ntimeout_max = 5\n', 'exec.timeout_max is')
        contains(said, "info  SIGHUP: pool.lease_ttl is '20m' from now on, it was '10m'\n")
        contains(said, "SIGHUP: exec.timeout is '200ms' from now on, it was '0'\n")
        check('restart' not in said, said)
        d.mkdir('new')
        check(1190 <= int(d.read('leases', 'new', 'ttl')) <= 1200, 'the ttl of after')
        check(int(d.read('leases', 'old', 'ttl')) <= 600, 'a lease that is there keeps its own')
        reply = d.ask('leases/old/run_command', 'sleep 1000')
        equal((reply['timed_out'], reply['returncode']), (True, -9))
        contains(d.read('slots', '0000', 'limits'), '5s')


@case
def what_needs_a_restart_is_named_and_stays():
    with Daemon(slots=1, config=BEFORE) as d:
        said = hang_up(d, BEFORE + '[slot]\npids_max = 99\n[mount]\nsymlinks = raw\n', 'slot.pids_max')
        contains(said, "warn  SIGHUP: slot.pids_max changed to '99': needs a restart, it stays '1024'\n")
        contains(said, "SIGHUP: mount.symlinks changed to 'raw': needs a restart, it stays 'contain'\n")
        equal(d.read('slots', '0000', 'state'), 'READY\n')
        contains(d.read('config'), 'slot.pids_max = 1024  ; default, before SIGHUP: needs a restart\n')
        hang_up(d, BEFORE, 'the settings are what they were')
        contains(d.read('config'), 'slot.pids_max = 1024  ; default\n')


@case
def a_broken_file_changes_nothing_and_the_log_says_why():
    with Daemon(slots=1, config=BEFORE) as d:
        shown = d.read('config')
        said = hang_up(d, '[pool]\nlease_ttl = 20m\nlease_tll = 30m\n', 'lease_tll')
        contains(said, 'warn  SIGHUP: the settings stay as they are: ')
        contains(said, "dressage.ini:3: [pool] has no key 'lease_tll'; did you mean 'lease_ttl'?")
        equal(d.read('config'), shown)
        os.unlink(os.path.join(d.base, 'dressage.ini'))
        os.kill(d.pid, signal.SIGHUP)
        eventually(lambda: 'cannot open the configuration file' in d.whole_log(), 'the log says that it is missing')
        d.mkdir('t')
        check(int(d.read('leases', 't', 'ttl')) <= 600, 'the ttl is that of before')


@case
def config_shows_what_is_in_force_and_where_it_comes_from():
    with Daemon(slots=1, config=BEFORE) as d:
        contains(d.read('config'), f'pool.lease_ttl = 10m  ; {d.base}/dressage.ini:2\n')
        hang_up(d, '# longer\n[pool]\nlease_ttl = 20m\n', 'exec.shell is')
        contains(d.read('config'), f'pool.lease_ttl = 20m  ; {d.base}/dressage.ini:3\n')
        contains(d.read('config'), 'exec.shell = /bin/sh -lc  ; default\n')
        equal(os.stat(d.path('config')).st_size, len(d.read('config').encode()))


@case
def an_option_of_the_command_line_still_goes_before_the_file():
    with Daemon(slots=1, config=BEFORE, options=['pool.lease_ttl=5m']) as d:
        hang_up(d, '[pool]\nlease_ttl = 20m\nhold_grace = 9s\n', 'pool.hold_grace is')
        contains(d.read('config'), 'pool.lease_ttl = 5m  ; -o\n')


@case
def the_log_becomes_quieter_and_louder():
    with Daemon(slots=1, config=BEFORE) as d:
        hang_up(d, '[dressage]\nlog_level = error\n', "dressage.log_level is 'error'")
        before = len(d.whole_log())
        configure(d, '[dressage]\nlog_level = error\n[pool]\nlease_ttl = 7m\n')
        os.kill(d.pid, signal.SIGHUP)
        eventually(lambda: 'pool.lease_ttl = 7m' in d.read('config'), 'the setting has changed')
        equal(d.whole_log()[before:], '')
        configure(d, BEFORE)
        os.kill(d.pid, signal.SIGHUP)
        eventually(lambda: 'pool.lease_ttl = 10m' in d.read('config'), 'the setting has changed back')
        hang_up(d, BEFORE, 'the settings are what they were')


@case
def a_log_that_was_moved_aside_goes_on_in_a_new_file():
    with Scratch() as logs:
        path = os.path.join(logs, 'log')
        for options in ([f'dressage.log_file={path}'], []):
            with Daemon(slots=1, config=BEFORE, options=options) as d:
                current = path if options else os.path.join(d.state, 'dressagefs.log')
                os.rename(current, current + '.1')
                os.kill(d.pid, signal.SIGHUP)
                eventually(lambda: os.path.exists(current), 'there is a new file')
                eventually(lambda: 'the settings are' in contents(current), 'it goes on there')
                check('SIGHUP' not in contents(current + '.1'), 'it goes on in the old file')


@case
def a_relative_name_of_the_file_means_what_it_meant_at_the_start():
    with Scratch() as place:
        with open(os.path.join(place, 'my.ini'), 'w', encoding='utf-8') as f:
            f.write(BEFORE)
        here = os.getcwd()
        os.chdir(place)
        with Daemon(slots=1, command=['--config', 'my.ini']) as d:
            os.chdir(here)
            with open(os.path.join(place, 'my.ini'), 'w', encoding='utf-8') as f:
                f.write('[pool]\nlease_ttl = 20m\n')
            os.kill(d.pid, signal.SIGHUP)
            eventually(lambda: 'pool.lease_ttl = 20m' in d.read('config'), 'the setting has changed')


def open_for_reader(fifo):
    """A writer's descriptor, once somebody reads; he waits as long as it is open."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as e:
        equal(e.errno, errno.ENXIO)
        return None


@case
def a_stop_waits_ten_seconds_and_no_longer_for_what_does_not_answer():
    d = Daemon(slots=1, config=BEFORE)
    writer = None
    try:
        d.start()
        os.unlink(os.path.join(d.base, 'dressage.ini'))
        os.mkfifo(os.path.join(d.base, 'dressage.ini'))
        os.kill(d.pid, signal.SIGHUP)
        writer = eventually(lambda: open_for_reader(os.path.join(d.base, 'dressage.ini')), 'somebody waits for the file')
        d.process.send_signal(signal.SIGTERM)
        equal(d.process.wait(PATIENCE), 1)
        contains(d.whole_log(), 'error the stop takes too long, most likely for a file system that does not answer')
        d.look_for_leftovers()
    finally:
        if writer:
            os.close(writer)
        d.destroy()


def in_a_terminal(d):
    """Starts it in the foreground of a terminal of its own; gives the terminal's other end."""
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    d.process = subprocess.Popen([*d.words, '-f', d.mnt], env=d.env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal)
    os.close(slave)
    eventually(lambda: os.path.exists(d.path('status')), 'it is mounted')
    return master


@case
def in_a_terminal_SIGHUP_reads_again_and_the_end_of_the_terminal_stops():
    with Scratch() as logs:
        d = Daemon(slots=1, config=BEFORE, options=[f'dressage.log_file={logs}/log'])
        try:
            master = in_a_terminal(d)
            configure(d, '[pool]\nlease_ttl = 20m\n')
            os.kill(d.pid, signal.SIGHUP)
            eventually(lambda: 'pool.lease_ttl = 20m' in d.read('config'), 'the setting has changed')
            os.close(master)
            equal(d.process.wait(PATIENCE), 0)
            d.look_for_leftovers()
        finally:
            d.destroy()


main(slots=1)
