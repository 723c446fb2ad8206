# SPDX-License-Identifier: LGPL-2.1-or-later
"""A root daemon whose mount belongs to a user: that user works in it, root may look, nobody else gets in."""
import grp
import json
import os

from harness import IS_ROOT, Daemon, Scratch, Skip, another_user, case, check, contains, equal, main, sh


def with_owner(function):
    def inner():
        if not IS_ROOT:
            raise Skip('only root can give a mount to another user')
        name, uid, gid = another_user()
        with Daemon(slots=2, owner=name) as d:
            function(d, (uid, gid))
    inner.__name__ = function.__name__
    return case(inner)


@with_owner
def the_owner_takes_a_lease_runs_a_command_and_gives_it_back(d, owner):
    done = sh(f'cd {d.mnt}; mkdir leases/t; echo "id -u; cat hello; echo made > by-command" > leases/t/run_command; '
              'echo hello > leases/t/fs/workspace/hello; cat leases/t/run_command; stat -c "%u %n" leases leases/t '
              'leases/t/run_command leases/t/fs/workspace/hello leases/t/fs/workspace/by-command', user=owner)
    equal((done.returncode, done.stderr), (0, ''))
    lines = done.stdout.splitlines()
    check(json.loads(lines[0])['returncode'] in (0, 1), lines[0])
    equal([line.split()[0] for line in lines[1:]], [str(owner[0])] * 5)
    equal(sh(f'rmdir {d.mnt}/leases/t', user=owner).returncode, 0)


@with_owner
def the_owner_sees_and_makes_files_as_the_owner(d, owner):
    d_path = d.lease('t', 'fs', 'workspace')
    with Scratch() as work:
        os.chown(work, *owner)
        done = sh(f'mkdir {d.lease("t")} && cd {d_path} && umask 022 && touch f && mkdir dir && ln -s f link && chmod 600 f && '
                  f'cp -a f copy && chown {owner[0]}:{owner[1]} f && [ -O f ] && [ -O dir ] && stat -c "%u:%g %a" f dir copy',
                  user=owner)
        equal((done.returncode, done.stderr), (0, ''))
        me = f'{owner[0]}:{owner[1]}'
        equal(done.stdout, f'{me} 600\n{me} 755\n{me} 600\n')
    inside = d.run('t', 'stat -c %u:%g f dir copy; cat f; touch new-from-inside')
    equal(inside['stdout'], '1000:1000\n' * 3)
    equal(os.stat(d_path + '/new-from-inside').st_uid, owner[0])


@with_owner
def the_owner_cannot_give_files_away(d, owner):
    done = sh(f'mkdir {d.lease("t")} && cd {d.lease("t", "fs", "workspace")} && touch f && chown 0 f', user=owner)
    check(done.returncode != 0, 'chown to root worked')
    contains(done.stderr, 'Operation not permitted')


@with_owner
def nobody_else_gets_in(d, owner):
    other = another_user(owner[0])[1:]
    equal(sh(f'mkdir {d.lease("t")}; echo secret > {d.lease("t", "fs", "workspace", "f")}', user=owner).returncode, 0)
    for script in (f'ls {d.mnt}', f'cat {d.mnt}/status', f'cat {d.lease("t", "fs", "workspace", "f")}',
                   f'mkdir {d.lease("u")}', f'echo id > {d.lease("t", "run_command")}', f'echo t > {d.mnt}/terminate',
                   f'ls {d.lease("t")}', f'rmdir {d.lease("t")}'):
        done = sh(script, user=other)
        check(done.returncode != 0, f'{script} worked for another user: {done.stdout}')
        check('Permission denied' in done.stderr or 'not permitted' in done.stderr, done.stderr)
    equal(sh(f'cat {d.lease("t", "fs", "workspace", "f")}').stdout, 'secret\n', 'root')


@with_owner
def nobody_else_gets_at_the_slots_directories_or_the_journal(d, owner):
    other = another_user(owner[0])[1:]
    for user in (owner, other):
        for script in (f'ls {d.state}', f'cat {d.state}/journal.db', f'ls {d.state}/slots'):
            check(sh(script, user=user).returncode != 0, f'{script} worked for uid {user[0]}')


@case
def a_member_of_the_group_reads_and_changes_nothing():
    if not IS_ROOT:
        raise Skip('only root can give a mount to another group')
    name, uid, _ = another_user()
    gid = grp.getgrnam('users').gr_gid
    with Daemon(slots=2, options=['mount.group=users']) as d:
        d.mkdir('t')
        member = (uid, gid)
        for path in ('', 'leases/t', 'leases/t/run_command', 'status'):
            equal(os.stat(d.path(path)).st_gid, gid, path)
        contains(sh(f'cat {d.mnt}/status', user=member).stdout, 't')
        equal(sh(f'cat {d.lease("t", "state")}', user=member).stdout, 'ACTIVE\n')
        for script in (f'mkdir {d.lease("u")}', f'rmdir {d.lease("t")}', f'echo id > {d.lease("t", "run_command")}',
                       f'echo t > {d.mnt}/terminate', f'echo u > {d.mnt}/create', f'echo 5 > {d.lease("t", "ttl")}'):
            done = sh(script, user=member)
            check(done.returncode != 0, f'{script} worked for a member of the group')
            contains(done.stderr, 'Permission denied')
        equal(os.listdir(d.path('leases')), ['t'])
        check(sh(f'cat {d.mnt}/status', user=another_user(uid)[1:]).returncode != 0, f'others than {name} got in')


@case
def without_allow_other_only_the_one_who_mounted_gets_in():
    if not IS_ROOT:
        raise Skip('only root has the kernel ask others by default')
    _, uid, gid = another_user()
    everybody = ['mount.mode=0755']
    with Daemon(slots=1, options=everybody) as d:
        equal(sh(f'cat {d.mnt}/status > /dev/null', user=(uid, gid)).returncode, 0, 'with allow_other')
    with Daemon(slots=1, options=[*everybody, 'mount.allow_other=off']) as d:
        contains(d.read('status'), '0000')
        done = sh(f'cat {d.mnt}/status', user=(uid, gid))
        equal((done.returncode, done.stdout), (1, ''))
        contains(done.stderr, 'Permission denied')


main()
