# SPDX-License-Identifier: LGPL-2.1-or-later
"""A directory of the administrator's as the slots' root: read-only, and by [images] per lease."""
import atexit
import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile

from harness import IS_ROOT, Daemon, Failed, Scratch, Skip, another_user, case, check, contains, equal, eventually, fails_with, main, run, scratch
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


def generations(d):
    return [d.read('slots', number, 'generation') for number in sorted(os.listdir(d.path('slots')))]


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
def what_an_image_had_that_is_no_longer_configured_goes_with_the_next_start():
    with Daemon(slots=1, options=(f'images.a={ONE}', f'images.b={TWO}', f'images.c={TWO}')) as d:
        equal(sorted(name for name in os.listdir(d.state) if name.startswith('etc')), ['etc', 'etc-1', 'etc-2', 'etc-3'])
        d.stop()
        for image in (f'images.b={TWO}', f'images.c={TWO}'):
            at = d.words.index(image)
            del d.words[at - 1:at + 1]
        d.start()
        equal(sorted(name for name in os.listdir(d.state) if name.startswith('etc')), ['etc', 'etc-1'])


@case
def a_live_lease_with_another_image_differs(d):
    create(d, 't', 'second')
    check('error' not in create(d, 't', 'second'), 'the same image')
    check('error' not in create(d, 't'), 'none asked for')
    equal(refused(d, errno.EEXIST, 't', 'first')['reason'], 'spec_differs')


@case
def a_lost_lease_that_is_taken_again_without_a_word_has_its_image_and_environment_again(d):
    create(d, 't', 'second', env={'X': '1'})
    for image, marker in ((None, 'two'), ('first', 'one'), (None, 'one')):
        os.kill(int(d.read('slots', f'{d.slot_of("t"):04}', 'pid')), signal.SIGKILL)
        eventually(lambda: d.read('leases', 't', 'state') == 'LOST\n', 'the lease is LOST')
        check('error' not in create(d, 't', image), 'it is taken again')
        equal(succeeds(d, 't', 'cat /etc/marker; echo $X'), f'{marker}\n1\n')
    d.rmdir('t')
    create(d, 't')
    equal(succeeds(d, 't', 'cat /etc/marker; echo $X'), 'one\n\n')


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
    before = generations(d)
    client = subprocess.Popen(['python3', '-c', f'''
import os
fd = os.open({d.path('create')!r}, os.O_RDWR)
os.write(fd, b'{{"trajectory_id": "t", "env_args": {{"sandbox_image": "second"}}}}')
os.write(1, b'x')
os.read(fd, 1 << 16)'''], stdout=subprocess.PIPE)
    client.stdout.read(1)
    eventually(lambda: d.json('status.json')['total_ready'] < 2 or generations(d) != before, 'a slot is being started for it')
    client.kill()
    client.wait()
    client.stdout.close()
    eventually(lambda: d.json('status.json')['total_ready'] == 2 or os.path.isdir(d.lease('t')), 'settled')
    check(generations(d) != before, 'no slot was started for it')
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
            for _ in range(5):
                contains(refused(d, errno.EIO, 't', 'broken')['message'], broken)
                # nor does the slot pay for it by a longer and longer wait
                equal(json.loads(d.read('slots', '0000', 'health'))['failures'], 1)
                d.wait_ready()
            d.mkdir('t')
            equal(succeeds(d, 't', 'cat /etc/marker'), 'one\n')


# --- an overlay ---

def overlaid(*options, root=ONE, slots=1):
    return Daemon(slots=slots, options=(f'slot.rootfs={root}', 'slot.overlay=on', *options))


@case
def with_an_overlay_commands_write_anywhere_and_the_next_lease_sees_none_of_it():
    with overlaid() as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'id -u; echo x >/x; echo x >>/etc/marker; rm /opt/marker; mv /bin/wc /bin/wc2; mkdir /var/new; '
                               'ls /opt; cat /etc/marker'), '0\ndata\none\nx\n')
        equal(os.listdir(d.lease('t', 'fs', 'opt')), ['data'])
        d.rmdir('t')
        d.wait_ready()
        d.mkdir('t')
        equal(succeeds(d, 't', 'cat /etc/marker /opt/marker; test -e /x || test -e /var/new || test -e /bin/wc2 || echo clean'), 'one\none\nclean\n')
    equal(sorted(os.listdir(os.path.join(ONE, 'opt'))), ['data', 'marker'])


