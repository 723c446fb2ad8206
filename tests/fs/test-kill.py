# SPDX-License-Identifier: LGPL-2.1-or-later
"""Commands that run out of their time, and what they leave behind: nothing."""
import concurrent.futures
import errno
import time

from harness import Daemon, case, check, equal, eventually, fails_with, main


def below(pid):
    """States of the processes below this one, as the host sees them: a letter each."""
    states = ''
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
            for child in f.read().split():
                with open(f'/proc/{child}/stat', encoding='utf-8', errors='replace') as stat:
                    states += stat.read().rsplit(')', 1)[1].split()[0]
                states += below(child)
    except OSError:  # it has gone meanwhile
        states += '?'
    return states


def init_of(d, lease):
    return int(d.read('slots', f'{d.slot_of(lease):04}', 'pid'))


def nothing_lives(d, lease):
    eventually(lambda: not below(init_of(d, lease)).strip('Z'), 'nothing of the commands lives')


def processor_time_of(pid):
    """Microseconds that its cgroup has used; None where it has none of its own."""
    with open(f'/proc/{pid}/cgroup', encoding='ascii') as f:
        name = next((line[3:].strip() for line in f if line.startswith('0::')), '')
    with open('/proc/self/mounts', encoding='utf-8', errors='surrogateescape') as f:
        top = next((line.split()[1] for line in f if line.split()[2] == 'cgroup2'), None)
    if not top or 'dressage-' not in name:
        return None
    with open(f'{top}{name}/cpu.stat', encoding='ascii') as f:
        return int(f.readline().split()[1])


def seconds(call):
    before = time.monotonic()
    result = call()
    return result, time.monotonic() - before


@case
def a_child_that_holds_the_pipes_does_not_hold_a_timed_out_command(d):
    d.mkdir('t')
    result, took = seconds(lambda: d.run('t', 'sleep 12 & sleep 60', timeout=1))
    equal((result['timed_out'], result['returncode'], result['metadata']['reason']), (True, -9, 'timeout'))
    check(took < 7, f'it took {took:.1f} s')  # 2 on a machine that has nothing else to do
    nothing_lives(d, 't')
    slot = f'{d.slot_of("t"):04}'
    d.rmdir('t')
    eventually(lambda: d.read('slots', slot, 'state') == 'READY\n', 'the slot is READY')


@case
def the_port_of_a_daemonised_listener_is_closed_after_the_timeout(d):
    d.mkdir('t')
    listener = '''import os, socket, time
s = socket.socket(); s.bind(("127.0.0.1", 4711)); s.listen()
if os.fork(): os.wait(); open("/workspace/up", "w"); time.sleep(1000)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(1000)'''
    with concurrent.futures.ThreadPoolExecutor() as pool:
        command = pool.submit(d.run, 't', ['python3', '-c', listener], timeout=6)
        knock = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/4711'"
        equal(d.run('t', f'until [ -e up ]; do sleep 0.05; done; {knock}')['returncode'], 0)
        check(command.result()['timed_out'], 'it has not run out of time')
    check(d.run('t', knock)['returncode'] != 0, 'its port is open still')


@case
def a_busy_loop_uses_no_processor_after_its_timeout(d):
    d.mkdir('t')
    check(d.run('t', '(while :; do :; done) & while :; do :; done', timeout=1)['timed_out'], 'it has not run out of time')
    nothing_lives(d, 't')
    before = processor_time_of(init_of(d, 't'))
    if before is not None:
        time.sleep(0.5)
        used = processor_time_of(init_of(d, 't')) - before
        check(used < 100000, f'{used} us in half a second')


@case
def fifty_timeouts_in_a_row_leave_no_process_behind(d):
    d.mkdir('t')
    for _ in range(50):
        check(d.run('t', 'setsid sleep 1000 & sleep 1000', timeout=0.05)['timed_out'], 'it has not run out of time')
    nothing_lives(d, 't')


@case
def three_generations_with_a_session_of_their_own_are_dead_at_the_deadline(d):
    d.mkdir('t')
    result = d.run('t', "sh -c 'setsid sh -c \"trap : TERM; sleep 1000 & sleep 1000\" & sleep 1000' & sleep 1000", timeout=1)
    equal((result['timed_out'], result['metadata']['reason']), (True, 'timeout'))
    nothing_lives(d, 't')


@case
def the_configured_timeouts_apply_when_a_request_gives_none(_):
    with Daemon(slots=1, options=('exec.timeout=1s', 'exec.timeout_max=2s', 'exec.idle_timeout=500ms')) as d:
        d.mkdir('t')
        result = d.run('t', 'while sleep 0.1; do echo x; done')
        equal((result['timed_out'], result['metadata']['reason']), (True, 'timeout'))
        check(result['stdout'].startswith('x\nx\n'), 'its output is lost')
        result = d.run('t', 'echo hi; sleep 1000')
        equal((result['timed_out'], result['metadata']['reason'], result['stdout']), (True, 'idle_timeout', 'hi\n'))
        equal(d.run('t', 'sleep 1', idle_timeout=30)['timed_out'], True)
        fails_with(errno.EINVAL, lambda: d.run('t', 'true', timeout=3))


@case
def a_command_may_clean_up_between_TERM_and_KILL(_):
    with Daemon(slots=1, options=('exec.kill_grace=20s',)) as d:
        d.mkdir('t')
        result, took = seconds(lambda: d.run(
            't', "trap 'echo bye; exit 0' TERM; (trap '' TERM; setsid sleep 1000) & while :; do sleep 0.1; done", timeout=1))
        equal((result['timed_out'], result['returncode'], result['stdout']), (True, -9, 'bye\n'))
        check(took < 15, f'it took {took:.1f} s, though the leader was gone')
        nothing_lives(d, 't')


@case
def a_thousand_commands_that_leave_orphans_leave_no_zombie(d):
    d.mkdir('t')
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: d.run('t', '(true &) ; (true &)'), range(1000)):
            equal(result['returncode'], 0)
    eventually(lambda: not below(init_of(d, 't')), 'no process and no zombie')


main(slots=2)
