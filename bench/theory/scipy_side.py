"""The scipy side of compare.mjs: reads commands (one JSON a line) on stdin, answers on stdout.

{"load": DIR}                     reads an MDP and its policies from raw little-endian arrays
{"run": METHOD, "tolerance": T}   from the same arrays to d, V, Q and A of every policy; answers wall and CPU seconds, errors, and the
                                  seconds spent in the solvers alone
"""
import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
import scipy.sparse.linalg as solvers


class Mdp:
    def __init__(self, folder):
        folder = Path(folder)
        size = json.loads((folder / "size.json").read_text())
        self.gamma, self.states, self.policies = size["gamma"], size["states"], size["policies"]
        read = lambda name, kind: np.fromfile(folder / name, dtype=kind)
        self.mu, self.reward = read("mu", "<f8"), read("reward", "<f8")
        self.action_start = read("actionStart", "<i4")
        pairs = len(self.reward)
        self.P = sparse.csr_matrix((read("prob", "<f8"), read("next", "<i4"), read("rowStart", "<i4")), shape=(pairs, self.states))
        self.rows = read("policy", "<f8").reshape(self.policies, pairs)
        self.pair_state = np.repeat(np.arange(self.states), np.diff(self.action_start))
        self.rtol = {}

    def chain(self, row):
        pi = sparse.csr_matrix((row, np.arange(len(row), dtype=np.int32), self.action_start), shape=(self.states, len(row)))
        return pi @ self.P, pi @ self.reward


def by_splu(mdp, P, r, b, tolerance):
    lu = solvers.splu((sparse.identity(mdp.states, format="csr") - mdp.gamma * P).tocsc())
    return lu.solve(r), lu.solve(b, "T")


def by_dense(mdp, P, r, b, tolerance):
    lu = dense.lu_factor(np.eye(mdp.states) - mdp.gamma * P.toarray())
    return dense.lu_solve(lu, r), dense.lu_solve(lu, b, trans=1)


def krylov(solver):
    """From rhs/(1−γ), a good start; with the loosest relative residual, by decades, that reaches the tolerance, found once per MDP, outside
    the time that counts (a first call is a warm-up)."""

    def solve(mdp, P, r, b, tolerance):
        M = sparse.identity(mdp.states, format="csr") - mdp.gamma * P
        MT = M.T.tocsr()
        goal = tolerance * (1 - mdp.gamma)
        out = []
        for name, A, rhs, norm in (("V", M, r, np.inf), ("d", MT, b, 1)):
            key = (solver, name)
            start = rhs / (1 - mdp.gamma)
            if key not in mdp.rtol:
                for digits in range(8, 17):
                    x = solver(A, rhs, x0=start, rtol=10.0**-digits, atol=0.0)[0]
                    mdp.rtol[key] = 10.0**-digits
                    if np.linalg.norm(rhs - A @ x, norm) <= goal:
                        break
            out.append(solver(A, rhs, x0=start, rtol=mdp.rtol[key], atol=0.0)[0])
        return out

    return solve


def by_sweeps(mdp, P, r, b, tolerance):
    """Plain sweeps (value iteration and its transpose)."""
    goal = tolerance * (1 - mdp.gamma)
    PT = P.T.tocsr()
    out = []
    for A, rhs, norm in ((P, r, np.inf), (PT, b, 1)):
        x = rhs / (1 - mdp.gamma)
        while True:
            y = rhs + mdp.gamma * (A @ x)
            done = mdp.gamma * np.linalg.norm(y - x, norm) <= goal
            x = y
            if done:
                break
        out.append(x)
    return out


def by_centred_sweeps(mdp, P, r, b, tolerance):
    """Sweeps without the stationary mode: values shifted to the middle of their bounds, occupancies started with mass 1."""
    gamma = mdp.gamma
    goal = tolerance * (1 - gamma)
    V = np.zeros(mdp.states)
    while True:
        TV = r + gamma * (P @ V)
        change = TV - V
        low, high = change.min(), change.max()
        V = TV + gamma / (1 - gamma) * (low + high) / 2
        if gamma * (high - low) / 2 <= goal:
            break
    PT = P.T.tocsr()
    d = mdp.mu
    while True:
        e = b + gamma * (PT @ d)
        done = gamma * np.abs(e - d).sum() <= goal
        d = e
        if done:
            break
    return V, d


METHODS = {
    "splu": by_splu,
    "dense": by_dense,
    "bicgstab": krylov(solvers.bicgstab),
    "gmres": krylov(solvers.gmres),
    "sweeps": by_sweeps,
    "centred sweeps": by_centred_sweeps,
}


def run(mdp, method, tolerance):
    b = (1 - mdp.gamma) * mdp.mu
    solving = 0.0
    results = []
    wall, cpu = time.perf_counter(), time.process_time()
    for row in mdp.rows:
        P, r = mdp.chain(row)
        start = time.perf_counter()
        V, d = METHODS[method](mdp, P, r, b, tolerance)
        solving += time.perf_counter() - start
        Q = mdp.reward + mdp.gamma * (mdp.P @ V)
        A = Q - V[mdp.pair_state]
        results.append((P, r, V, d, np.abs(A).max()))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = 0.0
    for P, r, V, d, _ in results:
        error = max(error, np.abs(r + mdp.gamma * (P @ V) - V).max(), np.abs(b + mdp.gamma * (P.T @ d) - d).sum())
    last = results[-1]
    return {"wall": wall, "cpu": cpu, "solving": solving, "error": error / (1 - mdp.gamma), "J": float(mdp.mu @ last[2]), "aMax": last[4]}


def main():
    mdp = None
    for line in sys.stdin:
        command = json.loads(line)
        if "load" in command:
            mdp = Mdp(command["load"])
            answer = {"scipy": __import__("scipy").__version__, "numpy": np.__version__}
        else:
            answer = run(mdp, command["run"], command["tolerance"])
        print(json.dumps(answer), flush=True)


main()
