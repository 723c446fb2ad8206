# SPDX-License-Identifier: LGPL-2.1-or-later
"""How rows are shown: a line each for people at a terminal, a table a group in Markdown."""
import os

HEADING = '  ratio      budget       p50       p99 rival-p50  name | rival'
TITLES = {'command': 'One command', 'exec': 'A command as files', 'kill': 'The end of a command', 'pool': 'Slots and leases',
          'files': "A lease's files"}


def is_over(row):
    return not row.why and row.budget is not None and row.p50 / row.rival_p50 > row.budget


def is_bad(row):
    """What makes the run fail."""
    return row.failed or (is_over(row) and not row.later)


def verdict(row):
    if row.budget is None:
        return ''
    if is_over(row) and row.later:
        return f'later {row.budget}'
    return f'{"OVER" if is_over(row) else "within"} {row.budget}'


def cells(row):
    ratio = f'{row.p50 / row.rival_p50:.2f}' if row.rival_p50 else '-'
    return ratio, verdict(row), f'{row.p50:.0f}', f'{row.p99:.0f}', f'{row.rival_p50:.0f}' if row.rival_p50 else '-'


def missing(row):
    return f'{"failed" if row.failed else "no row"}: {row.why}'


def line(row):
    if row.why:
        return f'# {missing(row)}: {row.name}'
    ratio, budget, p50, p99, rival_p50 = cells(row)
    return f'{ratio:>7} {budget:>11} {p50:>9} {p99:>9} {rival_p50:>9}  {row.name} | {row.rival}'


def summary(rows):
    judged = [row for row in rows if row.budget is not None and not row.why]
    later = sum(is_over(row) and bool(row.later) for row in judged)
    return (f'{len(rows)} rows; with a budget {len(judged)}: {sum(not is_over(row) for row in judged)} within, '
            f'{sum(is_bad(row) for row in judged)} over, {later} over that wait for what is to be built; '
            f'{sum(row.failed for row in rows)} failed')


def table(rows):
    yield '| what | rival | ratio | budget | p50 | p99 | rival p50 |'
    yield '| --- | --- | ---: | --- | ---: | ---: | ---: |'
    for row in rows:
        if row.why:
            yield f'| {row.name} | {missing(row)} | | | | | |'.replace('\n', ' ')
            continue
        ratio, budget, p50, p99, rival_p50 = cells(row)
        waits = f' (waits for {row.later})' if budget.startswith('later') else ''
        yield f'| {row.name} | {row.rival or "-"} | {ratio} | {budget.replace("OVER", "**over**")}{waits} | {p50} | {p99} | {rival_p50} |'


def write(path, facts, groups):
    rows = [row for part in groups.values() for row in part]
    lines = ['# One run of tests/bench', '', 'Times are in microseconds where a row names no other unit. A ratio is that of the medians,'
             ' ours to the', "rival's, and the budget is the most that it may be.", '']
    lines += [f'- {name}: {text}' for name, text in facts.items()] + [f'- {summary(rows)}']
    for group, part in groups.items():
        lines += ['', f'## {TITLES.get(group, group)}', '', *table(part)]
    with open(path + '.new', 'w', encoding='utf-8') as f:
        f.write('\n'.join(lines) + '\n')
    os.rename(path + '.new', path)
