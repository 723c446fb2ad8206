# SPDX-License-Identifier: LGPL-2.1-or-later
"""A directory of the administrator's as the slots' root: read-only, and by [images] per lease."""
import atexit
import errno
import json
import os
import shutil
import subprocess
import tempfile

from harness import Daemon, Failed, Scratch, case, check, contains, equal, eventually, fails_with, main, scratch
from rootfs import make_rootfs

BASE = tempfile.mkdtemp(prefix='dressagefs-test-', dir=scratch())
atexit.register(shutil.rmtree, BASE, True)
os.chmod(BASE, 0o755)
ONE, TWO = (make_rootfs(os.path.join(BASE, name), name) for name in ('one', 'two'))


def succeeds(d, lease, command):
    result = d.run(lease, command)
    equal((result['returncode'], result['stderr']), (0, ''), command)
    return result['stdout']


def create(d, lease, image=None, **more):
    spec = {'trajectory_id': lease, **more}
    if image:
        spec['env_args'] = {'sandbox_image': image}
    return d.ask('create', spec)


def refused(d, code, lease, image, **more):
    """Its create fails with this errno; gives the reply's error."""
    fd = os.open(d.path('create'), os.O_RDWR)
    try:
        os.write(fd, json.dumps({'trajectory_id': lease, 'env_args': {'sandbox_image': image}, **more}).encode())
        fails_with(code, os.read, fd, 1 << 16)
        return json.loads(os.read(fd, 1 << 16))['error']
    finally:
        os.close(fd)


# --- a read-only root ---

@case
def commands_run_in_the_root_file_system(d):
    d.mkdir('t')
    equal(succeeds(d, 't', 'cat /etc/marker /opt/marker; echo /home/*; readlink /bin/sh'), 'one\none\n/home/blackbox /home/somebody\nbusybox\n')
    check(not os.path.exists(d.lease('t', 'fs', 'usr')), 'nothing of the machine is shown')


@case
def nothing_of_it_can_be_written(d):
    d.mkdir('t')
    result = d.run('t', 'for f in /x /etc/x /opt/x /opt/data/x /var/lib/x /home/x /home/somebody/x /bin/x; do touch $f; done; '
                        'rm /opt/marker; exit 3')
    equal((result['returncode'], result['stderr'].count('Read-only file system')), (3, 9))
    for name in ('etc/x', 'opt/x', 'opt/data/x'):
        fails_with(errno.EROFS, os.mkdir, d.lease('t', 'fs', name))
    equal(sorted(os.listdir(os.path.join(ONE, 'opt'))), ['data', 'marker'])


@case
def a_slot_has_its_own_places_in_it(d):
    d.mkdir('t')
    succeeds(d, 't', 'for d in /workspace /tmp /var/tmp ~ /dev/shm; do echo x >$d/x || exit; done; test -e /proc/self/status')
    equal(sorted(os.listdir(os.path.join(ONE, 'tmp'))), [])


@case
def its_etc_has_our_user_hosts_and_resolvers(d):
    d.mkdir('t')
    equal(succeeds(d, 't', 'id -un; grep guest /etc/passwd; head -n1 /etc/hosts; cat /etc/resolv.conf /etc/hostname'),
          'agent\nguest:x:33:33:guest:/home/somebody:/bin/sh\n127.0.0.1\tlocalhost slot\n# no network, no servers\nslot\n')
    equal(d.run('t', 'cat /etc/secret')['returncode'], 1, 'what others may not read')


@case
def a_login_shell_keeps_the_callers_PATH(d):
    d.mkdir('t')
    equal(succeeds(d, 't', 'echo $PATH'), os.environ.get('PATH') and d.env['PATH'] + '\n')


@case
def a_root_without_a_shell_is_refused_by_name():
    with Scratch() as base:
        os.mkdir(os.path.join(base, 'empty'))
        refuses('has no /bin/sh', f'slot.rootfs={base}/empty')
        refuses('cannot open the directory', f'slot.rootfs={base}/none')
        refuses('[images] py', f'images.py={base}/empty')


@case
def a_link_where_a_slot_has_a_place_is_refused_by_name():
    with Scratch() as base:
        root = make_rootfs(os.path.join(base, 'root'), 'x')
        os.rename(f'{root}/home', f'{root}/users')
        os.symlink('/users', f'{root}/home')
        refuses('at /home/blackbox', f'slot.rootfs={root}')


def refuses(text, *options):
    try:
        with Daemon(slots=1, options=options):
            pass
    except Failed as e:
        contains(str(e), text)
        return
    raise Failed('it started')


@case
def mounts_of_the_machine_can_be_shown_over_it():
    with Daemon(slots=1, options=(f'slot.rootfs={ONE}', 'slot.readonly_mounts=/usr/lib')) as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'ls /usr; cat /opt/marker; test -e /usr/lib/os-release'), 'lib\none\n')


