# SPDX-License-Identifier: LGPL-2.1-or-later
"""What we are compared with, and the means to measure both in turns."""
import collections
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'fs'))
from harness import (  # noqa: E402  pylint: disable=wrong-import-position
    PATIENCE, ROOT, Skip, mounts, running, scratch, test_environment, watchdog)

COMMAND = os.environ.get('BENCH_COMMAND', os.path.join(ROOT, 'build/tests/bench/command'))
PROGRAMS = os.path.dirname(COMMAND)
LONGEST = 240  # seconds for a group's part
FUSE = os.path.join(ROOT, 'subprojects/fuse-3.18.3')

# Times are in microseconds. Without a budget the row only tells; rival '' and rival_p50 0: there is none. later: what is not built
# yet and must be before the budget can be kept. why: there are no numbers, and that is the reason; failed: it is no good one.
Row = collections.namedtuple('Row', 'name rival p50 p99 rival_p50 budget later why failed',
                             defaults=['', 0, 0, 0, None, '', '', False])


def slots_place():
    """Where daemons keep their state, slot directories too."""
    return scratch()


def end_daemons():
    for daemon in list(running):
        daemon.destroy()


class Missing(Skip):
    """A rival that this machine does not have; the text says why."""


class Failure(Exception):
    pass


def attempt(name, rows):
    """These rows, and where they end by an error, one that says so. What hangs is ended by the death of its daemons."""
    timer = watchdog(name, LONGEST)
    try:
        yield from rows
    except Skip as e:
        yield Row(name, why=str(e))
    except Exception as e:  # pylint: disable=broad-except
        yield Row(name, why=(str(e).strip() or type(e).__name__).splitlines()[0][:300], failed=True)
    finally:
        timer.cancel()


def run(words, timeout=LONGEST):
    """What the program prints. It gets time to clean up when we are interrupted."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=test_environment()) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode == 77:
        raise Missing(out.strip())
    if process.returncode != 0:
        raise Failure(f'{os.path.basename(words[0])}: {err.strip() or f"exit status {process.returncode}"}')
    return out


def timed_files(operation, rounds, *dirs):
    """[(p50, p99)], one a directory, measured in turns."""
    lines = run([os.path.join(PROGRAMS, 'files'), operation, str(rounds), *dirs]).splitlines()
    return [tuple(map(float, line.split()[-2:])) for line in lines]


def bwrap_words(work):
    """A one-shot bubblewrap that isolates as a slot does."""
    for name in ('etc', 'work', 'home', 'tmp', 'runtime'):
        os.makedirs(f'{work}/{name}', exist_ok=True)
    with open(f'{work}/etc/passwd', 'w', encoding='utf-8') as f:
        f.write('agent:x:1000:1000::/home/blackbox:/bin/sh\n')
    return (f'bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup --unshare-net --hostname slot '
            f'--uid 1000 --gid 1000 --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 '
            f'--symlink usr/sbin /sbin --ro-bind {work}/etc /etc --proc /proc --dev /dev --dir /var --symlink ../tmp /var/tmp '
            f'--perms 0755 --dir /home --perms 0755 --dir /run --perms 1777 --size 67108864 --tmpfs /dev/shm '
            f'--bind {work}/work /workspace --bind {work}/home /home/blackbox --bind {work}/tmp /tmp '
            f'--bind {work}/runtime /workspace_sandbox/blackbox_server_runtime --remount-ro / --remount-ro /dev '
            f'--chdir /workspace --clearenv --setenv PATH /usr/bin:/bin sh -c true').split()


def passthrough(name):
    """The path of one of libfuse's examples, built from the subproject's source beside our own programs."""
    source = next((path for path in (f'{FUSE}/example/{name}.c', f'{FUSE}/example/{name}.cc') if os.path.exists(path)), None)
    built, library = os.path.join(PROGRAMS, name), os.path.join(PROGRAMS, '../../subprojects/fuse-3.18.3/lib/libfuse3.a')
    if not source or not os.path.exists(library):
        raise Missing(f'{name}: libfuse is not built from source here')
    if not os.path.exists(built):
        compiler = ['cc'] if source.endswith('.c') else ['c++', '-std=c++17']
        done = subprocess.run([*compiler, '-O2', '-w', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', f'-I{FUSE}/include',
                               '-I' + os.path.join(PROGRAMS, '../../subprojects/fuse-3.18.3'), source, library, '-lpthread', '-ldl',
                               '-o', built], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f'{name}: {done.stderr[-300:]}')
    return built


class Mount:
    """One of libfuse's examples on a mountpoint of its own, over the source directory."""

    def __init__(self, name, source, mountpoint, *more):
        options = ['--foreground', *more, source] if name == 'passthrough_hp' else ['-f', '-o', f'source={source}']
        self.words, self.path = [passthrough(name), *options, mountpoint], mountpoint

    def __enter__(self):
        os.makedirs(self.path, exist_ok=True)
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while self.path not in mounts():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise Missing(f'{self.words[0]}: {self.process.stderr.read()[-300:]}')
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        subprocess.run(['fusermount3', '-uz', self.path], check=False, capture_output=True)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.stderr.close()
