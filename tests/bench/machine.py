# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a reader must know of the machine and of the build to believe a number."""
import json
import os
import platform
import subprocess

from rivals import PROGRAMS, slots_place


def first_field(path, name):
    with open(path, encoding='utf-8') as f:
        return next((line.partition(':')[2].strip() for line in f if line.startswith(name)), 'unknown')


def build():
    """How the measuring programs, and so the daemon beside them, were built: Meson remembers."""
    path = os.path.join(PROGRAMS, '../../meson-info/intro-buildoptions.json')
    try:
        with open(path, encoding='utf-8') as f:
            options = {option['name']: option['value'] for option in json.load(f)}
    except OSError:
        return 'unknown'
    ndebug = options['b_ndebug'] == 'true' or (options['b_ndebug'] == 'if-release' and options['buildtype'] in ('release', 'plain'))
    text = f'-O{options["optimization"]}, {"without" if ndebug else "WITH"} assertions'
    return text if options['b_sanitize'] == 'none' else f'{text}, SANITIZED ({options["b_sanitize"]})'


def file_system(path):
    done = subprocess.run(['stat', '-f', '-c', '%T', path], capture_output=True, text=True, check=False)
    return done.stdout.strip() or 'unknown'


def facts(options):
    memory = int(first_field('/proc/meminfo', 'MemTotal').split()[0]) >> 20
    return {
        'machine': f'{os.cpu_count()} CPUs ({first_field("/proc/cpuinfo", "model name")}), {memory} GiB, Linux {platform.release()}',
        'user': 'root' if os.geteuid() == 0 else 'a plain user',
        'build': build(),
        'slot directories': f'{file_system(slots_place())} ({slots_place()})',
        'rounds': f'{options.rounds}{", full" if options.full else ""}; load average {os.getloadavg()[0]:.1f} at the start',
    }
