/** The syntax tree of the Python subset. */

export type Expression =
  | { readonly node: 'constant'; readonly value: null | boolean | bigint | number | string | Ellipsis }
  | { readonly node: 'name'; readonly name: string }
  | { readonly node: 'tuple' | 'list' | 'set'; readonly items: readonly Expression[] }
  /** A key is null where a value is unpacked: `{**other}`. */
  | { readonly node: 'dict'; readonly items: readonly { readonly key: Expression | null; readonly value: Expression }[] }
  | {
      readonly node: 'comprehension'
      readonly kind: 'list' | 'set' | 'dict' | 'generator'
      readonly element: Expression
      /** Of a dict comprehension. */
      readonly value?: Expression
      readonly clauses: readonly Clause[]
    }
  | { readonly node: 'binary'; readonly operator: BinaryOperator; readonly left: Expression; readonly right: Expression }
  | { readonly node: 'unary'; readonly operator: '-' | '+' | '~' | 'not'; readonly operand: Expression }
  | { readonly node: 'logical'; readonly operator: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly node: 'compare'
      readonly left: Expression
      readonly rest: readonly { readonly operator: Comparison; readonly right: Expression }[]
    }
  | { readonly node: 'conditional'; readonly test: Expression; readonly then: Expression; readonly otherwise: Expression }
  | { readonly node: 'lambda'; readonly parameters: Parameters; readonly body: Expression }
  | { readonly node: 'call'; readonly callee: Expression; readonly args: readonly Argument[] }
  | { readonly node: 'attribute'; readonly object: Expression; readonly name: string }
  | { readonly node: 'subscript'; readonly object: Expression; readonly index: Expression }
  | { readonly node: 'slice'; readonly start?: Expression; readonly stop?: Expression; readonly step?: Expression }
  | { readonly node: 'starred'; readonly value: Expression }
  | { readonly node: 'walrus'; readonly name: string; readonly value: Expression }
  | { readonly node: 'formatted'; readonly parts: readonly FormattedPart[] }
  | { readonly node: 'yield'; readonly from: boolean; readonly value?: Expression }

/** The constant `...`. */
export class Ellipsis {
  readonly is = 'ellipsis'
}
export const ELLIPSIS = new Ellipsis()

export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**' | '<<' | '>>' | '&' | '|' | '^'
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in' | 'is' | 'is not'

export interface Clause {
  readonly target: Expression
  readonly iterable: Expression
  readonly conditions: readonly Expression[]
}

export interface Argument {
  readonly kind: 'positional' | 'star' | 'keyword' | 'doubleStar'
  readonly name?: string
  readonly value: Expression
}

export type FormattedPart =
  string | { readonly value: Expression; readonly conversion: '' | 'r' | 's' | 'a'; readonly spec: readonly FormattedPart[] }

export interface Parameters {
  readonly positional: readonly { readonly name: string; readonly fallback?: Expression }[]
  readonly rest?: string
  readonly keywordOnly: readonly { readonly name: string; readonly fallback?: Expression }[]
  readonly keywords?: string
}

export type Statement =
  | { readonly node: 'expression'; readonly value: Expression; readonly line: number }
  | { readonly node: 'assign'; readonly targets: readonly Expression[]; readonly value: Expression; readonly line: number }
  | {
      readonly node: 'augmented'
      readonly target: Expression
      readonly operator: BinaryOperator
      readonly value: Expression
      readonly line: number
    }
  /** `x: int` alone: makes the name local, no more. */
  | { readonly node: 'declare'; readonly target: Expression; readonly line: number }
  | { readonly node: 'delete'; readonly targets: readonly Expression[]; readonly line: number }
  | { readonly node: 'pass' | 'break' | 'continue'; readonly line: number }
  | { readonly node: 'return'; readonly value?: Expression; readonly line: number }
  | { readonly node: 'global' | 'nonlocal'; readonly names: readonly string[]; readonly line: number }
  | { readonly node: 'assert'; readonly test: Expression; readonly message?: Expression; readonly line: number }
  | { readonly node: 'raise'; readonly value?: Expression; readonly line: number }
  | { readonly node: 'import'; readonly module: string; readonly as: string; readonly line: number }
  /** `names` is null for `*`. */
  | {
      readonly node: 'importFrom'
      readonly module: string
      readonly names: readonly { readonly name: string; readonly as: string }[] | null
      readonly line: number
    }
  | {
      readonly node: 'if'
      readonly test: Expression
      readonly then: readonly Statement[]
      readonly otherwise: readonly Statement[]
      readonly line: number
    }
  | {
      readonly node: 'while'
      readonly test: Expression
      readonly body: readonly Statement[]
      readonly otherwise: readonly Statement[]
      readonly line: number
    }
  | {
      readonly node: 'for'
      readonly target: Expression
      readonly iterable: Expression
      readonly body: readonly Statement[]
      readonly otherwise: readonly Statement[]
      readonly line: number
    }
  | {
      readonly node: 'try'
      readonly body: readonly Statement[]
      readonly handlers: readonly Handler[]
      readonly otherwise: readonly Statement[]
      readonly finally: readonly Statement[]
      readonly line: number
    }
  | {
      readonly node: 'function'
      readonly name: string
      readonly parameters: Parameters
      readonly body: readonly Statement[]
      readonly decorators: readonly Expression[]
      readonly line: number
    }

export interface Handler {
  readonly type?: Expression
  readonly name?: string
  readonly body: readonly Statement[]
}