@case
def it_goes_with_a_tmpfs():
    with Daemon(slots=1, options=(f'slot.rootfs={ONE}', 'slot.storage=tmpfs', 'slot.size=16M')) as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'cat /etc/marker; echo x >/workspace/x; stat -f -c %T /workspace ~'), 'one\ntmpfs\ntmpfs\n')
        equal(os.listdir(d.lease('t', 'fs', 'workspace')), ['x'])


# --- images ---

@case
def create_picks_an_image(d):
    reply = create(d, 't', 'second')
    check('error' not in reply, reply)
    equal(succeeds(d, 't', 'cat /etc/marker /opt/marker'), 'two\ntwo\n')
    with open(d.lease('t', 'fs', 'opt', 'marker'), encoding='utf-8') as f:
        equal(f.read(), 'two\n')


@case
def the_next_lease_of_that_slot_has_the_default_again(d):
    create(d, 'a', 'second')
    create(d, 'b', 'second')
    d.rmdir('a')
    d.rmdir('b')
    d.wait_ready()
    for lease in ('c', 'd'):
        d.mkdir(lease)
        equal(succeeds(d, lease, 'cat /etc/marker'), 'one\n')


@case
def an_unknown_image_takes_no_slot_and_names_the_known(d):
    error = refused(d, errno.EINVAL, 't', 'third')
    equal(error['reason'], 'unknown_image')
    contains(error['message'], 'first, second')
    equal(d.json('status.json')['total_ready'], 2)


@case
def a_live_lease_with_another_image_differs(d):
    create(d, 't', 'second')
    check('error' not in create(d, 't', 'second'), 'the same image')
    check('error' not in create(d, 't'), 'none asked for')
    equal(refused(d, errno.EEXIST, 't', 'first')['reason'], 'spec_differs')


@case
def without_waiting_an_image_is_had_while_a_slot_is_free(d):
    check('error' not in create(d, 'a', 'second', wait=0), 'a')
    check('error' not in create(d, 'b', 'first', wait=0), 'b')
    equal(refused(d, errno.EAGAIN, 'c', 'second', wait=0)['reason'], 'pool_exhausted')


@case
def many_creates_with_images_each_get_theirs(d):
    def ask(n):
        return subprocess.Popen(['python3', '-c', f'''
import os
fd = os.open({d.path('create')!r}, os.O_RDWR)
os.write(fd, b'{{"trajectory_id": "t{n}", "env_args": {{"sandbox_image": "{('first', 'second')[n % 2]}"}}}}')
print(os.read(fd, 1 << 16))'''], stdout=subprocess.PIPE, text=True)
    clients = {n: ask(n) for n in range(6)}
    while clients:
        n = eventually(lambda: next((n for n, c in clients.items() if c.poll() is not None), None) is not None and
                       next((n, ) for n, c in clients.items() if c.poll() is not None), 'a create is answered')[0]
        client = clients.pop(n)
        check('"error"' not in client.stdout.read(), f't{n}')
        client.stdout.close()
        equal(succeeds(d, f't{n}', 'cat /etc/marker'), ('one\n', 'two\n')[n % 2])
        d.rmdir(f't{n}')


@case
def a_waiter_that_dies_leaves_the_slot_with_the_default(d):
    client = subprocess.Popen(['python3', '-c', f'''
import os
fd = os.open({d.path('create')!r}, os.O_RDWR)
os.write(fd, b'{{"trajectory_id": "t", "env_args": {{"sandbox_image": "second"}}}}')
os.write(1, b'x')
os.read(fd, 1 << 16)'''], stdout=subprocess.PIPE)
    client.stdout.read(1)
    client.kill()
    client.wait()
    client.stdout.close()
    eventually(lambda: d.json('status.json')['total_ready'] == 2 or os.path.isdir(d.lease('t')), 'settled')
    if os.path.isdir(d.lease('t')):
        d.rmdir('t')
    d.wait_ready()
    for lease in ('a', 'b'):
        d.mkdir(lease)
        equal(succeeds(d, lease, 'cat /etc/marker'), 'one\n')


@case
def an_image_that_broke_since_the_start_fails_its_create_and_nothing_else():
    with Scratch() as base:
        broken = make_rootfs(os.path.join(base, 'broken'), 'broken')
        with Daemon(slots=1, options=(f'slot.rootfs={ONE}', f'images.broken={broken}')) as d:
            os.rename(broken, broken + '-away')
            contains(refused(d, errno.EIO, 't', 'broken')['message'], broken)
            d.wait_ready()
            d.mkdir('t')
            equal(succeeds(d, 't', 'cat /etc/marker'), 'one\n')


main(slots=2, options=(f'slot.rootfs={ONE}', f'images.first={ONE}', f'images.second={TWO}'))
