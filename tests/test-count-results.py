# SPDX-License-Identifier: LGPL-2.1-or-later
"""What count-results forgives when a program passes at its second run, and what it does not. argv: count-results."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile

loader = importlib.machinery.SourceFileLoader('count_results', sys.argv[1])
results = importlib.util.module_from_spec(importlib.util.spec_from_loader('count_results', loader))
loader.exec_module(results)
cases = []


def case(function):
    cases.append(function)
    return function


def program(*lines, name='dressagefs:unit / pool', result=None, returncode=None, stderr=''):
    """A test program as a line of meson's log has it; lines: its TAP."""
    bad = any(line.startswith('not ok') for line in lines)
    return {'name': name, 'stdout': '\n'.join(['1..9', *lines]), 'stderr': stderr, 'result': result or ('ERROR' if bad else 'OK'),
            'returncode': int(bad) if returncode is None else returncode}


FAILS = program('ok 1 - a', 'not ok 2 - b')
PASSES = program('ok 1 - a', 'ok 2 - b')


def count(first, again=(), left=''):
    """(exit status, last line, the unsteady) for one run of these programs."""
    with tempfile.TemporaryDirectory() as where:
        os.mkdir(where + '/again')
        for path, programs in (('run.json', first), ('again/run.json', again)):
            with open(f'{where}/{path}', 'w', encoding='utf-8') as f:
                f.writelines(json.dumps(one) + '\n' for one in programs)
        with open(where + '/left-behind', 'w', encoding='utf-8') as f:
            f.write(left)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = results.sum_up(where)
    lines = out.getvalue().splitlines()
    return code, lines[-1], [line for line in lines if line.startswith('unsteady')]


def listed(*first):
    """What may be run again."""
    with tempfile.TemporaryDirectory() as where:
        with open(where + '/run.json', 'w', encoding='utf-8') as f:
            f.writelines(json.dumps(one) + '\n' for one in first)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            results.list_again(where)
        return out.getvalue()


def equal(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def not_forgiven(first):
    """It is not listed to be run again, and would count though it passed then."""
    equal(count([first], [PASSES])[0], 1)
    equal(listed(first), '')


@case
def what_passes_at_once_is_not_run_again():
    equal(count([PASSES]), (0, '3 passed, 0 failed', []))  # the third: nothing is left behind
    equal(listed(PASSES), '')


@case
def a_case_that_fails_is_run_again_and_fails_without_that():
    equal(count([FAILS]), (1, '2 passed, 1 failed', []))
    equal(listed(FAILS, PASSES), 'run\tpool\n')


@case
def a_case_that_passes_the_second_time_has_passed_and_is_named():
    equal(count([FAILS], [PASSES]), (0, '3 passed, 0 failed', ['unsteady: passed only when run again alone: run: pool: b']))


@case
def a_case_that_fails_twice_fails():
    equal(count([FAILS], [FAILS]), (1, '2 passed, 1 failed', []))


@case
def a_case_that_fails_the_second_time_only_fails():
    equal(count([FAILS], [program('not ok 1 - a', 'ok 2 - b')])[:2], (1, '2 passed, 1 failed'))


@case
def a_case_that_is_skipped_or_missing_the_second_time_fails():
    equal(count([FAILS], [program('ok 1 - a', 'ok 2 - b # SKIP no room')])[:2], (1, '2 passed, 1 failed'))
    equal(count([FAILS], [program('ok 1 - a')])[:2], (1, '2 passed, 1 failed'))


@case
def a_program_that_ends_too_early_may_be_run_again():
    early = program('ok 1 - a', result='ERROR', returncode=1)
    equal(count([early], [PASSES])[:2], (0, '3 passed, 0 failed'))
    equal(count([early], [early])[:2], (1, '2 passed, 1 failed'))
    equal(count([early], [program('ok 1 - a', 'ok 2 - b # SKIP no room')])[0], 1)
    equal(count([early], [dict(early, stdout='1..0 # SKIP no room', result='SKIP', returncode=0)])[0], 1)


@case
def another_program_s_second_run_helps_nobody():
    equal(count([FAILS], [program('ok 2 - b', name='dressagefs:unit / other')])[0], 1)


@case
def a_report_of_a_sanitizer_is_not_forgiven():
    for said in ('WARNING: ThreadSanitizer: data race', 'ERROR: AddressSanitizer: heap-use-after-free', 'LeakSanitizer: detected memory leaks',
                 'x.c:1:2: runtime error: signed integer overflow'):
        not_forgiven(program('not ok 2 - b', stderr=said))
        not_forgiven(program('# ' + said, 'not ok 2 - b'))


@case
def a_crash_or_a_timeout_is_not_forgiven():
    not_forgiven(program('ok 1 - a', result='ERROR', returncode=-11))
    not_forgiven(program('not ok 2 - b', returncode=134))
    not_forgiven(program('ok 1 - a', result='TIMEOUT'))
    not_forgiven(program('not ok 2 - b', stderr='Test failed with exception: Segmentation fault(11)'))
    not_forgiven(program('# the daemon ended with exit status -6', 'not ok 2 - b'))


@case
def what_hung_or_left_something_is_not_forgiven():
    for said in ('pool: nothing for 120 s; killing the daemons', 'still running after 60 s: dressage', 'the transcript hangs after:',
                 'processes are left: {1}', '/mnt is still mounted', 'files of slots are left: []', '3 nodes are left', 'got -11, wanted 0'):
        not_forgiven(program('# ' + said, 'not ok 2 - b'))


@case
def where_much_fails_nothing_is_run_again():
    many = [program('not ok 1 - a', name=f'dressagefs:unit / {number}') for number in range(11)]
    equal(listed(*many), '')
    equal(listed(*many[:10]), ''.join(f'run\t{number}\n' for number in range(10)))


@case
def lint_is_not_forgiven():
    not_forgiven(program('not ok 1 - each_file_is_formatted', name='dressagefs:lint / lint'))


@case
def what_is_left_behind_fails_whatever_passed():
    equal(count([PASSES], left='mount /mnt')[:2], (1, '2 passed, 1 failed'))
    equal(count([FAILS], [PASSES], left='mount /mnt')[:2], (1, '2 passed, 1 failed'))


@case
def nothing_at_all_fails():
    equal(count([], left='mount /mnt')[:2], (1, '0 passed, 2 failed'))


print(f'1..{len(cases)}')
failures = 0
for number, function in enumerate(cases, 1):
    try:
        function()
        print(f'ok {number} - {function.__name__}')
    except AssertionError as e:
        failures += 1
        print(f'# {e}\nnot ok {number} - {function.__name__}')
sys.exit(failures > 0)