@case
def an_overlay_has_our_hosts_and_resolvers():
    with overlaid() as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'head -n1 /etc/hosts; cat /etc/resolv.conf /etc/hostname; grep -c guest /etc/passwd; echo $PATH'),
              f'127.0.0.1\tlocalhost slot\n# no network, no servers\nslot\n1\n{d.env["PATH"]}\n')


@case
def files_of_an_overlay_are_changed_through_the_mount_too():
    with overlaid() as d:
        d.mkdir('t')
        for at in ('opt', 'etc', 'workspace', 'var/lib'):
            top = d.lease('t', 'fs', at)
            with open(os.path.join(top, 'new'), 'w', encoding='utf-8') as f:
                f.write('text')
            os.mkdir(os.path.join(top, 'dir'))
            os.rename(os.path.join(top, 'new'), os.path.join(top, 'dir', 'moved'))
            os.link(os.path.join(top, 'dir', 'moved'), os.path.join(top, 'linked'))
            os.symlink('linked', os.path.join(top, 'link'))
            equal(succeeds(d, 't', f'cat /{at}/link; stat -c %u:%g /{at}/linked /{at}/dir'), 'text0:0\n0:0\n')
            owner = os.stat(os.path.join(top, 'linked'))
            equal((owner.st_uid, owner.st_gid), (os.geteuid(), os.getegid()))
            os.unlink(os.path.join(top, 'dir', 'moved'))
            os.rmdir(os.path.join(top, 'dir'))
        with open(d.lease('t', 'fs', 'opt', 'marker'), 'a', encoding='utf-8') as f:
            f.write('more\n')
        equal(succeeds(d, 't', 'cat /opt/marker'), 'one\nmore\n')


@case
def under_a_root_daemon_users_switch_and_chown_holds():
    need_root()
    with overlaid() as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'chown 33:33 /opt/data && stat -c %u:%g /opt/data; su guest -c "id -un; touch /opt/data/own" && '
                               'stat -c %u /opt/data/own; su guest -c "touch /opt/no" 2>/dev/null || echo refused'),
              '33:33\nguest\n33\nrefused\n')
        own = d.lease('t', 'fs', 'opt', 'data', 'own')
        equal((os.stat(own).st_uid, os.stat(own).st_gid), (33, 33))
        os.chown(own, 4321, 65535)
        equal(succeeds(d, 't', 'stat -c %u:%g /opt/data/own'), '4321:65535\n')
        fails_with(errno.EPERM, os.chown, own, 65536, -1)
        os.chown(own, 0, 0)
        equal(succeeds(d, 't', 'stat -c %u:%g /opt/data/own'), '0:0\n')
        # what a client may, in a directory of another user inside
        made = d.lease('t', 'fs', 'opt', 'data', 'made')
        os.mkdir(made)
        os.rename(made, made + '2')
        equal(succeeds(d, 't', 'stat -c %u:%g /opt/data/made2'), '0:0\n')


@case
def under_a_root_daemon_root_inside_has_few_capabilities_and_no_ids_of_the_host():
    need_root()
    with overlaid() as d:
        d.mkdir('t')
        out = succeeds(d, 't', 'grep -E "^(Cap|NoNew|Seccomp:)" /proc/self/status; cat /proc/self/uid_map')
        wanted = 0xdb  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID
        fields = dict(line.split(':\t') for line in out.splitlines() if ':' in line)
        equal({name: int(value, 16) for name, value in fields.items()},
              {'CapInh': 0, 'CapPrm': wanted, 'CapEff': wanted, 'CapBnd': wanted, 'CapAmb': 0, 'NoNewPrivs': 1, 'Seccomp': 2})
        equal(out.splitlines()[-1].split(), ['0', '0', '65536'])
        pid = int(d.read('slots', '0000', 'pid'))
        with open(f'/proc/{pid}/uid_map', encoding='utf-8') as f:
            inside, host, count = map(int, f.read().split())
        check(host >= 65536 and (inside, count) == (0, 65536), f'host ids from {host}')
        equal(d.run('t', 'mount -t tmpfs x /mnt')['returncode'] != 0, True)


