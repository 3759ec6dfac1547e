import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { scoreResponse } from '../../src/tasks/benchmark.js'
import { atomsOf, blocksOf, blocksworld, randomBlocks, randomProblem, towerStates } from '../../src/tasks/planbench/blocksworld.js'
import { blocksGame, blocksGameAlphabet, blocksGameConfig, blocksProblems } from '../../src/tasks/planbench/game.js'
import { planbench, planningRecords, type PlanningRecord } from '../../src/tasks/planbench/index.js'
import { atomText, parseStatement, planFromActions, planFromSentences, statementText, stepText } from '../../src/tasks/planbench/language.js'
import { parseDomain, parseProblem } from '../../src/tasks/planbench/pddl.js'
import { validatePlan, type Step } from '../../src/tasks/planbench/plan.js'
import { shortestPlan } from '../../src/tasks/planbench/shortestPlan.js'
import { random } from '../../src/util/random.js'
import { sharedPath } from '../shared.js'

const folder = sharedPath('benchmarks/planbench')
const file = `${folder}/task_1_plan_generation.json`
const pddl = (id: string): string => readFileSync(`${folder}/generated_basic/instance-${id}.pddl`, 'utf8')
const actionList = (plan: readonly Step[]): string => plan.map((step) => `(${step.join(' ')})`).join('\n')

/** a on b on c, d alone; the goal: c on d. */
const small = {
  objects: ['a', 'b', 'c', 'd'],
  init: parseStatement(
    'As initial conditions I have that, the red block is clear, the yellow block is clear, the hand is empty, the red block is on top of ' +
    'the blue block, the blue block is on top of the orange block, the orange block is on the table and the yellow block is on the table.\n' +
    'My goal is to have that the orange block is on top of the yellow block.').init,
  goal: [['on', 'c', 'd']],
}
const record: PlanningRecord = { id: '1', problem: small }
const solution = ['unstack a b', 'put-down a', 'unstack b c', 'put-down b', 'pick-up c', 'stack c d'].map((step) => step.split(' '))

describe.skipIf(!folder)('PlanBench\'s files', () => {
  it('load: every record, with the problem of its PDDL file and the official prompt', async () => {
    const { records, errors } = await planbench.load(file)
    expect(errors).toEqual([])
    expect(records).toHaveLength(25)
    for (const { id, problem, query, plan } of records) {
      const fromPddl = parseProblem(pddl(id), blocksworld, id)
      const set = (atoms: readonly (readonly string[])[]) => new Set(atoms.map((atom) => atom.join(' ')))
      expect(set(problem.init)).toEqual(set(fromPddl.init))
      expect(set(problem.goal)).toEqual(set(fromPddl.goal))
      expect(problem.objects).toEqual([...fromPddl.objects].sort())
      // Our sentences are PlanBench's, to the letter: the statement, and the steps of the plan.
      expect(query).toContain(`[STATEMENT]\n${statementText(fromPddl)}\n\nMy plan is as follows:`)
      expect(planFromSentences(plan!.map(stepText).join('\n'))).toEqual(plan)
    }
    const bare = await planbench.load(`${folder}/generated_basic`)
    expect(bare.errors).toEqual([])
    expect(bare.records).toHaveLength(50)
    expect(bare.records.map(({ id }) => Number(id))).toEqual(bare.records.map(({ id }) => Number(id)).sort((x, y) => x - y))
    expect(planbench.prompt(bare.records[0])).toContain('As initial conditions I have that')
  })

  it('hold the domain that is built in', () => {
    const { predicates, actions } = parseDomain(readFileSync(`${folder}/generated_domain.pddl`, 'utf8'), 'domain')
    const plain = (action: (typeof actions)[number]) => {
      const rename = (atoms: readonly (readonly string[])[]) =>
        atoms.map((atom) => atom.map((term) => (term.startsWith('?') ? action.parameters.indexOf(term) : term)).join(' ')).sort()
      return { name: action.name, needs: rename(action.needs), adds: rename(action.adds), deletes: rename(action.deletes) }
    }
    expect(actions.map(plain)).toEqual(blocksworld.actions.map(plain))
    expect(predicates).toEqual(blocksworld.predicates)
  })

  it('ground truths score 1, in sentences and as actions; a plan without one of its steps 0', async () => {
    for (const truth of (await planbench.load(file)).records) {
      const plan = truth.plan!
      expect(planbench.score(truth, actionList(plan))).toMatchObject({ score: 1, verdict: 'correct' })
      expect(planbench.score(truth, `[PLAN]\n${plan.map(stepText).join('\n')}\n[PLAN END]`).score).toBe(1)
      for (let i = 0; i < plan.length; i++) {
        expect(planbench.score(truth, actionList(plan.filter((_, j) => j !== i)))).toMatchObject({ score: 0, verdict: 'wrong' })
      }
    }
  })

  it('hold verdicts and extracted plans that are ours, for every recorded response', async () => {
    interface Result { instance_id: number; llm_raw_response: string; extracted_llm_plan: string[]; llm_correct: boolean; ground_truth_plan: string[] }
    const { instances } = JSON.parse(readFileSync(`${folder}/results_gpt-4_chat_task_1_plan_generation.json`, 'utf8')) as { instances: Result[] }
    expect(instances).toHaveLength(25)
    const records = new Map((await planbench.load(file)).records.map((truth) => [truth.id, truth]))
    let correct = 0
    for (const result of instances) {
      const truth = records.get(String(result.instance_id))!
      expect(actionList(planFromSentences(result.llm_raw_response))).toBe(result.extracted_llm_plan.join('\n'))
      expect(planbench.score(truth, result.llm_raw_response).score).toBe(result.llm_correct ? 1 : 0)
      expect(planbench.score(truth, result.ground_truth_plan.join('\n')).score).toBe(1)
      correct += Number(result.llm_correct)
    }
    expect(correct).toBeGreaterThan(0)
    expect(correct).toBeLessThan(25)
  })

  it('hold plans that are no shorter than the shortest', async () => {
    for (const { problem, plan } of (await planbench.load(file)).records) {
      const shortest = shortestPlan(problem)!
      expect(validatePlan(blocksworld, problem, shortest).valid).toBe(true)
      expect(shortest.length).toBeLessThanOrEqual(plan!.length)
    }
  })
})

