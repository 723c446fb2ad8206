# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an operator sees: metrics, events and who follows them, health and logs of slots, the daemon's own log."""
import contextlib
import errno
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

from harness import (IS_ROOT, PATIENCE, ROOT, Daemon, Scratch, Skip, case, check, contains, equal, eventually, fails_with, main, need, read_all, run,
                     sleeps_with, test_environment)


def parse(text):
    """{name: (type, help)} and {sample with its labels: value} of a metrics file."""
    families, samples = {}, {}
    for line in text.splitlines():
        if line.startswith('# HELP '):
            _, _, name, rest = line.split(' ', 3)
            families[name] = [None, rest]
        elif line.startswith('# TYPE '):
            _, _, name, kind = line.split(' ')
            families[name][0] = kind
        else:
            name, value = line.rsplit(' ', 1)
            check(name not in samples, f'{name} twice')
            samples[name] = float(value)
    return families, samples


def rises(before, after, wanted):
    """Each of these counters has grown by exactly so much."""
    for name, by in wanted.items():
        equal(after.get(name, 0) - before.get(name, 0), by, name)


@case
def promtool_has_nothing_to_say_against_metrics(d):
    promtool = shutil.which('promtool') or os.path.join(ROOT, 'subprojects/promtool/promtool')
    if not os.access(promtool, os.X_OK):
        raise Skip('no promtool: tools/setup --test')
    done = run([promtool, 'check', 'metrics'], stdin=d.read('metrics'))
    equal((done.returncode, done.stdout, done.stderr), (0, '', ''))


@case
def the_docs_list_every_metric_with_its_type_and_help(d):
    families, _ = parse(d.read('metrics'))
    with open(os.path.join(ROOT, 'docs/observability.md'), encoding='utf-8') as f:
        rows = re.findall(r'^\| `(dressage_\w+)` \| (\w+) \| (.*?) \|', f.read(), re.M)
    equal([(name, kind, said) for name, (kind, said) in families.items()], rows)


@case
def what_happens_is_counted_once(d):
    families, before = parse(d.read('metrics'))
    d.mkdir('counted')
    d.run('counted', 'printf 12345; printf 123 >&2')
    d.run('counted', 'exit 3')
    d.run('counted', ['/no/such/program'])
    d.run('counted', 'sleep 600', timeout=0.2)
    _, now = parse(d.read('metrics'))
    equal(now['dressage_leases{state="ACTIVE"}'], 1)
    equal(now['dressage_slots{state="LEASED"}'], 1)
    d.rmdir('counted')
    d.wait_ready()
    _, after = parse(d.read('metrics'))
    rises(before, after, {
        'dressage_creates_total{result="ok",reason=""}': 1,
        'dressage_create_wait_seconds_count': 1,
        'dressage_commands_total{result="ok",reason=""}': 1,
        'dressage_commands_total{result="nonzero",reason=""}': 1,
        'dressage_commands_total{result="not_started",reason=""}': 1,
        'dressage_commands_total{result="killed",reason="timeout"}': 1,
        'dressage_command_duration_seconds_count': 4,
        'dressage_command_output_bytes_total{stream="stdout"}': 5,
        'dressage_lease_ends_total{reason="terminated"}': 1,
        'dressage_slot_states_total{state="LEASED"}': 1,
        'dressage_slot_states_total{state="READY"}': 1,
        'dressage_slot_reset_seconds_count': 1,
        'dressage_leases{state="ACTIVE"}': 0,
    })
    check(after['dressage_command_output_bytes_total{stream="stderr"}'] >
          before['dressage_command_output_bytes_total{stream="stderr"}'] + 2, 'stderr')
    check(after['dressage_command_duration_seconds_sum'] - before['dressage_command_duration_seconds_sum'] >= 0.2, 'sum')
    for name, (kind, _) in families.items():
        equal(name.endswith('_total'), kind == 'counter', name)