@case
def a_user_inside_is_an_ordinary_one_where_it_is_set():
    need_root()
    with overlaid('slot.uid=33', 'slot.gid=33') as d:
        d.mkdir('t')
        equal(succeeds(d, 't', 'id -un; id -u; grep CapPrm /proc/self/status; touch /opt/x 2>/dev/null || echo refused; touch /workspace/x ~/x'),
              'guest\n33\nCapPrm:\t0000000000000000\nrefused\n')
        with open(d.lease('t', 'fs', 'workspace', 'y'), 'w', encoding='utf-8') as f:
            f.write('x')
        equal(succeeds(d, 't', 'stat -c %u /workspace/y; rm /workspace/y'), '33\n')


@case
def the_layer_is_on_the_slots_tmpfs_and_bounded_with_it():
    with overlaid('slot.storage=tmpfs', 'slot.size=16M', 'slot.inodes=1000', slots=2) as d:
        d.mkdir('bomb')
        d.mkdir('other')
        result = d.run('bomb', 'head -c 1073741824 /dev/zero >/opt/bomb')
        check(result['returncode'] != 0, 'it failed')
        equal(result['metadata']['reason'], 'disk_full')
        equal(succeeds(d, 'other', 'head -c 8388608 /dev/zero >/opt/mine; echo x >/workspace/x; stat -f -c %T /workspace'), 'tmpfs\n')
        equal(succeeds(d, 'bomb', 'rm /opt/bomb; echo x >/opt/x'), '')
        space = os.statvfs(d.lease('other', 'fs'))
        equal(space.f_blocks * space.f_frsize, 16 << 20)


@case
def an_image_can_be_had_with_an_overlay():
    with overlaid(f'images.second={TWO}') as d:
        create(d, 't', 'second')
        equal(succeeds(d, 't', 'cat /etc/marker; echo x >/opt/x; ls /opt'), 'two\ndata\nmarker\nx\n')
        d.rmdir('t')
        d.wait_ready()
        d.mkdir('t')
        equal(succeeds(d, 't', 'cat /etc/marker; ls /opt'), 'one\ndata\nmarker\n')


@case
def an_unmount_from_outside_ends_the_daemon_though_a_slot_has_a_copy_of_the_mount():
    with overlaid() as d:
        d.mkdir('t')
        d.rmdir('t')
        d.wait_ready()  # a slot that was started after the mount
        equal(run(['fusermount3', '-u', d.mnt]).returncode, 0)
        d.wait_end()


@case
def an_overlay_over_the_machines_own_files_is_refused():
    refuses('overlay = on needs a [slot] rootfs', 'slot.overlay=on')


@case
def an_overlay_over_the_machines_own_root_is_refused():
    for root in ('/', '/usr/..'):
        refuses("is this machine's own root", f'slot.rootfs={root}', 'slot.overlay=on')


@case
def a_plain_user_is_told_that_the_root_must_be_his():
    with Scratch() as base:
        root = make_rootfs(os.path.join(base, 'root'), 'x')
        if not IS_ROOT:
            raise Skip('needs root to give it to another user')
        _, uid, gid = another_user()
        name, other, group = another_user(uid)
        for path in (root, *(os.path.join(root, n) for n in os.listdir(root))):
            os.chown(path, uid, gid, follow_symlinks=False)
        daemon = Daemon(slots=1, options=(f'slot.rootfs={root}', 'slot.overlay=on'), user=(other, group), env={'HOME': '/nonexistent'})
        try:
            daemon.start()
        except Failed as e:
            contains(str(e), f'belongs to uid {uid}')
        else:
            raise Failed(f'it started as {name}')
        finally:
            daemon.destroy()


def need_root():
    if not IS_ROOT:
        raise Skip('a range of ids needs a daemon of root')


main(slots=2, options=(f'slot.rootfs={ONE}', f'images.first={ONE}', f'images.second={TWO}'))
