# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian packages are installed in a slot with an overlay and no network. DRESSAGE_TEST_DEBIAN is a root file system that
make-debian has made; without it nothing here runs."""
import os

from harness import IS_ROOT, Daemon, Skip, case, check, contains, equal, main

ROOTFS = os.environ.get('DRESSAGE_TEST_DEBIAN', '')


def debian(*options):
    if not IS_ROOT:
        raise Skip('a range of ids needs a daemon of root')
    if not os.path.exists(os.path.join(ROOTFS, 'srv', 'packages', 'complete')):
        raise Skip('DRESSAGE_TEST_DEBIAN names no root file system of make-debian')
    above = ROOTFS
    while above != '/':
        if not os.stat(above).st_mode & 0o001:
            raise Skip(f'{above} lets no other user pass')
        above = os.path.dirname(above)
    return Daemon(slots=1, options=(f'slot.rootfs={ROOTFS}', 'slot.overlay=on', 'slot.network=none', *options))


def succeeds(d, command):
    result = d.run('t', command)
    equal(result['returncode'], 0, command + '\n' + result['stdout'][-2000:] + result['stderr'][-2000:])
    return result['stdout']


def install_dbus(d):
    """With its dependencies, its user and its set-uid program of another group."""
    d.mkdir('t')
    equal(d.run('t', 'id messagebus')['returncode'], 1)
    out = succeeds(d, 'cd /srv/packages && apt-get install -y ./*.deb')
    contains(out, 'Setting up dbus ')
    status = succeeds(d, "dpkg-query -W -f '${Status}\\n' dbus libdbus-1-3 libexpat1")
    equal(status, 'install ok installed\n' * 3)
    uid, gid = succeeds(d, 'id -u messagebus; id -g messagebus').split()
    check(0 < int(uid) < 1000, uid)
    equal(succeeds(d, 'stat -c %U:%G:%a /usr/lib/dbus-1.0/dbus-daemon-launch-helper'), 'root:messagebus:4754\n')
    equal(succeeds(d, "su -s /bin/sh messagebus -c 'id -un; touch /usr/no 2>/dev/null || echo refused'"), 'messagebus\nrefused\n')
    equal(len(succeeds(d, 'dbus-uuidgen').strip()), 32)
    helper = os.stat(d.lease('t', 'fs', 'usr', 'lib', 'dbus-1.0', 'dbus-daemon-launch-helper'))
    equal((helper.st_uid, helper.st_gid), (0, int(gid)))


@case
def apt_get_installs_dbus_with_its_dependencies_and_without_a_network():
    with debian() as d:
        install_dbus(d)
        succeeds(d, 'useradd -m somebody && su somebody -c "touch ~/own" && test "$(stat -c %U ~somebody/own)" = somebody')
        d.rmdir('t')
        d.wait_ready()
        d.mkdir('t')
        equal(d.run('t', 'dpkg-query -W dbus')['returncode'], 1, 'the next lease has none of it')


@case
def apt_get_installs_dbus_into_a_layer_on_a_tmpfs():
    with debian('slot.storage=tmpfs', 'slot.size=256M') as d:
        install_dbus(d)


main()