describe('scoring a plan', () => {
  const reason = (text: string) => planbench.score(record, text).reason

  it('names the first failure', () => {
    expect(planbench.score(record, actionList(solution))).toMatchObject({ score: 1, reason: 'the plan of 6 steps reaches the goal' })
    expect(reason(actionList(solution.slice(0, 5)))).toBe('after 5 steps the goal does not hold: not so that the orange block is on top of the yellow block')
    expect(reason(actionList([solution[0], ...solution.slice(2)]))).toBe('step 2 (unstack b c) cannot be done: not so that the hand is empty')
    expect(reason('(unstack a c)')).toBe('step 1 (unstack a c) cannot be done: not so that the red block is on top of the orange block')
    expect(reason('pick up the green block')).toBe('step 1 (pick-up i): unknown object')
    expect(reason('(stack c)')).toBe('step 1 (stack c): wrong number of objects')
    expect(reason('I would move the blocks around.')).toBe('no action found')
  })

  it('reads sentences as PlanBench does', () => {
    const read = (text: string) => planFromSentences(text).map((step) => step.join(' '))
    expect(read('Pick up the RED block\nput down the blue block on the table')).toEqual(['pick-up a', 'put-down b'])
    expect(read('unstack the blue block from the table')).toEqual([])
    expect(read('stack red on blue')).toEqual([])
    expect(read('unstack the red block from on top of the blue block, then stack the red block')).toEqual(['stack a b'])
    expect(read('pick up the red block [PLAN END]\n[STATEMENT]\nput down the red block')).toEqual(['pick-up a', 'put-down a'])
  })

  it('reads action lists, by letters or colours', () => {
    expect(planFromActions('1. (unstack a b)\n- put-down red\n  STACK c d.\nthen stack c on d')).toEqual([['unstack', 'a', 'b'], ['put-down', 'a'], ['stack', 'c', 'd']])
  })

  it('scores any text, in bounded time', () => {
    const words = fc.constantFrom('pick up', 'stack', 'unstack', 'put-down', 'the red block', 'blue block', '(', ')', 'a', 'b', '\n', 'on', '[PLAN END]')
    fc.assert(fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.array(words).map((list) => list.join(' '))), (text) => {
      const { score, reason: why } = planbench.score(record, text)
      expect(score === 0 || score === 1).toBe(true)
      expect(why.length).toBeGreaterThan(0)
    }))
    const start = performance.now()
    for (const unit of ['\n', 'stack ', 'red block ', '(unstack a b)\n', 'stack the red block on the blue block\n', '- ', ' ']) {
      expect(scoreResponse(planbench, record, unit.repeat(Math.floor(2 ** 22 / unit.length))).score).toBe(0)
    }
    expect(performance.now() - start).toBeLessThan(30_000)
  })
})

