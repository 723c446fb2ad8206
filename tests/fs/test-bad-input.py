# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bad input gets its errno and a sentence; nothing hangs, nothing leaks, and the next request works."""
import errno
import json
import os
import re
import threading

from harness import DRESSAGE, DRESSAGEFS, ROOT, Scratch, case, check, contains, equal, fails_with, main, run

RUN = 'leases/t/run_command'


def refused(d, path, data, code=errno.EINVAL):
    """The request is refused with this errno and a sentence in the last_error beside the file."""
    fails_with(code, d.ask, path, data)
    beside = os.path.join(os.path.dirname(path), 'last_error')
    check(len(d.read(beside).strip()) > 10, f'last_error says {d.read(beside)!r}')


def bad(name, *requests, code=errno.EINVAL, path=RUN):
    def function(d):
        d.mkdir('t')
        for data in requests:
            try:
                refused(d, path, data, code)
            except AssertionError as e:
                raise AssertionError(f'{data[:80]!r}: {e}') from e
        equal(d.run('t', 'echo next')['stdout'], 'next\n')
    function.__name__ = name
    case(function)


bad('an_empty_command_is_refused', '{"command": ""}', '{"command": []}', '{}')
bad('five_MiB_are_too_large', b'#' * (5 << 20), b'{"command": "' + b'x' * (5 << 20) + b'"}', code=errno.EFBIG)
bad('binary_is_refused', bytes(range(256)), b'echo \xff', b'\x80', b'{"command": "\xff"}')
bad('NUL_is_refused', b'echo a\0b', b'\0', b'{"command": "a\\u0000b"}', b'{"command": "a\0b"}')
bad('half_JSON_is_refused', '{"command": "a"', '{"command"', '{"command": "a', '{"command": "a",')
bad('malformed_JSON_is_refused', '{"command": "a"} trailing', '{"command": "a"}{}', '{"command": \'a\'}', '{"command": a}',
    '{"command": "a",}', '{"command": "a", "timeout": 1e999}', '{"command": "\\ud800"}')
bad('wrong_types_are_refused', '{"command": 1}', '{"command": null}', '{"command": ["a", 1]}', '{"command": {"a": 1}}',
    '{"command": "a", "cwd": 5}', '{"command": "a", "env": ["A=b"]}', '{"command": "a", "env": {"A": 1}}',
    '{"command": "a", "timeout": "5"}', '{"command": "a", "timeout": 0}', '{"command": "a", "timeout": -1}',
    '{"command": "a", "stdin": 5}', '{"command": "a", "stdin_base64": "%%%"}', '{"command": "a", "max_output_bytes": -1}')
bad('duplicate_and_unknown_keys_are_refused', '{"command": "a", "command": "b"}', '{"command": "a", "comand": "b"}',
    '{"command": "a", "env": {"A": "1", "A": "2"}}')
bad('deep_nesting_is_refused', '{"command": ' + '[' * 100 + ']' * 100 + '}', '{"a":' * 5000)
bad('create_refuses_bad_specs', '{"trajectory_id": 5}', '{"trajectory_id": "a", "services": {}}', '{"env": {}}',
    '{"trajectory_id": "a", "services": [{"name": "x", "port": 70000}]}', '{"trajectory_id": "a", "wait": -1}',
    '{"trajectory_id": "a", "bogus": 1}', '{"trajectory_id": "a", "env": {"A": 5}}', 'two\nlines\n', path='create')
bad('ttl_refuses_what_is_no_time', 'soon\n', '-5\n', '0\n', 'nan\n', 'inf\n', '1e999\n', '\n', path='leases/t/ttl')
bad('terminate_of_unknown_ids_is_ENOENT', 'nonsense\n', '{"trajectory_id": "nonsense"}', path='terminate', code=errno.ENOENT)
bad('terminate_refuses_bad_requests', '{"trajectory_id": 5}', '{"x": "y"}', b'\xff\n', path='terminate')


@case
def an_empty_write_and_an_empty_file_do_nothing(d):
    d.mkdir('t')
    with open(d.lease('t', 'run_command'), 'w', encoding='utf-8'):
        pass
    with open(d.lease('t', 'run_command'), 'w', encoding='utf-8') as f:
        f.write('')
    equal(d.run('t', 'echo next')['metadata']['exec_id'], 1)


def ask_anyhow(d, path, request):
    try:
        d.ask(path, request)
    except OSError:
        pass  # more than the kernel takes may be refused


