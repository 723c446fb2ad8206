# SPDX-License-Identifier: LGPL-2.1-or-later
"""run_command: what a request may say and what the result tells."""
import base64
import hashlib
import os
import signal
import threading
import time

from harness import Daemon, case, check, contains, equal, eventually, main


def in_lease(function):
    def inner(d):
        d.mkdir('t')
        function(d, lambda command, **more: d.run('t', command, **more))
    inner.__name__ = function.__name__
    return case(inner)


@in_lease
def a_string_is_shell_text_and_a_list_is_run_without_a_shell(d, call):
    equal(call('echo "$((1 + 2))"')['stdout'], '3\n')
    equal(call(['printf', '%s|', '$(id)', 'a b', ''])['stdout'], '$(id)|a b||')
    equal(call(['echo', 'x'])['cmd'], ['echo', 'x'])
    equal(call('echo x')['cmd'], 'echo x')


@in_lease
def the_result_has_every_field(d, call):
    result = call('echo out; echo err >&2; exit 3')
    equal((result['stdout'], result['stderr'], result['returncode'], result['timed_out']), ('out\n', 'err\n', 3, False))
    metadata = result['metadata']
    for key in ('exec_id', 'lease_id', 'slot_id', 'generation', 'started_at', 'duration_sec', 'stdout_bytes', 'stderr_bytes',
                'stdout_truncated', 'stderr_truncated', 'infra_failure', 'trajectory_id', 'node_id', 'node_ip'):
        check(key in metadata, f'no metadata.{key}')
    equal((metadata['stdout_bytes'], metadata['stderr_bytes'], metadata['infra_failure']), (4, 4, False))
    check(abs(metadata['started_at'] - time.time()) < 60, 'started_at')
    equal(call('true')['metadata']['exec_id'], metadata['exec_id'] + 1)


@in_lease
def cwd_is_workspace_or_below_it_or_absolute(d, call):
    equal(call('pwd')['stdout'], '/workspace\n')
    equal(call('mkdir -p a/b')['returncode'], 0)
    equal(call('pwd', cwd='a/b')['stdout'], '/workspace/a/b\n')
    equal(call('pwd', cwd='/tmp')['stdout'], '/tmp\n')
    result = call('pwd', cwd='/nowhere')
    equal(result['returncode'], 126)
    contains(result['metadata']['start_error'] + result['stderr'], 'nowhere')


@in_lease
def env_is_added_to_a_clean_environment(d, call):
    result = call('env', env={'MINE': 'a "quoted"\nvalue', 'PATH': '/usr/bin:/bin:/mine'})
    contains(result['stdout'], 'MINE=a "quoted"\nvalue')
    contains(result['stdout'], '/mine')
    for name in ('HOME=/home/', 'TMPDIR=/tmp', 'DRESSAGE_BLACKBOX_SLOT_ID='):
        contains(result['stdout'], name)


@in_lease
def a_variable_of_the_request_does_not_override_the_markers(d, call):
    slot = call('echo $DRESSAGE_BLACKBOX_SLOT_ID')['stdout']
    equal(call('echo $DRESSAGE_BLACKBOX_SLOT_ID', env={'DRESSAGE_BLACKBOX_SLOT_ID': 'forged'})['stdout'], slot)


@case
def nothing_of_the_daemons_own_environment_leaks_in():
    with Daemon(slots=1, env={'MY_API_KEY': 'very-secret', 'E2B_API_KEY': 'very-secret', 'LC_TIME': 'C'}) as d:
        d.mkdir('t')
        text = d.run('t', 'env; tr "\\0" "\\n" < /proc/1/environ; cat /proc/self/environ | tr "\\0" "\\n"')['stdout']
        check('very-secret' not in text, 'the secret is inside')
        contains(text, 'LC_TIME=C')


@in_lease
def stdin_is_empty_a_string_or_bytes(d, call):
    equal(call('cat; echo end')['stdout'], 'end\n')
    equal(call('cat', stdin='two\nlines\n')['stdout'], 'two\nlines\n')
    data = bytes(range(256)) * 300
    result = call(['sha256sum'], stdin_base64=base64.b64encode(data).decode())
    equal(result['stdout'].split()[0], hashlib.sha256(data).hexdigest())
    equal(call('true', stdin='x' * 300000)['returncode'], 0)


@in_lease
def a_timeout_kills_the_whole_group_and_keeps_the_output_so_far(d, call):
    before = time.monotonic()
    result = d.run_out('t', 'echo hi; sleep 1000 & sleep 1000', 'hi\n')
    equal((result['stdout'], result['timed_out'], result['returncode']), ('hi\n', True, -9))
    equal(result['metadata']['reason'], 'timeout')
    check(time.monotonic() - before < 50, 'it took long')
    eventually(lambda: call('cat /proc/[0-9]*/comm | grep -c "^slee[p]$"')['stdout'] == '0\n', 'the children are dead')