describe('PDDL', () => {
  const problem = (text: string) => () => parseProblem(text, blocksworld, 'p.pddl')
  it('is read within limits, with one clear line for what is wrong', () => {
    expect(problem('(define (problem P) (:domain blocksworld-4ops) (:objects A) (:init (HANDEMPTY) (ontable a) (clear a)) (:goal (clear a))) ; end')())
      .toEqual({ objects: ['a'], init: [['handempty'], ['ontable', 'a'], ['clear', 'a']], goal: [['clear', 'a']] })
    const valid = '(define (problem p) (:domain blocksworld-4ops) (:objects a b) (:init (on a b)) (:goal (and (on b a))))'
    expect(problem(valid)().goal).toEqual([['on', 'b', 'a']])
    for (const [text, message] of [
      ['', 'is not PDDL'], ['hello', 'expected a list in brackets'], ['(define (problem p)', /1 "\)" missing/], [`${valid})`, 'a ")" too many'],
      ['('.repeat(1e5), 'brackets deeper than 32'], [' '.repeat(2 ** 21), 'at most 1048576'], [valid.replace('4ops', '3ops'), 'is of domain "blocksworld-3ops"'],
      [valid.replace('(on a b)', '(on a c)'), 'unknown object "c"'], [valid.replace('(on a b)', '(in a b)'), 'unknown predicate "in"'],
      [valid.replace('(on a b)', '(on a)'), '"on" has 1 arguments; expected 2'], [valid.replace('(:init (on a b))', ''), '0 sections :init; expected one'],
      [valid.replace('a b)', 'a a)'), 'declared twice'], [valid.replace('(on b a)', '(not (on b a))'), 'expected an atom like (on a b)'],
    ] as const) expect(problem(text)).toThrow(message)
    fc.assert(fc.property(fc.array(fc.constantFrom('(', ')', 'define', 'problem', ':goal', 'a', ' ')).map((parts) => parts.join(' ')), (text) => {
      expect(problem(text)).toThrow(/^p\.pddl: /)
    }))
  })

  it('one bad record never loses the others', async () => {
    const path = `${mkdtempSync('/tmp/planbench-')}/task.json`
    const query = `[STATEMENT]\n${statementText(small)}\n\n[PLAN]`
    writeFileSync(path, JSON.stringify({ instances: [
      { instance_id: 1, query }, { instance_id: 2 }, { instance_id: 3, query: '[STATEMENT] nothing' },
      { instance_id: 4, query: query.replace('the hand is empty', 'the red block is on the table') }, { instance_id: 5, query },
    ] }))
    const { records, errors } = await planbench.load(path)
    expect(records.map(({ id }) => id)).toEqual(['1', '5'])
    expect(errors.map(({ line }) => line)).toEqual([2, 3, 4])
    expect(errors[2].error).toContain('block a is in 2 places')
    await expect(planbench.load('/nowhere/x.pddl')).rejects.toThrow('/nowhere/x.pddl: no such file')
  })
})

describe('Blocksworld', () => {
  it('counts the states of n blocks, and draws each alike', () => {
    expect([1, 2, 3, 4, 5].map((n) => towerStates(n, 0))).toEqual([1, 3, 13, 73, 501])
    const draw = random(1)
    const counts = new Map<string, number>()
    const draws = 13_000
    for (let i = 0; i < draws; i++) {
      const key = randomBlocks(3, draw).below.join()
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    expect(counts.size).toBe(13)
    // χ² with 12 degrees of freedom is above 40 with probability 7e-5 (the seed is fixed).
    expect([...counts.values()].reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0)).toBeLessThan(40)
  })

  it('draws problems, seeded and split, that shortest plans solve', () => {
    const records = planningRecords(4, 'train', 30, random(2))
    expect(records).toEqual(planningRecords(4, 'train', 30, random(2)))
    const test = new Set(planningRecords(3, 'test', 300, random(3)).map(({ id }) => id))
    expect(planningRecords(3, 'train', 300, random(4)).some(({ id }) => test.has(id))).toBe(false)
    for (const { problem, id } of records) {
      const { init, goal } = parseStatement(id)
      expect(atomsOf(blocksOf({ objects: problem.objects, init }))).toEqual(problem.init)
      expect(planbench.score({ id, problem }, actionList(shortestPlan({ ...problem, goal })!)).score).toBe(1)
    }
    expect(() => randomProblem(13, random(1))).toThrow('blocks: holds 13; expected 2 to 12')
  })

  it('finds plans as short as breadth-first search does', () => {
    for (const { problem } of planningRecords(4, 'train', 25, random(6))) expect(shortestPlan(problem)).toHaveLength(shortestByBreadth(problem))
    expect(shortestPlan(small)).toHaveLength(6)
    expect(shortestPlan({ ...small, goal: [['on', 'a', 'b'], ['on', 'b', 'a']] })).toBeNull()
    expect(shortestPlan({ ...small, goal: [['holding', 'b']] })).toHaveLength(3)
    expect(() => shortestPlan(randomProblem(12, random(5)), 10)).toThrow(/within 10 states/)
  })
})