@case
def a_create_that_finds_no_slot_is_counted_with_its_reason(d):
    d.mkdir('first')
    d.mkdir('second')
    _, before = parse(d.read('metrics'))
    fails_with(errno.EAGAIN, d.mkdir, 'third')
    _, after = parse(d.read('metrics'))
    rises(before, after, {'dressage_creates_total{result="failed",reason="pool_exhausted"}': 1})
    d.release_all()


@case
def slots_of_metrics_agree_with_status(d):
    d.mkdir('agree')
    status = d.json('status.json')
    _, samples = parse(d.read('metrics'))
    equal(sum(v for k, v in samples.items() if k.startswith('dressage_slots{')), status['total_capacity'])
    equal(samples['dressage_slots{state="LEASED"}'], status['total_leased'])
    equal(samples['dressage_leases{state="ACTIVE"}'], status['leases']['active'])
    d.rmdir('agree')
    d.wait_ready()


# events and who follows them


class Follower:
    """A program whose output is read line by line, each within the deadline. Waits until it sleeps at the end of what there is."""

    def __init__(self, words, path):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=test_environment())
        self.path, self.pending = path, b''

    def lines(self):
        """Those that there are within the deadline: at least one."""
        ready = select.select([self.process.stdout], [], [], PATIENCE)[0]
        check(ready, f'nothing from {self.process.args}')
        self.pending += os.read(self.process.stdout.fileno(), 1 << 20)
        whole, _, self.pending = self.pending.rpartition(b'\n')
        return [json.loads(line) for line in whole.splitlines()]

    def until(self, condition):
        """All lines up to the one that is meant."""
        seen = []
        while not any(map(condition, seen)):
            seen += self.lines()
        return seen

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def leased(name):
    return lambda line: line['kind'] == 'lease' and line['to'] == 'ACTIVE' and f'-{name}-' in line['id']


def seqs(lines):
    return [line['seq'] for line in lines]


def follows(d, name, words, path):
    """The program shows what there is, then what comes, nothing twice and nothing left out."""
    with Follower(words, path) as follower:
        seen = follower.until(lambda line: line['kind'] == 'daemon' and line['to'] == 'READY')
        d.mkdir(name)
        seen += follower.until(leased(name))
        d.rmdir(name)
        seen += follower.until(lambda line: line['kind'] == 'lease' and line['to'] == 'RELEASED' and f'-{name}-' in line['id'])
        equal(seqs(seen), list(range(1, len(seen) + 1)), 'seq')
        return follower.process


@case
def cat_of_events_follow_shows_what_was_and_what_comes():
    with Daemon(slots=1) as d:
        follows(d, 'cat', ['cat', d.path('events.follow')], d.path('events.follow'))


@case
def tail_f_of_events_shows_what_was_and_what_comes():
    with Daemon(slots=1) as d:
        follows(d, 'tail', ['tail', '-n', '+1', '-s', '0.05', '-f', d.path('events')], d.path('events'))


@case
def tail_F_of_events_does_not_begin_anew():
    with Daemon(slots=1) as d:
        follows(d, 'tail', ['tail', '-n', '+1', '-s', '0.05', '-F', '--max-unchanged-stats=1', d.path('events')], d.path('events'))


@case
def tail_f_of_busybox_follows_events(d):
    busybox = need('busybox')
    with Follower([busybox, 'tail', '-n', '1', '-f', d.path('events')], d.path('events')) as follower:
        equal(len(follower.lines()), 1)
        d.mkdir('bb')
        follower.until(leased('bb'))


@case
def events_is_whole_and_ends_at_now_beside_one_who_has_followed_it_for_long(d):
    with Follower(['tail', '-n', '1', '-s', '0.05', '-f', d.path('events')], d.path('events')) as follower:
        follower.lines()
        for turn in range(3):
            d.mkdir(f'long{turn}')
            d.rmdir(f'long{turn}')
            d.wait_ready()
        follower.until(lambda line: line['to'] == 'RELEASED' and '-long2-' in line['id'])
        text = d.read('events')
        equal(len(text), os.path.getsize(d.path('events')))
        equal(seqs(map(json.loads, text.splitlines())), list(range(1, text.count('\n') + 1)))
        equal(run(['tail', '-n', '3', d.path('events')]).stdout, ''.join(text.splitlines(True)[-3:]))
        equal(run(['cat', d.path('events')]).stdout, text)


