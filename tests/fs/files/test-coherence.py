# SPDX-License-Identifier: LGPL-2.1-or-later
"""What happens behind the mount is seen at once, and the other way round: the acceptance list of coherence."""
import errno
import os
import stat
import threading

from mount import SANITIZED, case, check, equal, fails_with, main, read, write

ROUNDS = 200 if SANITIZED else 1000


@case
def a_new_file_is_seen(m):
    fails_with(errno.ENOENT, os.stat, m.at('f'))
    m.plant('f', 'x')
    equal(os.stat(m.at('f')).st_size, 1)
    equal(os.listdir(m.fs), ['f'])


@case
def a_deleted_file_is_gone(m):
    m.plant('f', 'x')
    equal(read(m.at('f')), b'x')
    os.unlink(m.behind('f'))
    fails_with(errno.ENOENT, os.stat, m.at('f'))
    equal(os.listdir(m.fs), [])


@case
def new_bytes_of_the_same_length_are_read_by_a_new_open(m):
    m.plant('f', 'aaaa')
    equal(read(m.at('f')), b'aaaa')
    write(m.behind('f'), 'bbbb')
    equal(read(m.at('f')), b'bbbb')


@case
def new_bytes_of_the_same_length_are_read_by_an_old_open(m):
    m.plant('f', 'a' * 5000)
    with open(m.at('f'), 'rb', buffering=0) as f:
        for i in range(50):
            byte = bytes([65 + i % 26])
            with open(m.behind('f'), 'r+b', buffering=0) as b:
                b.write(byte * 5000)
            equal(os.pread(f.fileno(), 5000, 0), byte * 5000, f'round {i}')


@case
def an_append_shows_in_size_and_bytes(m):
    m.plant('f', 'one')
    with open(m.at('f'), 'rb', buffering=0) as f:
        equal(f.read(), b'one')
        with open(m.behind('f'), 'ab') as b:
            b.write(b'two')
        equal(os.stat(m.at('f')).st_size, 6)
        equal(f.read(), b'two')  # as tail -f does


@case
def a_truncation_shows(m):
    m.plant('f', 'x' * 10000)
    with open(m.at('f'), 'rb', buffering=0) as f:
        equal(len(f.read()), 10000)
        os.truncate(m.behind('f'), 5)
        equal(os.stat(m.at('f')).st_size, 5)
        equal(os.pread(f.fileno(), 100, 0), b'xxxxx')


@case
def a_file_replaced_by_rename_is_the_new_one(m):
    m.plant('f', 'old')
    with open(m.at('f'), 'rb', buffering=0) as f:
        m.plant('g', 'newer')
        os.rename(m.behind('g'), m.behind('f'))
        equal(read(m.at('f')), b'newer')
        equal(os.stat(m.at('f')).st_size, 5)
        equal(os.pread(f.fileno(), 10, 0), b'old')


@case
def a_file_replaced_by_a_directory_or_a_link_is_that(m):
    m.plant('f', 'x')
    equal(read(m.at('f')), b'x')
    os.unlink(m.behind('f'))
    m.plant_dir('f')
    check(os.path.isdir(m.at('f')), 'not a directory')
    m.plant('f/g', 'y')
    equal(read(m.at('f/g')), b'y')
    os.unlink(m.behind('f/g'))
    os.rmdir(m.behind('f'))
    os.symlink('h', m.behind('f'))
    equal(os.readlink(m.at('f')), 'h')


@case
def a_changed_mode_shows(m):
    m.plant('f', 'x', 0o644)
    equal(stat.S_IMODE(os.stat(m.at('f')).st_mode), 0o644)
    os.chmod(m.behind('f'), 0o755)
    equal(stat.S_IMODE(os.stat(m.at('f')).st_mode), 0o755)
    os.utime(m.behind('f'), ns=(1, 2))
    equal(os.stat(m.at('f')).st_mtime_ns, 2)


