# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trajectory ids that are awkward as names, and what is no id at all."""
import errno
import os

from harness import case, check, equal, fails_with, main

AWKWARD = {
    'a/b': 'a%2Fb',
    'two\nlines': 'two%0Alines',
    '50%': '50%25',
    '..': '%2E.',
    '.hidden': '%2Ehidden',
    'a..b': 'a..b',
    '%41': '%2541',
    'tab\tand\x7f': 'tab%09and%7F',
    'Ünïcode 日本 🙂': 'Ünïcode 日本 🙂',
    ' blank ': ' blank ',
    '-rf': '-rf',
    '"quoted\' $(id)': '"quoted\' $(id)',
}


@case
def awkward_ids_work_with_create_and_are_listed_encoded(d):
    for trajectory, name in AWKWARD.items():
        lease = d.ask('create', {'trajectory_id': trajectory})
        equal(lease['trajectory_id'], trajectory)
        equal(os.listdir(d.path('leases')), [name])
        shown = d.json('leases', name, 'lease.json')
        equal((shown['trajectory_id'], shown['name']), (trajectory, name))
        equal(d.run(name, 'echo works')['stdout'], 'works\n')
        equal(d.ask('terminate', {'trajectory_id': trajectory})['released'], True)
        equal(os.listdir(d.path('leases')), [])
        d.wait_ready()


@case
def mkdir_of_a_name_and_create_of_its_id_agree(d):
    for trajectory, name in AWKWARD.items():
        d.mkdir(name)
        lease = d.json('leases', name, 'lease.json')
        equal(lease['trajectory_id'], trajectory)
        equal(d.ask('create', {'trajectory_id': trajectory})['sandbox_id'], lease['sandbox_id'])
        d.rmdir(name)
        d.wait_ready()


@case
def what_is_no_encoding_is_EINVAL_in_mkdir_and_ENOENT_in_lookup(d):
    for name in (b'a%zz', b'%41', b'%2f', b'a%', b'%00', b'raw\nnewline', b'raw\x7f', b'not \xff utf-8', b'.leading', b'\xc0\xaf'):
        path = d.lease('').encode() + name
        fails_with(errno.EINVAL, os.mkdir, path)
        fails_with(errno.ENOENT, os.stat, path)
    check(d.read('last_error') != '', 'last_error is empty')


@case
def ids_that_cannot_be_are_refused_by_create(d):
    for trajectory in ('', 'x' * 256, 'x' * 300, '%' * 100):
        fails_with(errno.EINVAL, d.ask, 'create', {'trajectory_id': trajectory})
        check(d.read('last_error').strip() != '', 'last_error is empty')
    fails_with(errno.EINVAL, d.ask, 'create', b'not \xff utf-8\n')
    fails_with(errno.EINVAL, d.ask, 'create', b'nul \x00 in it\n')
    fails_with(errno.EINVAL, d.ask, 'create', b'{"trajectory_id": "a\\u0000b"}')
    longest = 'x' * 255
    equal(d.ask('create', longest)['trajectory_id'], longest)


@case
def a_name_longer_than_255_bytes_cannot_be_made(d):
    for size in (256, 300):
        try:
            os.mkdir(d.lease('x' * size))
            check(False, 'it was made')
        except OSError as e:
            check(e.errno in (errno.EINVAL, errno.ENAMETOOLONG), str(e))


main(slots=1)