@case
def a_descriptor_of_events_gets_at_its_end_what_has_come_and_keeps_what_it_had(d):
    fd = os.open(d.path('events'), os.O_RDONLY)
    first = read_all(fd)
    equal(os.read(fd, 100), b'')
    d.mkdir('grown')
    more = read_all(fd)
    contains(more.decode(), '-grown-')
    equal(os.fstat(fd).st_size, len(first) + len(more))
    equal(os.pread(fd, len(first), 0), first)
    equal(os.pread(fd, 1 << 20, len(first)), more)
    equal(os.lseek(fd, 0, os.SEEK_END), len(first) + len(more))
    os.close(fd)


@case
def every_follower_gets_every_line(d):
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(Follower(['cat', d.path('events.follow')], d.path('events.follow'))) for _ in range(8)]
        for follower in followers:
            follower.until(lambda line: line['kind'] == 'daemon' and line['to'] == 'READY')
        d.mkdir('many')
        for follower in followers:
            follower.until(leased('many'))


@case
def a_follower_with_O_NONBLOCK_gets_EAGAIN_and_poll_tells_when_there_is_more(d):
    fd = os.open(d.path('events.follow'), os.O_RDONLY | os.O_NONBLOCK)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    equal([bits for _, bits in poller.poll(PATIENCE * 1000)], [select.POLLIN])
    while True:
        try:
            equal(os.read(fd, 1 << 20)[-1:], b'\n')
        except BlockingIOError:
            break
    equal(poller.poll(0), [])
    d.mkdir('polled')
    equal([bits for _, bits in poller.poll(PATIENCE * 1000)], [select.POLLIN])
    text = b''
    while b'-polled-' not in text:
        text += os.read(fd, 1 << 20)
    fails_with(errno.ESPIPE, os.lseek, fd, 0, os.SEEK_SET)
    os.close(fd)


@case
def Ctrl_C_ends_a_follower_and_the_daemons_stop_ends_it_cleanly():
    with Daemon(slots=1) as d:
        with Follower(['cat', d.path('events.follow')], d.path('events.follow')) as follower:
            follower.until(lambda line: line['kind'] == 'daemon' and line['to'] == 'READY')
            eventually(lambda: sleeps_with(d.path('events.follow'), follower.process.pid), 'it waits')
            follower.process.send_signal(signal.SIGINT)
            equal(follower.process.wait(PATIENCE), -signal.SIGINT)
        with Follower(['cat', d.path('events.follow')], d.path('events.follow')) as follower:
            follower.until(lambda line: line['kind'] == 'daemon' and line['to'] == 'READY')
            d.stop()
            follower.until(lambda line: line['kind'] == 'daemon' and line['to'] == 'STOPPING')
            equal((follower.process.wait(PATIENCE), follower.process.stderr.read()), (0, b''))


