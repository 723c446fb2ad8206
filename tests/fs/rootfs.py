# SPDX-License-Identifier: LGPL-2.1-or-later
"""Small root file systems for tests: busybox and what it needs."""
import os
import re
import shutil
import subprocess

from harness import need

TOOLS = ('sh', 'cat', 'ls', 'id', 'touch', 'echo', 'head', 'env', 'mkdir', 'ln', 'rm', 'chown', 'stat', 'su', 'true', 'false', 'mv', 'mount', 'sleep',
         'hostname', 'readlink', 'grep', 'chmod', 'cp', 'wc')


def libraries(program):
    """What the dynamic linker would load; nothing for a static program."""
    out = subprocess.run(['ldd', program], capture_output=True, text=True, check=False).stdout
    return re.findall(r'(/\S+)', out)


def make_rootfs(path, marker):
    """A root file system whose /etc/marker and /opt/marker say which one it is."""
    busybox = need('busybox')
    for name in ('bin', 'etc', 'opt/data', 'var/lib', 'tmp', 'home/somebody', 'root'):
        os.makedirs(os.path.join(path, name))
    for library in libraries(busybox):
        os.makedirs(path + os.path.dirname(library), exist_ok=True)
        shutil.copy(library, path + library)
    shutil.copy(busybox, os.path.join(path, 'bin', 'busybox'))
    for tool in TOOLS:
        os.symlink('busybox', os.path.join(path, 'bin', tool))
    for name in ('etc/marker', 'opt/marker'):
        write(path, name, marker + '\n')
    write(path, 'etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nguest:x:33:33:guest:/home/somebody:/bin/sh\n')
    write(path, 'etc/group', 'root:x:0:\nguest:x:33:\n')
    write(path, 'etc/profile', 'export PATH=/nowhere\n')
    write(path, 'etc/hosts', '10.0.0.1 of-the-image\n')
    write(path, 'etc/secret', 'hidden\n', 0o600)
    os.symlink('/run/resolv.conf', os.path.join(path, 'etc', 'resolv.conf'))
    for top, dirs, _ in os.walk(path):
        for name in dirs:
            os.chmod(os.path.join(top, name), 0o755)
    os.chmod(path, 0o755)
    return path


def write(root, name, text, mode=0o644):
    path = os.path.join(root, name)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)
