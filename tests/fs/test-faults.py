# SPDX-License-Identifier: LGPL-2.1-or-later
"""What went wrong elsewhere with time limits and what they leave behind: docs/faults.md."""
import os
import socket
import threading
import time

from harness import PATIENCE, case, check, contains, equal, eventually, main

PORT = 18080
LISTEN = ('import os, socket, sys, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); '
          f's = socket.create_server(("127.0.0.1", {PORT})); open("/workspace/listening", "w").close(); time.sleep(1000)')
CONNECT = f'import socket; socket.create_connection(("127.0.0.1", {PORT}), 5)'


def processes_in(d, lease):
    """How many live in its slot beside init, the shell and what it counts with."""
    return int(d.run(lease, 'n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n')['stdout'])


def alone(d, lease, baseline):
    eventually(lambda: processes_in(d, lease) == baseline, 'as many processes as before')


def begun(d, lease, name='begun'):
    eventually(lambda: os.path.exists(d.lease(lease, 'fs', 'workspace', name)), f'{name} is there')


def until_it_is_up(d, command, look, seconds=1):
    """Runs the command with a timeout, and look() beside it, which says whether what it starts was up before its time was over. On a
    busy machine that takes longer: tried with more time."""
    outcome = {}
    waiter = threading.Thread(target=lambda: outcome.update(d.run('t', command, timeout=seconds)))
    waiter.start()
    was_up = False
    while waiter.is_alive() and not was_up:
        was_up = look()
    waiter.join(PATIENCE + seconds)
    equal(outcome['timed_out'], True)
    if not was_up:
        check(seconds < PATIENCE, 'what the command starts is not up')
        until_it_is_up(d, command, look, seconds * 3)


@case
def a_sleeping_background_process_holds_neither_the_result_of_a_timeout_nor_the_reset(d):
    d.mkdir('t')
    start = time.monotonic()
    result = d.run('t', 'echo before; sleep 1200 & sleep 6000', timeout=2)
    check(time.monotonic() - start < 2 + 5, 'the result was late')
    equal((result['timed_out'], result['stdout'], result['returncode']), (True, 'before\n', -9))
    generation = int(d.read('slots', f'{d.slot_of("t"):04d}', 'generation'))
    slot = f'{d.slot_of("t"):04d}'
    start = time.monotonic()
    d.rmdir('t')
    eventually(lambda: (d.read('slots', slot, 'state'), int(d.read('slots', slot, 'generation'))) == ('READY\n', generation + 1),
               'the slot is READY again')
    check(time.monotonic() - start < 5 + 5, 'the reset was late')


@case
def a_listener_that_daemonized_is_gone_with_its_timeout(d):
    d.mkdir('t')
    baseline = processes_in(d, 't')
    until_it_is_up(d, f"python3 -c '{LISTEN}'; sleep 1000", lambda: d.run('t', ['python3', '-c', CONNECT])['returncode'] == 0)
    alone(d, 't', baseline)
    contains(d.run('t', ['python3', '-c', CONNECT])['stderr'], 'refused')
    d.rmdir('t')


@case
def a_busy_loop_uses_no_processor_after_its_timeout(d):
    d.mkdir('t')
    baseline = processes_in(d, 't')
    equal(d.run('t', 'while :; do :; done & while :; do :; done', timeout=0.5)['timed_out'], True)
    alone(d, 't', baseline)  # nothing is left that could use any
    d.rmdir('t')


@case
def fifty_timeouts_in_a_row_leave_as_many_processes_as_before(d):
    d.mkdir('t')
    baseline = processes_in(d, 't')
    for _ in range(50):
        equal(d.run('t', 'sleep 1000 & (setsid sleep 1000 &) ; sleep 1000', timeout=0.02)['timed_out'], True)
    alone(d, 't', baseline)
    equal(d.run('t', 'echo still')['stdout'], 'still\n')
    d.rmdir('t')


@case
def a_tree_of_three_levels_with_sessions_of_their_own_is_dead_at_the_deadline(d):
    d.mkdir('t')
    baseline = processes_in(d, 't')
    tree = 'sh -c "setsid sh -c \'trap : TERM HUP INT; setsid sleep 1000 & touch begun; sleep 1000; sleep 1000\'; sleep 1000"; sleep 1000'
    begun_file = d.lease('t', 'fs', 'workspace', 'begun')
    until_it_is_up(d, tree, lambda: os.path.exists(begun_file) and processes_in(d, 't') > baseline + 2)
    alone(d, 't', baseline)
    d.rmdir('t')


@case
def a_thousand_orphans_leave_no_zombie(d):
    d.mkdir('t')
    baseline = processes_in(d, 't')
    for _ in range(10):
        equal(d.run('t', 'for i in 0 1 2 3 4 5 6 7 8 9; do for j in 0 1 2 3 4 5 6 7 8 9; do (true &) ; done; done')['returncode'], 0)
    alone(d, 't', baseline)
    d.rmdir('t')


@case
def a_command_that_nobody_gave_a_time_is_not_ended(d):
    d.mkdir('t')
    result = d.run('t', 'sleep 1; echo done')
    equal((result['stdout'], result['timed_out']), ('done\n', False))
    equal(d.run('t', 'false')['returncode'], 1)
    d.rmdir('t')


@case
def a_slot_reaches_no_port_of_another_slot(d):
    d.mkdir('t')
    d.mkdir('u')
    d.run('t', f"python3 -c '{LISTEN}'")
    begun(d, 't', 'listening')
    equal(d.run('t', ['python3', '-c', CONNECT])['returncode'], 0)
    check(d.run('u', ['python3', '-c', CONNECT])['returncode'] != 0, 'it reached the other slot')
    with socket.socket() as s:
        check(s.connect_ex(('127.0.0.1', PORT)) != 0, 'it is a port of the host')
    d.rmdir('t')
    d.rmdir('u')


main(slots=3)