/** Length of a shortest plan: all plans of 0, 1, 2 … steps through the generic validator's rules, states visited once. */
const shortestByBreadth = ({ objects, init, goal }: PlanningRecord['problem']): number => {
  const steps: Step[] = blocksworld.actions.flatMap(({ name, parameters }) =>
    objects.flatMap((x) => (parameters.length === 1 ? [[name, x]] : objects.filter((y) => y !== x).map((y) => [name, x, y]))))
  let layer: Step[][] = [[]]
  const seen = new Set<string>()
  for (let length = 0; ; length++) {
    if (layer.some((plan) => validatePlan(blocksworld, { objects, init, goal }, plan).valid)) return length
    layer = layer.flatMap((plan) => steps.map((step) => [...plan, step])).filter((plan) => {
      if (validatePlan(blocksworld, { objects, init, goal: [] }, plan).steps < plan.length) return false
      const state = atomsAfter({ objects, init, goal }, plan)
      return !seen.has(state) && seen.add(state)
    })
  }
}

/** The state after a plan: the atoms that hold as goals. */
const atomsAfter = ({ objects, init }: PlanningRecord['problem'], plan: readonly Step[]): string => {
  const all = [['handempty'], ...objects.flatMap((x) => [['ontable', x], ['holding', x], ...objects.map((y) => ['on', x, y])])]
  return all.filter((atom) => validatePlan(blocksworld, { objects, init, goal: [atom] }, plan).valid).map(atomText).join()
}

describe('the game of blocks', () => {
  const config = blocksGameConfig.parse({})
  const [problem] = blocksProblems(config, 'test', 1, random(7))

  it('carries out actions, marks what is none, and pays when the goal holds', () => {
    const game = blocksGame()
    const start = game.start({ id: 'x', problem: small })
    expect(start.context).toBe('cba d|dc:')
    const end = ['unstack a b', 'unstack b c', 'help', 'put down the red block', '(unstack b c)', 'put-down b', 'pick-up c', 'stack c d'].reduce(game.step, start)
    expect(end).toMatchObject({ done: true, reward: 1, turn: 8 })
    expect(end.context).toBe('cba d|dc:unstack a b;?;?;put-down a;unstack b c;put-down b;pick-up c;stack c d;')
    expect(game.step(end, 'pick-up a')).toEqual({ ...end, reward: 0 })
  })

  it('takes any text as a message', () => {
    const game = blocksGame({ ...config, turns: 5 })
    fc.assert(fc.property(fc.array(fc.oneof(fc.string(), fc.constantFrom('pick-up a', 'put-down a', 'unstack b a', 'stack a b')), { minLength: 5, maxLength: 5 }), (messages) => {
      const end = messages.reduce(game.step, game.start(problem))
      expect(end.done).toBe(true)
      expect([...end.context].every((character) => blocksGameAlphabet.includes(character))).toBe(true)
    }))
  })

  it('has a player that is perfect without slips, and one that always moves', () => {
    for (const slip of [0, 1]) {
      const game = blocksGame({ ...config, slip })
      const draw = random(8)
      let state = game.start(problem)
      while (!state.done) state = game.step(state, game.demonstrate!(state, draw))
      expect(state.context).not.toContain('?')
      if (slip === 0) expect(state).toMatchObject({ reward: 1, turn: shortestPlan(problem.problem)!.length })
    }
  })
})
