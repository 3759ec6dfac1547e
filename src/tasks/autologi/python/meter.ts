/** The program used up its steps, time or memory, or does what is not supported; no `except` catches it. */
export class Stopped extends Error {
  override name = 'Stopped'
}

export interface Limits {
  /** Elementary steps: statements, calls, elements visited. */
  readonly steps: number
  readonly milliseconds: number
  /** Elements, characters and entries that are made in all, each counted as 1; also those that are gone. */
  readonly cells: number
}

/** Largest list, string, set or dict that is made in one operation; largest integer, in bits. */
export const MAX_SIZE = 2 ** 22
export const MAX_BITS = 2 ** 18

/** Calls inside calls, as in CPython. */
export const MAX_RECURSION = 1000

/** What a program has used. Every loop of the evaluator ticks. */
export class Meter {
  private steps = 0
  private cells = 0
  private nextCheck = CHECK
  private readonly deadline: number
  /** Calls in progress. */
  depth = 0

  /** @param tooDeep throws Python's RecursionError */
  constructor(
    private readonly limits: Limits,
    private readonly tooDeep: () => never,
  ) {
    this.deadline = performance.now() + limits.milliseconds
  }

  /** @throws Stopped */
  tick(count = 1): void {
    this.steps += count
    if (this.steps < this.nextCheck) return
    this.nextCheck = this.steps + CHECK
    if (this.steps > this.limits.steps) throw new Stopped(`more than ${this.limits.steps} steps`)
    if (performance.now() > this.deadline) throw new Stopped(`more than ${this.limits.milliseconds / 1000} s`)
  }

  /** A call begins; whoever began it lowers `depth` when it ends. */
  enter(): void {
    this.tick()
    if (++this.depth <= MAX_RECURSION) return
    this.depth--
    this.tooDeep()
  }

  /** Before something of `count` cells is made. @throws Stopped */
  allocate(count: number): void {
    this.cells += count
    if (count > MAX_SIZE) throw new Stopped(`something of ${count} elements; at most ${MAX_SIZE} are made at once`)
    if (this.cells > this.limits.cells) throw new Stopped(`more than ${this.limits.cells} elements and characters in all`)
    this.tick(count >> 4)
  }
}

const CHECK = 1024