@case
def a_request_with_100000_variables_does_not_keep_status_waiting(d):
    d.mkdir('t')
    many = {f'V{i}': str(i) for i in range(100000)}
    requests = [('create', {'trajectory_id': 'many', 'env': many}),
                ('create', {'trajectory_id': 'many', 'env': many}),  # compared with the live one's
                (RUN, {'command': ['/bin/true'], 'env': many}),
                ('leases/many/run_command', {'command': ['/bin/true'], 'env': many})]
    for path, request in requests:
        d.status_stays_quick(threading.Thread(target=ask_anyhow, args=(d, path, json.dumps(request))), path)
    equal(d.run('t', 'echo next')['stdout'], 'next\n')


@case
def control_files_cannot_be_created_renamed_linked_or_removed(d):
    d.mkdir('t')
    lease = d.lease('t')
    for call in (lambda: os.open(lease + '/new', os.O_CREAT | os.O_WRONLY), lambda: os.mkdir(lease + '/new'),
                 lambda: os.rename(lease + '/ttl', lease + '/new'), lambda: os.link(lease + '/ttl', lease + '/new'),
                 lambda: os.symlink('x', lease + '/new'), lambda: os.unlink(lease + '/ttl'), lambda: os.rmdir(lease + '/fs'),
                 lambda: os.mkdir(d.path('new')), lambda: os.rename(lease, d.lease('u')), lambda: os.unlink(d.path('create'))):
        try:
            call()
            check(False, 'it worked')
        except OSError as e:
            equal(errno.errorcode[e.errno], 'EPERM', f'{e}')
    os.truncate(lease + '/run_command', 0)


def check_config(text, *parts):
    """dressagefs --check of this file fails and says all the parts."""
    with Scratch() as work:
        path = os.path.join(work, 'dressage.ini')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        done = run([DRESSAGEFS, '--config', path, '--check'])
        equal(done.returncode, 1, done.stdout)
        for part in parts:
            contains(done.stderr, part)


@case
def bad_configuration_is_refused_with_file_line_key_and_range():
    check_config('[pool]\nslots = many\n', 'dressage.ini:2: [pool] slots', 'many', '1 to 9999')
    check_config('[pool]\nslots = 0\n', 'dressage.ini:2: [pool] slots', 'out of range', '1 to 9999')
    check_config('[pool]\nslotz = 4\n', 'dressage.ini:2: ', "'slotz'", "'slots'")
    check_config('[poool]\nslots = 4\n', 'dressage.ini:2: ', '[poool]', '[pool]')
    check_config('[pool]\nslots = 4\n[slot]\nbwrap = ' + 'x' * 300 + '\n', 'dressage.ini:4: ', 'longer than 190 bytes')
    check_config('[pool]\nslots = 4\nslots = 5\n', 'dressage.ini:3: [pool] slots', 'line 2')
    check_config('[dressage]\nprovider = docker\n', 'docker', 'local_bwrap', 'e2b')


@case
def bad_command_lines_are_refused_with_a_sentence():
    done = run([DRESSAGEFS, '-o', 'bogus', '/mnt'])
    equal(done.returncode, 2)
    contains(done.stderr, 'bogus')
    done = run([DRESSAGEFS, '-o', 'pool.slotz=4', '--check'])
    equal(done.returncode, 1)
    contains(done.stderr, 'slotz')
    done = run([DRESSAGEFS, '--config', '/nowhere/dressage.ini', '--check'])
    equal(done.returncode, 1)
    contains(done.stderr, '/nowhere/dressage.ini')
    equal(run([DRESSAGEFS, 'a', 'b']).returncode, 2)
    done = run([DRESSAGEFS, '--check'])
    equal((done.returncode, done.stdout), (0, 'OK\n'))
    contains(run([DRESSAGEFS, '--help']).stdout, 'MOUNTPOINT')


@case
def every_program_has_a_help():
    commands = re.findall(r'^  ([a-z]+) ', run([DRESSAGE, '--help']).stdout, re.M)
    check({'create', 'exec', 'ls', 'status', 'terminate'} <= set(commands), f'commands: {commands}')
    scripts = [[os.path.join(ROOT, path)] for path in ('tools/check', 'tools/first-run', 'tools/setup', 'tests/bench/run')]
    for words in [[DRESSAGEFS], [DRESSAGE], *scripts, *([DRESSAGE, name] for name in commands)]:
        done = run([*words, '--help'])
        equal((done.returncode, done.stderr), (0, ''), f'{words} --help')
        check(len(done.stdout) > 30, f'{words} --help says {done.stdout!r}')


main(slots=2)
