# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an operator sees: metrics, events and who follows them, health and logs of slots, the daemon's own log."""
import errno
import os
import re
import shutil

from harness import ROOT, Daemon, Skip, case, check, equal, fails_with, main, run


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


main(slots=2)
