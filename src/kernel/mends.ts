/** A textual change to one file of tslab 1.0.22. */
export interface Mend {
  /** Inside tslab/dist. */
  readonly file: 'converter.js' | 'executor.js'
  readonly why: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
}

/** Each entry stands alone: take one out and only what its `why` says is lost. (`root` is where this package lies.) */
export const mends = (root: string): readonly Mend[] => [
  {
    file: 'converter.js',
    why: 'packages that only have `exports`, and TypeScript sources imported as .js, resolve',
    find: 'ts.ModuleResolutionKind.Node10',
    replace: 'ts.ModuleResolutionKind.Bundler',
  },
  {
    file: 'converter.js',
    why: 'cells are checked as strictly as the sources that they import',
    find: 'experimentalDecorators: true,',
    replace: 'experimentalDecorators: true, strict: true,',
  },
  {
    file: 'converter.js',
    why: 'the standard library of the sources (ES2023) is known',
    find: 'return { target: ts.ScriptTarget.ES2022, lib: ["es2022"] };',
    replace: 'return { target: ts.ScriptTarget.ES2022, lib: ["es2023"] };',
  },
  {
    file: 'converter.js',
    why: 'only the cell and its neighbours are checked: sources elsewhere are checked by this repository’s own, newer compiler',
    find: 'if (dep !== sourceFile.fileName) {\n            files.push(',
    replace: 'if (dep !== sourceFile.fileName && path_1.default.dirname(dep) === path_1.default.dirname(sourceFile.fileName)) {\n            files.push(',
  },
  // Three places say one thing: sources may lie above the notebook's folder (`../src/…`), so emitted paths count from the file system's root.
  { file: 'converter.js', why: 'sources above the notebook’s folder: the root', find: 'rootDir: cwd,', replace: 'rootDir: "/",' },
  {
    file: 'converter.js',
    why: 'sources above the notebook’s folder: where a cell’s own output is',
    find: 'const dstFilename = (0, tspath_1.normalizeJoin)(outDir, "__tslab__.js");\n    const dstDeclFilename = (0, tspath_1.normalizeJoin)(outDir, "__tslab__.d.ts");',
    replace: 'const dstFilename = (0, tspath_1.normalizeJoin)(outDir, cwd, "__tslab__.js");\n    const dstDeclFilename = (0, tspath_1.normalizeJoin)(outDir, cwd, "__tslab__.d.ts");',
  },
  {
    file: 'converter.js',
    why: 'sources above the notebook’s folder: where the output of an imported source is',
    find: 'path: (0, tspath_1.normalizeJoin)(cwd, rel),',
    replace: 'path: (0, tspath_1.normalizeJoin)("/", rel),',
  },
  {
    file: 'converter.js',
    why: '`teamtr` has types in every folder (tslab forwards its own name so; this forwards ours too)',
    find: 'function forwardTslabPath(cwd, path) {',
    replace: `function forwardTslabPath(cwd, path) {
    const own = (0, tspath_1.normalizeJoin)(cwd, "node_modules", "teamtr");
    if (path === own || path.startsWith(own + "/")) return ${JSON.stringify(root.replace(/\/$/, ''))} + path.slice(own.length);`,
  },
  {
    file: 'executor.js',
    why: '`teamtr` loads in every folder',
    find: 'return req.apply(thisArg, argArray);\n        },',
    replace: `if (arg === "teamtr" || arg.startsWith("teamtr/")) return createRequire(${JSON.stringify(root)})(arg);
            return req.apply(thisArg, argArray);
        },`,
  },
  {
    file: 'executor.js',
    why: 'a folder’s index.ts can be imported',
    find: 'if (!sideOutputs.has(filename)) {\n            return null;\n        }',
    replace: `if (!sideOutputs.has(filename)) {
            const index = (0, tspath_1.normalizeJoin)(dirname, id, "index.js");
            return sideOutputs.has(index) ? requireFromSideOutputs(id.replace(/\\/?$/, "/index.js")) : null;
        }`,
  },
  {
    file: 'converter.js',
    why: '`{ x }` finds an x of an earlier cell (tslab rewrites uses of x, but not this short form of `{ x: x }`)',
    find: 'function wrapPrevIdentifier(node) {\n            var _a, _b;',
    replace: `function wrapPrevIdentifier(node) {
            var _a, _b;
            if (ts.isShorthandPropertyAssignment(node) && !node.objectAssignmentInitializer) {
                const value = checker.getShorthandAssignmentValueSymbol(ts.getOriginalNode(node));
                if (value?.declarations?.some((declaration) => declaration.getSourceFile() === declsFile)) {
                    return ts.factory.createPropertyAssignment(node.name, ts.factory.createPropertyAccessExpression(ts.factory.createIdentifier("exports"), node.name));
                }
            }`,
  },
  // Three places say one thing: an error shows the line of the cell that threw it.
  { file: 'converter.js', why: 'lines of the cell: TypeScript to ES module', find: 'rootDir: "/",', replace: 'rootDir: "/", inlineSourceMap: true,' },
  {
    file: 'converter.js',
    why: 'lines of the cell: ES module to CommonJS (both maps stay in the script as comments; stack.ts reads them)',
    find: '            noImplicitUseStrict: true,\n        },\n    }).outputText;',
    replace: '            noImplicitUseStrict: true,\n            inlineSourceMap: true,\n        },\n    }).outputText;',
  },
  {
    file: 'executor.js',
    why: 'lines of the cell: the script is named, and its text kept for the maps',
    find: 'const ret = vm_1.default.runInThisContext(wrapped, {',
    replace: 'globalThis.__teamtrCell = wrapped;\n            const ret = vm_1.default.runInThisContext(wrapped, {\n                filename: "cell",',
  },
]
