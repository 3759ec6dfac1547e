"""Execute every notebook through the real kernel and compare its outputs with the committed ones.

A failing cell, an output on stderr, a printed number or a figure's data that no longer matches: the notebook and the
cell are named, and the exit code is 1. Numbers match within a relative 1e-6 (absolute below 1e-9); a cell whose numbers
are measured anew in every run carries the tag "varies" and is only executed. 
"""
import argparse
import json
import math
import pathlib
import re
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

FOLDER = pathlib.Path('notebooks')
NUMBER = re.compile(r'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?')
FIGURE = 'application/vnd.vegalite.v5+json'


def same_number(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def same_text(a, b):
    return NUMBER.sub('#', a) == NUMBER.sub('#', b) and all(
        same_number(float(x), float(y)) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def same_data(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_data(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_data, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return same_number(a, b)
    return a == b


def contents(cell):
    """What a cell shows, without what only its drawing decides: streams joined, figures as their spec, else as text."""
    streams, shown = '', []
    for output in cell.outputs:
        if output.output_type == 'stream':
            streams += output.text
        elif output.output_type in ('display_data', 'execute_result'):
            data = output.data
            shown.append((FIGURE, data[FIGURE]) if FIGURE in data else ('text', data.get('text/html') or data.get('text/plain', '')))
    return streams, shown


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
        if old_kind != new_kind or not (same_data(old, new) if new_kind == FIGURE else same_text(old, new)):
            return f'output {number} ({"figure" if new_kind == FIGURE else "table"}) differs from the committed one'
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
    except (CellTimeoutError, DeadKernelError) as error:
        failures.append(f'{path.name}: {type(error).__name__}: {str(error).splitlines()[0]}')
    return notebook, failures


def check(path, update, timeout):
    committed = nbformat.read(path, as_version=4)
    fresh, failures = execute(path, timeout)
    for number, (old, new) in enumerate(zip(committed.cells, fresh.cells), 1):
        if new.cell_type != 'code' or failures:
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


def main():
    parser = argparse.ArgumentParser(prog='npm run notebooks:check --', description=__doc__)
    parser.add_argument('names', nargs='*', help='notebooks, by the start of their name (default: all)')
    parser.add_argument('--update', action='store_true', help='write the fresh outputs instead of comparing')
    parser.add_argument('--timeout', type=float, default=180, help='seconds a cell may take')
    arguments = parser.parse_args()
    paths = [p for p in sorted(FOLDER.glob('*.ipynb')) if not arguments.names or any(p.name.startswith(n) for n in arguments.names)]
    if not paths:
        print(f'notebooks: none named {", ".join(arguments.names) or "at all"} in {FOLDER}/', file=sys.stderr)
        return 2
    failed = 0
    for path in paths:
        start = time.monotonic()
        failures = check(path, arguments.update, arguments.timeout)
        failed += bool(failures)
        print(f'{"FAIL" if failures else "ok  "} {path.name}  {time.monotonic() - start:.0f} s', flush=True)
        for failure in failures:
            print(failure, file=sys.stderr, flush=True)
    print(f'notebooks: {len(paths) - failed} passed, {failed} failed')
    return 1 if failed else 0


sys.exit(main())