@case
def all_who_follow_and_wait_have_their_end_before_the_daemon_stops():
    for _ in range(3):
        with Daemon(slots=1) as d:
            d.mkdir('t')
            files = [d.path('events.follow')] * 12 + [d.lease('t', 'wait')] * 4
            readers = [(path, subprocess.Popen(['cat', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) for path in files]
            asleep = os.open(d.path('events.follow'), os.O_RDONLY)  # nobody waits for this one for long
            for path, reader in readers:
                eventually(lambda path=path, reader=reader: sleeps_with(path, reader.pid), 'it waits')
            d.stop()
            os.close(asleep)
            for path, reader in readers:
                said, complaint = reader.communicate(timeout=PATIENCE)
                equal((reader.returncode, complaint), (0, ''), path)
                contains(said, 'STOPPING' if path.endswith('follow') else 'RELEASING stopping')



# Health and logs of slots


def log_lines(text):
    """What the lines say, without their times, which must be some."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (.*)', line)
        check(match, f'no time: {line!r}')
        found.append(match[1])
    return found


@case
def the_last_sign_of_life_is_the_same_for_all_who_look(d):
    def seen():
        return (d.json('slots', '0000', 'health')['last_check'], d.json('status.json')['slots'][0]['last_health'])
    begin = time.monotonic()
    times = {when for _ in range(300) for when in seen()}
    seconds = time.monotonic() - begin
    # a slot is asked once a second at most, and its start is a sign of life too
    check(len(times) <= 2 + seconds, f'in {seconds:.1f} s it was seen at {sorted(times)}')


@case
def health_and_log_of_a_slot_follow_it_through_loss_and_reset(d):
    d.mkdir('ill')
    slot = f'{d.slot_of("ill"):04}'
    generation, pid = d.read('slots', slot, 'generation').strip(), d.read('slots', slot, 'pid').strip()
    health = d.json('slots', slot, 'health')
    equal((health['result'], health['failures'], list(health)), ('ok', 0, ['last_check', 'result', 'failures']))
    check(abs(health['last_check'] - time.time()) < 60, health)
    lines = log_lines(d.read('slots', slot, 'log', 'init'))
    equal(lines, [f'generation {generation}', f'started as pid {pid}', 'ready'])
    equal(sorted(os.listdir(d.path('slots', slot, 'log'))), ['bwrap', 'init'])
    equal(d.read('leases', 'ill', 'log', 'init'), d.read('slots', slot, 'log', 'init'))
    os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: d.read('leases', 'ill', 'state') == 'LOST\n', 'the lease is lost')
    health = d.json('slots', slot, 'health')
    equal((health['result'], health['failures']), ('down', 1))
    lines = log_lines(d.read('leases', 'ill', 'log', 'init'))
    contains(lines[-1], 'killed by signal 9')
    d.rmdir('ill')
    d.wait_ready()
    equal(d.json('slots', slot, 'health')['result'], 'ok')
    equal(log_lines(d.read('slots', slot, 'log', 'init'))[0], f'generation {int(generation) + 1}')


@case
def the_log_of_a_lease_stays_when_it_has_expired_and_its_slot_is_another_s(d):
    d.mkdir('old')
    before = d.read('leases', 'old', 'log', 'init')
    d.ask('leases/old/ttl', '0.05\n')
    eventually(lambda: d.read('leases', 'old', 'state') == 'EXPIRED\n', 'it has expired')
    d.wait_ready()
    equal(d.read('leases', 'old', 'log', 'init'), before)
    equal(d.read('leases', 'old', 'log', 'bwrap'), '')
    d.rmdir('old')


@case
def what_bwrap_complains_about_is_in_the_log_and_its_last_line_in_last_error():
    with Scratch() as work:
        os.chmod(work, 0o755)
        bwrap = os.path.join(work, 'bwrap')
        with open(bwrap, 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\n[ -e {work}/good ] && exec {need("bwrap")} "$@"\necho first >&2; echo the second word >&2; exit 1\n')
        os.chmod(bwrap, 0o755)
        with open(work + '/good', 'w', encoding='utf-8'):
            pass
        with Daemon(slots=1, options=[f'slot.bwrap={bwrap}']) as d:
            equal(d.read('slots', '0000', 'log', 'bwrap'), '')
            d.mkdir('last')
            os.unlink(work + '/good')
            d.rmdir('last')
            eventually(lambda: d.json('slots', '0000', 'health')['failures'] > 0, 'a start has failed')
            eventually(lambda: d.read('slots', '0000', 'state') == 'FAILED\n', 'FAILED')
            # it is tried again every now and then, and each try begins a log of its own
            eventually(lambda: d.json('slots', '0000', 'health')['result'] == 'down', 'down')
            eventually(lambda: log_lines(d.read('slots', '0000', 'log', 'bwrap')) == ['first', 'the second word'], 'its log')
            eventually(lambda: 'cannot start: the second word' in d.read('slots', '0000', 'log', 'init'), 'its reason')
            contains(d.read('slots', '0000', 'last_error'), 'the second word')
            contains(d.json('status.json')['nodes'][0]['last_error'], 'the second word')
            with open(work + '/good', 'w', encoding='utf-8'):
                pass
            d.wait_ready()
            equal(d.read('slots', '0000', 'log', 'bwrap'), '')


# The daemon's own log

LINE = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn |info |debug) (.+)')


def read_log(path):
    with open(path, encoding='utf-8') as f:
        return [LINE.fullmatch(line.rstrip('\n')) or check(False, f'no line of a log: {line!r}') for line in f]


@case
def a_normal_day_logs_one_line_an_event_and_nothing_above_info():
    with Scratch() as work:
        os.chmod(work, 0o755)
        with Daemon(slots=2, options=[f'dressage.log_file={work}/log']) as d:
            d.mkdir('day')
            d.run('day', ['true'])
            d.run('day', 'exit 3')
            d.run('day', ['/no/such/program'])
            d.run('day', 'sleep 600', timeout=0.1)
            fails_with(errno.EEXIST, d.mkdir, 'day')
            d.ask('create', 'night')
            fails_with(errno.EAGAIN, d.mkdir, 'third')
            d.ask('leases/day/ttl', '600\n')
            d.rmdir('day')
            d.ask('terminate', 'night')
            d.wait_ready()
            d.mkdir('kept')
            hold = os.open(d.lease('kept', 'hold'), os.O_WRONLY)
            d.ask('control', 'drain\n')
            fails_with(errno.EBUSY, d.mkdir, 'late')
            d.ask('control', 'undrain\n')
            d.ask('control', f'restart-slot {1 - d.slot_of("kept")}\n')
            client = subprocess.Popen(['sh', '-c', 'exec 3<>"$1"; echo sleep 600 >&3; exec cat <&3', 'sh', d.lease('kept', 'run_command')],
                                      stdout=subprocess.DEVNULL)
            eventually(lambda: sleeps_with(d.lease('kept', 'run_command'), client.pid), 'it waits for its command')
            eventually(lambda: parse(d.read('metrics'))[1]['dressage_commands_running'] == 1, 'the command runs')
            client.kill()
            client.wait()
            eventually(lambda: parse(d.read('metrics'))[1]['dressage_commands_running'] == 0, 'it is cancelled')
            d.ask('control', 'release kept stuck\n')
            os.close(hold)
            d.wait_ready()
            d.mkdir('short')
            d.ask('leases/short/ttl', '0.05\n')
            eventually(lambda: d.read('leases', 'short', 'state') == 'EXPIRED\n', 'it has expired')
            d.rmdir('short')
            d.wait_ready()
            events = [json.loads(line) for line in d.read('events').splitlines()]
            d.stop()
            lines = read_log(work + '/log')
        ready = next(i for i, line in enumerate(lines) if line[2].startswith('ready: '))
        # what the host lacks for a plain user is said once, before
        above = [line[0] for line in lines[0 if IS_ROOT else ready:] if line[1].strip() not in ('info', 'debug')]
        equal(above, [])
        for event in events:
            start = f'{event["kind"]} {event["id"]}: {event["from"] + " -> " if event["from"] else ""}{event["to"]}'
            said = [line[2] for line in lines if re.match(re.escape(start) + r'( \(|,)', line[2]) and
                    line[2].split(', generation ')[1].split(':')[0] == str(event['generation'])]
            equal(len(said), 0 if event['kind'] == 'exec' else 1, start)
        others = [line[2] for line in lines if not re.match(r'(slot|lease|daemon) ', line[2])]
        check(len(others) <= 6, others)


@case
def a_log_that_is_copied_and_emptied_goes_on_at_its_beginning():
    with Scratch() as work:
        os.chmod(work, 0o755)
        with Daemon(slots=1, options=[f'dressage.log_file={work}/log']) as d:
            os.truncate(work + '/log', 0)
            d.mkdir('new')
            check(len(read_log(work + '/log')) == 2, 'a slot and a lease')


main(slots=2)
