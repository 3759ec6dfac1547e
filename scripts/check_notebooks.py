"""Execute every notebook through the real kernel and compare its outputs with the committed ones.

A failing cell, an output on stderr, a printed number or a figure that no longer matches: the notebook and the cell are named, and
the exit code is 1. Numbers match within a relative 1e-6 (absolute below 1e-9) or, where they are printed to three digits or more,
within one unit of the last digit; positions in a drawn figure within 0.05 pixels. A cell whose numbers are measured anew in every
run carries the tag "varies" and is only executed.
"""
import argparse
import json
import math
import os
import pathlib
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

NUMBER = re.compile(r'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?')
FIGURE, DRAWING, PICTURE = 'application/vnd.vegalite.v5+json', 'image/svg+xml', 'image/png'


def same_number(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def same_printed(a, b):
    """Two numbers as they were printed."""
    if same_number(float(a), float(b)):
        return True
    digits = [len(x.split('e')[0].lstrip('-0.').replace('.', '')) for x in (a, b)]
    decimals = [len(x.split('.')[1]) if '.' in x and 'e' not in x.lower() else 0 for x in (a, b)]
    return min(digits) >= 3 and max(decimals) > 0 and abs(float(a) - float(b)) <= 1.001 * 10.0 ** -max(decimals)


def same_text(a, b, same=same_printed):
    return NUMBER.sub('#', a) == NUMBER.sub('#', b) and all(same(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def same_drawing(a, b):
    return same_text(a, b, lambda x, y: abs(float(x) - float(y)) <= 0.05 or same_printed(x, y))


def same_data(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_data(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_data, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return same_number(a, b)
    if isinstance(a, str) and isinstance(b, str):
        return same_text(a, b)
    return a == b


def contents(cell):
    """What a cell shows: streams joined, then each output as its kind and its content (a figure's specification and drawing)."""
    streams, shown = '', []
    for output in cell.outputs:
        if output.output_type == 'stream':
            streams += output.text
        elif output.output_type in ('display_data', 'execute_result'):
            data = output.data
            text = data.get('text/html') or data.get('text/latex') or data.get('text/markdown') or data.get('text/plain', '')
            shown.append(('figure', (data[FIGURE], data.get(DRAWING, ''), DRAWING in data and PICTURE in data)) if FIGURE in data else ('table', text))
    return streams, shown


def same_output(kind, old, new):
    if kind == 'table':
        return same_text(old, new)
    return same_data(old[0], new[0]) and same_drawing(old[1], new[1]) and old[2] == new[2]


def where(content):
    title = content[0].get('title', {}).get('text', '') if isinstance(content, tuple) else ''
    return f': "{" ".join(title) if isinstance(title, list) else title}"' if title else ''


def difference(committed, fresh):
    if 'varies' in committed.metadata.get('tags', []):
        return None
    (old_text, old_shown), (new_text, new_shown) = contents(committed), contents(fresh)
    if not same_text(old_text, new_text):
        old_line, new_line = next(((a, b) for a, b in zip(old_text.split('\n'), new_text.split('\n')) if not same_text(a, b)), (old_text, new_text))
        return f'printed {new_line.strip()!r}, committed is {old_line.strip()!r}'
    if len(old_shown) != len(new_shown):
        return f'shows {len(new_shown)} outputs, committed are {len(old_shown)}'
    for number, ((old_kind, old), (new_kind, new)) in enumerate(zip(old_shown, new_shown), 1):
        if old_kind != new_kind or not same_output(new_kind, old, new):
            return f'output {number} ({new_kind}) differs from the committed one{where(new)}'
    return None


def execute(path, timeout):
    """Returns the executed notebook and the list of what failed."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == 'code':
            cell.outputs, cell.execution_count = [], None
    failures = []
    try:
        NotebookClient(notebook, timeout=timeout, kernel_name='teamtr', resources={'metadata': {'path': str(path.parent)}}).execute()
    except CellExecutionError as error:
        failed = next(i for i, cell in enumerate(notebook.cells) if any(o.output_type == 'error' for o in cell.get('outputs', [])))
        failures.append(f'{path.name}: cell {failed + 1}: {error.ename}: {error.evalue}\n' + '\n'.join(
            line for output in notebook.cells[failed].outputs if output.output_type == 'error' for line in output.traceback))
    except (CellTimeoutError, DeadKernelError, RuntimeError) as error:
        failures.append(f'{path.name}: {type(error).__name__}: {str(error).splitlines()[0]}')
    return notebook, failures


def check(path, update, timeout):
    committed = nbformat.read(path, as_version=4)
    fresh, failures = execute(path, timeout)
    if failures:
        return failures
    for number, (old, new) in enumerate(zip(committed.cells, fresh.cells), 1):
        if new.cell_type != 'code':
            continue
        stderr = ''.join(o.text for o in new.outputs if o.output_type == 'stream' and o.name == 'stderr')
        if stderr.strip():
            failures.append(f'{path.name}: cell {number}: wrote to stderr: {stderr.strip().splitlines()[0]}')
        elif not update and (what := difference(old, new)):
            failures.append(f'{path.name}: cell {number}: {what}')
    if update and not failures:
        for cell in fresh.cells:
            cell.metadata.pop('execution', None)
        nbformat.validate(fresh)
        path.write_text(json.dumps(fresh, indent=1, ensure_ascii=False, sort_keys=True) + '\n', encoding='utf-8')
    return failures


def timed_check(path, update, timeout):
    start = time.monotonic()
    failures = check(path, update, timeout)
    return failures, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(prog='npm run notebooks:check --', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', help='notebooks, by the start of their name (default: all)')
    parser.add_argument('--update', action='store_true', help='write the fresh outputs instead of comparing')
    parser.add_argument('--folder', type=pathlib.Path, default=pathlib.Path('notebooks'), help='where the notebooks are')
    parser.add_argument('--jobs', type=int, default=min(2, os.cpu_count() or 1), help='notebooks at a time')
    parser.add_argument('--timeout', type=float, default=180, help='seconds a cell may take')
    arguments = parser.parse_args()
    paths = [p for p in sorted(arguments.folder.glob('*.ipynb')) if not arguments.names or any(p.name.startswith(n) for n in arguments.names)]
    if not paths:
        print(f'notebooks: none named {", ".join(arguments.names) or "at all"} in {arguments.folder}/', file=sys.stderr)
        return 2
    failed = 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = [pool.submit(timed_check, path, arguments.update, arguments.timeout) for path in paths]
        for path, result in zip(paths, results):
            failures, seconds = result.result()
            failed += bool(failures)
            print(f'{"FAIL" if failures else "ok  "} {path.name}  {seconds:.0f} s', flush=True)
            for failure in failures:
                print(failure, file=sys.stderr, flush=True)
    print(f'notebooks: {len(paths) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