@in_lease
def a_command_after_a_timed_out_one_runs_as_ever(d, call):
    for _ in range(3):
        equal(call('sleep 1000', timeout=0.1)['timed_out'], True)
        result = call('echo next; exit 5')
        equal((result['stdout'], result['returncode']), ('next\n', 5))


@in_lease
def a_signal_gives_its_negative_number(d, call):
    result = call('kill -SEGV $$')
    equal(result['returncode'], -signal.SIGSEGV)
    contains(str(result['metadata']['signal']), 'SEGV')


@in_lease
def a_program_that_cannot_be_started_is_a_result_and_no_error(d, call):
    result = call(['no-such-program'])
    equal(result['returncode'], 127)
    contains(result['stderr'], 'no-such-program')
    call('echo text > f; chmod 644 f')
    equal(call(['./f'])['returncode'], 126)
    equal(call('no-such-program')['returncode'], 127)


@in_lease
def output_beyond_max_output_is_counted_and_said(d, call):
    result = call('head -c 100000 /dev/zero | tr "\\0" x', max_output_bytes=1000)
    metadata = result['metadata']
    equal((len(result['stdout']), metadata['stdout_bytes'], metadata['stdout_truncated']), (1000, 100000, True))
    equal((metadata['stderr_bytes'], metadata['stderr_truncated']), (0, False))
    result = call('yes | head -c 40000000')
    equal((len(result['stdout']), result['metadata']['stdout_bytes']), (16 << 20, 40000000))


@in_lease
def output_that_is_not_UTF_8_comes_as_base64_too(d, call):
    result = call("printf 'a\\377\\000b'; printf '\\200' >&2")
    equal(base64.b64decode(result['metadata']['stdout_base64']), b'a\xff\x00b')
    equal(base64.b64decode(result['metadata']['stderr_base64']), b'\x80')
    contains(result['stdout'], '\ufffd')
    check('stdout_base64' not in call('echo plain')['metadata'], 'base64 of plain text')


@in_lease
def much_output_that_is_no_text_comes_as_base64_only(d, call):
    size = 16 << 20
    took = []
    asker = threading.Thread(target=lambda: took.append(call(
        f"tr '\\0' '\\1' </dev/zero | head -c {size} | tee /dev/stderr")))
    d.status_stays_quick(asker, 'a large result')
    equal((took[0]['stdout'], took[0]['stderr']), ('', ''))
    for stream in ('stdout_base64', 'stderr_base64'):
        check(base64.b64decode(took[0]['metadata'][stream]) == b'\1' * size, stream)


@in_lease
def output_with_NUL_and_quotes_survives_json(d, call):
    equal(call("printf 'a\\000\"\\\\\\n\\t\\001b'")['stdout'], 'a\0"\\\n\t\x01b')


@in_lease
def a_script_of_a_megabyte_runs(d, call):
    script = ': ' + 'x' * 1000 + '\n'
    result = call(script * 1000 + 'echo end')
    equal((result['stdout'], result['returncode']), ('end\n', 0), result['stderr'][:500])


@in_lease
def a_command_that_leaves_a_child_with_its_output_ends_all_the_same(d, call):
    before = time.monotonic()
    result = call('(sleep 1000 &) ; echo done')
    equal((result['stdout'], result['returncode']), ('done\n', 0))
    check(time.monotonic() - before < 20, 'it waited for the child')
    equal(call('cat /proc/[0-9]*/comm | grep -c "^slee[p]$"')['stdout'], '1\n')


@in_lease
def no_zombies_stay_in_a_slot(d, call):
    call('for i in $(seq 1 200); do (true &) ; done')
    eventually(lambda: call('cat /proc/[0-9]*/stat | grep -c ") Z "')['stdout'] == '0\n', 'no zombies')


@in_lease
def large_output_on_both_streams_does_not_stall(d, call):
    result = call('yes out | head -c 12000000 & yes err | head -c 12000000 >&2; wait')
    equal((len(result['stdout']), len(result['stderr'])), (12000000, 12000000))


@in_lease
def the_slot_is_isolated(d, call):
    equal(call('id -u; id -g')['stdout'], '1000\n1000\n')
    check(call('cat /etc/shadow')['returncode'] != 0, 'it reads /etc/shadow')
    check(call('touch /x /usr/x /etc/x')['returncode'] != 0, 'it writes /')
    check(int(call('ls /proc | grep -c "^[0-9]"')['stdout']) < 12, 'it sees the host\'s processes')
    equal(call(f'ls {os.path.dirname(d.base)}/ 2>/dev/null | grep -c dressagefs-test')['stdout'], '0\n')
    check(call('ls /sys/class/net')['stdout'].strip() in ('', 'lo'), 'it sees a network')


main(slots=2)