@case
def a_moved_directory_is_found_where_it_is(m):
    m.plant_dir('a')
    m.plant_dir('b')
    m.plant('a/f', 'x')
    equal(read(m.at('a/f')), b'x')
    os.rename(m.behind('a'), m.behind('b/c'))
    equal(read(m.at('b/c/f')), b'x')
    fails_with(errno.ENOENT, os.stat, m.at('a/f'))
    os.rename(m.behind('b/c'), m.behind('a'))
    equal(read(m.at('a/f')), b'x')


@case
def a_working_directory_that_was_moved_still_works(m):
    m.plant_dir('a')
    m.plant('a/f', 'x')
    fd = os.open(m.at('a'), os.O_RDONLY)
    os.rename(m.behind('a'), m.behind('b'))
    if m.way in ('handles', 'user'):
        equal(read(f'/proc/self/fd/{fd}/f'), b'x')
    check(os.listdir(fd) == ['f'], 'its entries are gone')
    os.close(fd)


@case
def directories_swapped_behind_are_told_apart(m):
    for name in 'ab':
        m.plant_dir(name)
        m.plant(f'{name}/f', name)
    for i in range(20):
        equal(read(m.at('a/f')), b'ab'[i % 2:i % 2 + 1], f'round {i}')
        os.rename(m.behind('a'), m.behind('t'))
        os.rename(m.behind('b'), m.behind('a'))
        os.rename(m.behind('t'), m.behind('b'))


@case
def an_exclusive_create_sees_what_was_made_and_removed_behind(m):
    for _ in range(50):
        m.plant('lock')
        fails_with(errno.EEXIST, os.open, m.at('lock'), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.unlink(m.behind('lock'))
        os.close(os.open(m.at('lock'), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        check(os.path.exists(m.behind('lock')), 'not made')
        os.rename(m.behind('lock'), m.behind('other'))
        os.close(os.open(m.at('lock'), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(m.behind('lock'))


@case
def appends_from_both_sides_lose_nothing(m):
    m.plant('log')
    count = 300

    def work(path, tag):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for i in range(count):
            os.write(fd, b'%s%d\n' % (tag, i))
        os.close(fd)
    threads = [threading.Thread(target=work, args=a) for a in ((m.at('log'), b'f'), (m.behind('log'), b'b'), (m.at('log'), b'g'))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = read(m.behind('log')).split()
    equal(len(lines), 3 * count)
    for tag in b'fbg':
        equal([int(line[1:]) for line in lines if line[0] == tag], list(range(count)))


@case
def what_is_written_here_is_there_before_close(m):
    with open(m.at('f'), 'wb', buffering=0) as f:
        f.write(b'abc')
        equal(read(m.behind('f')), b'abc')
        os.pwrite(f.fileno(), b'X', 1)
        equal(read(m.behind('f')), b'aXc')
        os.ftruncate(f.fileno(), 1)
        equal(read(m.behind('f')), b'a')


@case
def a_listing_is_of_now(m):
    for i in range(50):
        m.plant(f'n{i}')
        equal(len(os.listdir(m.fs)), i + 1)


@case
def a_thousand_rounds_from_behind_to_front(m):
    for i in range(ROUNDS):
        text = b'%d ' % i * (1 + i % 50)
        write(m.behind('f'), text)
        equal(read(m.at('f')), text, f'round {i}')
        equal(os.stat(m.at('f')).st_size, len(text), f'size in round {i}')


@case
def a_thousand_rounds_from_front_to_behind(m):
    for i in range(ROUNDS):
        text = b'%d ' % i * (1 + i % 50)
        write(m.at('f'), text)
        equal(read(m.behind('f')), text, f'round {i}')


@case
def a_thousand_same_sized_rounds_on_descriptors_that_stay_open(m):
    m.plant('f', 'x' * 64)
    front, behind = os.open(m.at('f'), os.O_RDWR), os.open(m.behind('f'), os.O_RDWR)
    for i in range(ROUNDS):
        text = b'%-64d' % i
        os.pwrite(behind, text, 0)
        equal(os.pread(front, 64, 0), text, f'round {i}')
        text = b'%-64d' % -i
        os.pwrite(front, text, 0)
        equal(os.pread(behind, 64, 0), text, f'round {i} back')
    os.close(front)
    os.close(behind)


main()
