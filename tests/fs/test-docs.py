# SPDX-License-Identifier: LGPL-2.1-or-later
"""The transcripts in README.md and docs/ are true: each ```console block is typed into a shell and must print what it shows.

A line that begins with "$ " is typed, those that follow "> " continue it, the rest is the output; … stands for any text
within a line, a line of … alone for any lines. The blocks of a file are one session: /mnt/dressage is a temporary mount.
"""
import os
import re
import signal
import subprocess

from harness import (DRESSAGE, DRESSAGEFS, PATIENCE, ROOT, Failed, Scratch, Skip, case, check, equal, eventually, main, mounts, processes_of,
                     test_environment)


def transcript_of(path):
    """[(command, expected lines)] of all console blocks."""
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        blocks = re.findall(r'^```console\n(.*?)^```$', f.read(), re.M | re.S)
    steps = []
    for line in '\n'.join(blocks).splitlines():
        if line.startswith('$ '):
            steps.append([line[2:], []])
        elif line.startswith('> ') and steps and not steps[-1][1]:
            steps[-1][0] += '\n' + line[2:]
        elif line:
            steps[-1][1].append(line)
    return steps


def pattern_of(lines):
    parts = ['(?:.*\n)*?' if line == '…' else '.*?'.join(map(re.escape, line.split('…'))) + '\n' for line in lines]
    return re.compile(''.join(parts) + r'\Z')


MARK = '\x01'


def type_into_shell(steps, work):
    """Types all commands into one bash; gives the output of each."""
    script = ''.join(f'{command}\nprintf "{MARK}"\n' for command, _ in steps)
    script = script.replace('/mnt/dressage', work + '/mnt').replace('sudo ', '')
    with open(work + '/dressage.ini', 'w', encoding='utf-8') as f:
        f.write(f'[dressage]\nstate_dir = {work}/state\n[pool]\nslots = 2\n[mount]\nmountpoint = {work}/mnt\n')
    env = {**test_environment(), 'DRESSAGE_CONFIG': work + '/dressage.ini', 'HOME': work}
    shell = subprocess.Popen(['bash'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                             cwd=work, start_new_session=True)
    try:
        output, _ = shell.communicate(script, 2 * PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        raise Failed(f'the transcript hangs after:\n{shell.communicate()[0]}') from None
    return output.replace(work + '/mnt', '/mnt/dressage').split(MARK)


def replay(path):
    def function():
        steps = transcript_of(path)
        check(len(steps) >= 3, f'{path} shows no transcript')
        with Scratch() as work:
            os.mkdir(work + '/mnt')
            os.makedirs(work + '/build/tools')
            os.symlink(DRESSAGEFS, work + '/build/tools/dressagefs')
            os.symlink(DRESSAGE, work + '/build/tools/dressage')
            os.symlink('.', work + '/dressagefs')  # the clone is there, and in the current directory
            try:
                outputs = type_into_shell(steps, work)
                for (command, wanted), got in zip(steps, outputs[:-1]):
                    if not pattern_of(wanted).match(got):
                        raise Failed(f'$ {command}\nprinted:\n{got}\nwanted:\n' + '\n'.join(wanted))
                equal(len(outputs), len(steps) + 1, 'commands that the shell came to the end of')
                check(work + '/mnt' not in mounts(), 'the transcript leaves the mount behind')
                eventually(lambda: not processes_of(work), 'everything has ended')
            finally:
                subprocess.run(['fusermount3', '-uz', work + '/mnt'], capture_output=True, check=False)
                for pid in processes_of(work):
                    os.kill(pid, signal.SIGTERM)
                eventually(lambda: not processes_of(work), 'everything has ended')
    function.__name__ = 'what_' + re.sub(r'\W', '_', path) + '_shows_is_what_happens'
    return case(function)


if not os.path.exists(os.path.join(ROOT, 'README.md')):
    raise Skip('no README.md beside the tests')
for each in ['README.md'] + sorted('docs/' + name for name in os.listdir(os.path.join(ROOT, 'docs'))):
    if transcript_of(each):
        replay(each)

main()
