# SPDX-License-Identifier: LGPL-2.1-or-later
"""control, and the commands of dressage that write to it: drain, undrain, restart-slot, release."""
import contextlib
import errno
import json
import os
import sqlite3
import subprocess
import threading
import time

from harness import (DRESSAGE, PATIENCE, Daemon, case, check, contains, equal, eventually, fails_with, main, run, sh,
                     sleeps_with, test_environment)


def dressage(d, *words, code=0, stdin=None):
    done = run([DRESSAGE, '--mount', d.mnt, *words], stdin=stdin)
    equal((done.returncode, done.stderr if code == 0 else ''), (code, ''), f'dressage {words}')
    return done.stdout if code == 0 else done.stderr


def start_create(d, name, *options):
    """A create in a process of its own, once it stands in line."""
    before = d.json('status.json')['queue']
    process = subprocess.Popen([DRESSAGE, '--mount', d.mnt, 'create', *options, name], env=test_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    eventually(lambda: d.json('status.json')['queue'] > before, f'{name} is in line')
    return process


def start_waiter(d, name, *words):
    """A process that waits for the lease's end, once it does."""
    process = subprocess.Popen(words, env=test_environment(), text=True, stdout=subprocess.PIPE, start_new_session=True)
    eventually(lambda: sleeps_with(d.lease(name, 'wait'), process.pid), f'{words[0]} waits')
    return process


def events(d):
    return [json.loads(line) for line in d.read('events').splitlines()]


def state_of(d, slot):
    return d.read('slots', f'{slot:04d}', 'state').strip()


@case
def a_drained_pool_takes_no_new_lease_and_lets_those_that_are_there_go_on(d):
    d.mkdir('t1')
    equal(d.ask('control', 'drain\n'), {'draining': True, 'active': 1})
    fails_with(errno.EBUSY, d.mkdir, 't2')
    for request in ('t2\n', {'trajectory_id': 't2', 'wait': 0}, {'trajectory_id': 't2', 'wait': 30}):
        fails_with(errno.EBUSY, d.ask, 'create', request)
    contains(d.read('last_error'), 'draining')
    equal(d.run('t1', 'echo hi')['stdout'], 'hi\n')
    equal(d.ask('create', 't1\n')['trajectory_id'], 't1')  # it has its lease already
    equal(d.json('status.json')['nodes'][0]['draining'], True)
    contains(d.read('status').splitlines()[0], ', draining')
    equal(d.ask('control', 'undrain\n'), {'draining': False, 'active': 1})
    d.mkdir('t2')
    equal(d.json('status.json')['nodes'][0]['draining'], False)
    told = [(e['from'], e['to'], e['reason']) for e in events(d) if e['kind'] == 'daemon'][-2:]
    equal(told, [('READY', 'DRAINING', 'draining'), ('DRAINING', 'READY', '')])


@case
def who_waits_in_line_is_told_when_the_pool_is_drained(d):
    d.mkdir('a')
    d.mkdir('b')
    waiters = [start_create(d, name) for name in ('c', 'd')]
    equal(sh(f'echo drain > {d.path("control")}').returncode, 0)
    for waiter in waiters:
        out, err = waiter.communicate(timeout=PATIENCE)
        equal((waiter.returncode, out), (1, ''))
        contains(err, 'draining')
    equal(d.json('status.json')['queue'], 0)
    d.rmdir('a')
    d.wait_ready(1)
    equal(sorted(os.listdir(d.path('leases'))), ['b'])
    equal(sh(f'echo undrain > {d.path("control")}').returncode, 0)
    equal(d.ask('create', {'trajectory_id': 'c', 'wait': 0})['trajectory_id'], 'c')


@case
def a_create_while_another_drains_never_lands_there(d):
    with Daemon(slots=4) as own:
        undrained = 0
        for number in range(20):
            replies = []

            def create(n=number, replies=replies):
                try:
                    replies.append(own.ask('create', f'r{n}\n')['trajectory_id'])
                except OSError as e:
                    replies.append(e.errno)
            racer = threading.Thread(target=create)
            racer.start()
            equal(own.ask('control', 'drain\n')['draining'], True)
            fails_with(errno.EBUSY, own.ask, 'create', f's{number}\n')
            racer.join(PATIENCE)
            check(replies in ([f'r{number}'], [errno.EBUSY]), replies)
            # none was lent a slot after the drain, and before it only one that was told so
            events = [json.loads(line) for line in own.read('events').splitlines()]
            drained = max(e['seq'] for e in events if e['to'] == 'DRAINING')
            lent = [e['seq'] for e in events if e['kind'] == 'slot' and e['to'] == 'LEASED']
            check(all(seq < drained for seq in lent), f'lent at {lent}, drained at {drained}')
            lent_now = [seq for seq in lent if seq > undrained]
            equal(len(lent_now), replies != [errno.EBUSY], 'slots lent')
            own.ask('control', 'undrain\n')
            own.release_all()
            undrained = drained


def is_written_down(d, mark):
    with contextlib.closing(sqlite3.connect(f'file:{d.state}/journal.db?mode=ro', uri=True)) as journal:
        return journal.execute('SELECT count(*) FROM marks WHERE name = ?', [mark]).fetchone()[0]


@case
def a_drained_daemon_drains_on_after_a_stop_and_after_kill_9_until_undrain():
    with Daemon(slots=1) as own:
        for end in (own.stop, own.kill):
            own.ask('control', 'drain\n')
            eventually(lambda: is_written_down(own, 'draining'), 'the journal has it')
            end()
            own.start()
            contains(own.whole_log(), "draining, as the daemon before: no new leases until 'dressage undrain'")
            equal(own.json('status.json')['nodes'][0]['draining'], True)
            equal([(e['from'], e['to']) for e in map(json.loads, own.read('events').splitlines()) if e['kind'] == 'daemon'],
                  [('STARTING', 'DRAINING')])
            contains(str(fails_with(errno.EBUSY, own.mkdir, 't')), 'busy')
        own.ask('control', 'undrain\n')
        own.stop()
        own.start()
        own.mkdir('t')


@case
def a_lost_lease_is_kept_when_it_cannot_be_taken_again_for_the_drain(d):
    d.mkdir('t')
    os.kill(int(d.read('slots', f'{d.slot_of("t"):04d}', 'pid')), 9)
    sh(f'cat {d.lease("t", "wait")}')
    d.ask('control', 'drain\n')
    fails_with(errno.EBUSY, d.ask, 'create', 't\n')
    equal(d.read('leases', 't', 'state'), 'LOST\n')
    d.ask('control', 'undrain\n')
    equal(d.ask('create', 't\n')['state'], 'ACTIVE')


@case
def restart_slot_starts_a_READY_slot_anew_and_refuses_a_lent_one(d):
    d.mkdir('t')
    lent = d.slot_of('t')
    other = 1 - lent
    pid, generation = (d.read('slots', f'{other:04d}', name) for name in ('pid', 'generation'))
    reply = d.ask('control', f'restart-slot {other}\n')
    equal((reply['slot'], reply['state']), (other, 'RELEASING'))
    eventually(lambda: state_of(d, other) == 'READY', 'it is READY again')
    equal(int(d.read('slots', f'{other:04d}', 'generation')), int(generation) + 1)
    check(d.read('slots', f'{other:04d}', 'pid') != pid, 'the same process')
    fails_with(errno.EBUSY, d.ask, 'control', f'restart-slot {lent}\n')
    contains(d.read('last_error'), 'end that lease first')
    equal(d.run('t', 'echo hi')['stdout'], 'hi\n')
    equal({e['reason'] for e in events(d) if e['id'] == f'{other:04d}' and e['to'] == 'RELEASING'} - {'terminated'}, {'operator'})
    fails_with(errno.ENOENT, d.ask, 'control', 'restart-slot 2\n')


@case
def release_ends_a_lease_by_trajectory_or_lease_id_with_reason_operator(d):
    for request in ('release t it was stuck', {'verb': 'release', 'lease': 't', 'reason': 'it was stuck'},
                    'release {id} it was stuck', {'verb': 'release', 'lease': '{id}', 'reason': 'it was stuck'}):
        lease = d.ask('create', 't\n')
        waiter = start_waiter(d, 't', 'cat', d.lease('t', 'wait'))
        request = json.loads(json.dumps(request).replace('{id}', lease['sandbox_id']))
        reply = d.ask('control', request if isinstance(request, dict) else request + '\n')
        equal((reply['released'], reply['already_released'], reply['lease_id']), (True, False, lease['sandbox_id']))
        equal(waiter.communicate(timeout=PATIENCE)[0], 'RELEASING operator\n')
        told = [(e['reason'], e.get('why')) for e in events(d) if e['id'] == lease['sandbox_id'] and e['to'] == 'RELEASING']
        equal(told, [('operator', 'it was stuck')])
        equal(d.ask('control', 'release t\n')['already_released'], True)
    fails_with(errno.ENOENT, d.ask, 'control', 'release nobody\n')


@case
def a_shell_sees_errno_of_each_verb_from_echo(d):
    for line, sentence in (('drian', 'Invalid argument'), ('drain now', 'Invalid argument'), ('restart-slot', 'Invalid argument'),
                           ('restart-slot x', 'Invalid argument'), ('restart-slot 1 2', 'Invalid argument'),
                           ('restart-slot -1', 'Invalid argument'), ('release', 'Invalid argument'), ('', 'Invalid argument'),
                           ('release nobody', 'No such file or directory'), ('restart-slot 99', 'No such file or directory'),
                           ('prune-archives', 'Operation not supported')):
        done = sh(f'echo "{line}" > {d.path("control")}')
        check(done.returncode != 0, f'{line!r} succeeded')
        contains(done.stderr, sentence, line)
        check(d.read('last_error').startswith('control: '), d.read('last_error'))
    contains(d.read('last_error'), 'no archives')
    equal(d.json('status.json')['nodes'][0]['draining'], False)


@case
def what_a_JSON_order_lacks_or_has_too_much_is_named(d):
    for request, part in (({'verb': 'release'}, 'lease'), ({'verb': 'drain', 'lease': 't'}, 'lease'), ({'verb': 'drain', 'slot': 0}, 'slot'),
                          ({'verb': 'restart-slot'}, 'slot'), ({'verb': 'restart-slot', 'slot': 1.5}, 'slot'), ({'verb': 'up'}, 'up'),
                          ({'lease': 't'}, 'verb'), ({'verb': 'drain', 'now': 1}, 'now')):
        fails_with(errno.EINVAL, d.ask, 'control', request)
        contains(d.read('last_error'), part)
    equal(d.ask('control', {'verb': 'drain', 'reason': 'an update'})['draining'], True)
    equal(d.ask('control', {'verb': 'undrain'})['draining'], False)


@case
def control_read_without_a_request_shows_how_to_use_it(d):
    text = d.read('control')
    for verb in ('drain', 'undrain', 'restart-slot', 'release', 'prune-archives'):
        contains(text, verb)
    equal(os.stat(d.path('control')).st_size, len(text))


@case
def the_command_line_does_each_of_them(d):
    d.mkdir('t')
    lease_id = d.json('leases', 't', 'lease.json')['sandbox_id']
    equal(json.loads(dressage(d, 'drain')), {'draining': True, 'active': 1})
    contains(dressage(d, 'create', 'u', code=1), 'draining')
    equal(json.loads(dressage(d, 'undrain'))['draining'], False)
    contains(dressage(d, 'restart-slot', str(d.slot_of('t')), code=1), 'end that lease first')
    equal(json.loads(dressage(d, 'restart-slot', str(1 - d.slot_of('t'))))['slot'], 1 - d.slot_of('t'))
    d.wait_ready(1)
    equal(float(dressage(d, 'ttl', 't')) > 1000, True)
    equal(json.loads(dressage(d, 'ttl', lease_id, '100'))['ttl'], 100)
    equal(90 < float(dressage(d, 'ttl', lease_id)) <= 100, True)
    contains(dressage(d, 'ttl', 'nobody', code=1), "no lease 'nobody'")
    contains(dressage(d, 'wait', '--timeout', '0.1', 't', code=5), 'still there')
    waiter = start_waiter(d, 't', DRESSAGE, '--mount', d.mnt, 'wait', lease_id)
    equal(json.loads(dressage(d, 'release', lease_id, 'a b'))['released'], True)
    equal((waiter.communicate(timeout=PATIENCE)[0], waiter.returncode), ('RELEASING operator\n', 0))
    contains(dressage(d, 'wait', 't', code=1), "no lease 't'")
    contains(dressage(d, 'release', 'nobody', code=1), 'nobody')


@case
def the_command_line_ends_with_the_exit_codes_of_its_help(d):
    d.mkdir('a')
    d.mkdir('b')
    dressage(d, 'create', '--wait', '0', 'c', code=6)
    dressage(d, 'create', '--wait', '0.1', 'c', code=5)
    dressage(d, 'status')
    os.kill(int(d.read('slots', '0000', 'pid')), 9)
    eventually(lambda: state_of(d, 0) == 'LOST', 'the slot is LOST')
    equal(run([DRESSAGE, '--mount', d.mnt, 'status']).returncode, 4)
    for words in (['drain', 'x'], ['restart-slot'], ['restart-slot', 'x'], ['release'], ['ttl'], ['ttl', 'a', 'x'], ['ttl', 'a', '-1'],
                  ['ttl', 'a', '1e99'], ['wait', '--timeout', '1e99', 'a'], ['create', '--ttl', '1e99', 'c'],
                  ['wait'], ['wait', '--timeout', 'x', 'a'], ['undrain', '--now'], ['nonsense']):
        equal(run([DRESSAGE, '--mount', d.mnt, *words]).returncode, 2, words)
    for words in (['drain'], ['restart-slot', '0'], ['release', 'a'], ['ttl', 'a'], ['wait', 'a'], ['create', 'a']):
        equal(run([DRESSAGE, '--mount', d.base, *words]).returncode, 3, words)
    for name in ('create', 'terminate', 'exec', 'ttl', 'wait', 'ls', 'status', 'drain', 'undrain', 'restart-slot', 'release', 'config'):
        done = run([DRESSAGE, name, '--help'])
        equal((done.returncode, done.stderr), (0, ''), name)
        contains(done.stdout, f'usage: dressage {name}')
        contains(run([DRESSAGE, '--help']).stdout, f'  {name} ')


@case
def an_id_that_begins_with_a_dash_is_given_behind_two(d):
    equal(json.loads(dressage(d, 'create', '--ttl', '100', '--', '-dash'))['trajectory_id'], '-dash')
    equal(json.loads(dressage(d, 'create', '--', '--wait'))['trajectory_id'], '--wait')
    equal(dressage(d, 'exec', '--no-stdin', '--', '-dash', '--', 'echo', 'hi'), 'hi\n')
    equal(90 < float(dressage(d, 'ttl', '--', '-dash')) <= 100, True)
    equal(json.loads(dressage(d, 'ttl', '--', '-dash', '50'))['ttl'], 50)
    equal(json.loads(dressage(d, 'release', '--', '-dash', '-why'))['released'], True)
    equal(json.loads(dressage(d, 'terminate', '--', '--wait'))['released'], True)


@case
def who_may_not_write_may_not_order(d):
    equal(oct(os.stat(d.path('control')).st_mode & 0o777), oct(0o640))


@case
def an_order_takes_no_time(d):
    d.mkdir('t')
    client = subprocess.Popen([DRESSAGE, '--mount', d.mnt, 'exec', '-n', 't', '--', 'sleep', '1000'], env=test_environment(),
                              stderr=subprocess.DEVNULL)
    before = time.monotonic()
    for _ in range(20):
        d.ask('control', 'drain\n')
        d.ask('control', 'undrain\n')
    check(time.monotonic() - before < 5, 'orders wait for something')
    d.ask('control', 'release t\n')
    equal(client.wait(PATIENCE), 125)


main(slots=2)
